"""The table of places: what it names is there, and of the reconcile it leaves no module out."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w./-]+(?:\.py|\.md|/))`", PAGE)))
"""Files and folders, by as much of their path as tells them apart."""


def places() -> set[str]:
    """Every file and folder of ours, with a slash at both ends of a folder."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    files = listed or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*") if ".venv" not in path.parts]
    folders = {f"{parent}/" for file in files for parent in Path(file).parents if str(parent) != "."}
    return {f"/{one}" for one in (*files, *folders)}


PLACES = places()


@pytest.mark.parametrize("name", NAMED)
def test_every_place_that_is_named_exists(name: str) -> None:
    assert any(place.endswith(f"/{name}") for place in PLACES)


def test_every_module_of_the_reconcile_has_its_row() -> None:
    modules = {path.name for path in (ROOT / "core/vworkspace_core/reconcile").glob("[a-z]*.py")}

    assert modules <= set(NAMED)
    assert len(NAMED) > 40

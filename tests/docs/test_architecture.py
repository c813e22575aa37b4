"""The table of rooms: what it names is there, and no room is left out."""

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


def test_every_room_is_in_the_table() -> None:
    floors = (ROOT / "core/vworkspace_core", ROOT / "app/vworkspace_app")
    rooms = {path.parent.name for floor in floors for path in floor.glob("*/__init__.py")}

    assert {f"{room}/" for room in rooms} <= {f"{Path(name).name}/" for name in NAMED if name.endswith("/")}
    assert len(NAMED) > 40


def test_no_module_stands_outside_of_the_rooms() -> None:
    """There is none but the entry of the command line, and what it says where its packages are not installed."""
    loose = {
        path.name
        for floor in ("core/vworkspace_core", "app/vworkspace_app")
        for path in (ROOT / floor).glob("*.py")
        if path.name != "__init__.py"
    }
    assert loose == {"__main__.py", "missing_packages.py"}

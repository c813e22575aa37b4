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


def test_every_place_that_is_named_exists() -> None:
    assert [name for name in NAMED if not any(place.endswith(f"/{name}") for place in PLACES)] == []


PACKAGES = {
    "purekube": ROOT / "core/purekube",
    "vworkspace_core": ROOT / "core/vworkspace_core",
    "purekube_run": ROOT / "app/purekube_run",
    "vworkspace_app": ROOT / "app/vworkspace_app",
    "kubelab": ROOT / "adapters/fake/kubelab",
    "vworkspace_fake": ROOT / "adapters/fake/vworkspace_fake",
}


def rooms_in_the_table(package: str) -> set[str]:
    """The rooms in rows of the table that name the package."""
    table = PAGE.split("| room | content | packages |", 1)[1].split("\n\n", 1)[0]
    rows = [row.strip("| ").split("|") for row in table.splitlines()[2:]]
    return {room for row in rows if package in row[-1].strip().split(", ") for room in re.findall(r"`(\w+)/`", row[0])}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_table_names_every_room_of_a_package_and_no_other(package: str) -> None:
    rooms = {path.parent.name for path in PACKAGES[package].glob("*/__init__.py")}

    assert rooms_in_the_table(package) == rooms


LOOSE = {
    "purekube": {"lazy_door.py"},
    "vworkspace_core": set(),
    "purekube_run": set(),
    "vworkspace_app": {"__main__.py", "arguments.py", "completion.py", "missing_packages.py", "verbs.py"},
    "kubelab": {"__main__.py", "clock.py", "command.py", "entropy.py", "inprocess.py", "plugin.py", "server.py"},
    "vworkspace_fake": set(),
}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_further_module_is_outside_of_the_rooms(package: str) -> None:
    """A module that every room needs, or that is an entry, says so in its name."""
    assert {path.name for path in PACKAGES[package].glob("*.py")} - {"__init__.py"} == LOOSE[package]

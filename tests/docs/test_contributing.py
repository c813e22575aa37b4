"""CONTRIBUTING.md is one page, and its table of rooms is that of both cores."""

import re

from tests.docs.markdown import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def rooms() -> set[str]:
    """Every room that the table names."""
    table = PAGE.split("| room |", 1)[1].split("\n\n", 1)[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_it_is_one_page() -> None:
    assert len(PAGE.splitlines()) <= 100


def test_the_table_names_every_room_of_the_cores_and_no_other() -> None:
    packages = (ROOT / "core" / "purekube", ROOT / "core" / "vworkspace_core")
    folders = {path.parent.name for package in packages for path in package.glob("*/__init__.py")}

    assert rooms() == folders

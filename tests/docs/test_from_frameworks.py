"""The pages for users of kopf and controller-runtime do what they say: their modules pass the tests on the page."""

import re
from pathlib import Path

import pytest

from purekube import reconcilers
from purekube.reconcilers import Cause
from tests.docs.markdown import FENCED, ROOT
from tests.docs.tutorial import Tutorial

PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("from-kopf", "from-controller-runtime")}
KOPF = [
    *("01 minimal", "02 children", "03 exceptions", "04 events", "05 handlers", "06 peering", "07 subhandlers"),
    *("08 raw", "09 testing", "10 built-in", "11 filters", "12 embedded", "13 hooks", "14 daemons", "15 timers"),
    *("16 indexing", "17 admission", "99 all"),
]
"""The folders of examples in kopf's repository, by number."""
OTHERS = {"EVERYTHING", "FakeCluster", "Lease", "MailboxStatus", "Pod"}
"""Words of that column that the room of reconcilers does not offer: kopf's, Kubernetes' and the kit's."""


@pytest.fixture(params=sorted(PAGES))
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Tutorial:
    """One page, followed in a folder of its own, with its modules."""
    tutorial = Tutorial(PAGES[request.param], tmp_path)
    for name, text in modules(tutorial).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tutorial


def modules(page: Tutorial) -> dict[str, str]:
    """The modules of a page by their names."""
    return {name: text for language, name, text in page.blocks if language == "python"}


@pytest.mark.slow
def test_the_tests_of_the_page_pass(page: Tutorial) -> None:
    command, tests = page.block("sh", "test"), [name for name in modules(page) if name.startswith("test_")]
    assert command.split() == ["pytest", *tests]

    shown = page.shell(command)

    count = sum(modules(page)[name].count("\ndef test_") for name in tests)
    assert f"{count} passed" in shown


@pytest.mark.slow
def test_its_types_hold(page: Tutorial) -> None:
    page.shell(f"mypy --strict --cache-dir {ROOT / '.mypy_cache' / 'page'} {' '.join(modules(page))}")


def rows_of(name: str) -> list[str]:
    """The rows of a page's tables."""
    text = FENCED.sub("", PAGES[name].read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_each_example_of_kopf_has_a_row() -> None:
    rows = rows_of("from-kopf")

    assert [named for named in KOPF if not any(row.startswith(f"| {named}") for row in rows)] == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_column_of_ours_names_what_is_there(name: str) -> None:
    code = [word for row in rows_of(name) for word in re.findall(r"`([^`]+)`", row.split("|")[2])]
    names = {word for text in code for word in re.findall(r"\b[A-Z][A-Z_a-z]+\b", text)}

    assert names - {*reconcilers.__all__, *(cause.name for cause in Cause)} - OTHERS == set()

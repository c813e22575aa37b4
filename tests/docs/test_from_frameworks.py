"""The pages for users of kopf and controller-runtime do what they say: their modules pass the tests on the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from purekube import reconcilers
from purekube.reconcilers import Cause
from tests.docs.markdown import FENCED, ROOT

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("from-kopf", "from-controller-runtime")
}
MODULES = {
    name: dict(re.findall(r"^```python ([^\n]+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    for name, page in PAGES.items()
}
KOPF = (
    *(
        "01 minimal",
        "02 children",
        "03 exceptions",
        "04 events",
        "05 handlers",
        "06 peering",
        "07 subhandlers",
        "08 raw",
    ),
    *("09 testing", "10 built-in", "11 filters", "12 embedded", "13 hooks", "14 daemons", "15 timers", "16 indexing"),
    *("17 admission", "99 all"),
)
"""The folders of examples in kopf's repository, by number."""
OTHERS = {"EVERYTHING", "FakeCluster", "Lease", "MailboxStatus", "Pod"}
"""Words of that column that the room of reconcilers does not offer: kopf's, Kubernetes' and the kit's."""


@pytest.fixture(params=sorted(PAGES))
def page(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The name of a page, and a folder with its modules."""
    for name, text in MODULES[request.param].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return request.param, tmp_path


def ended(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command of Python's that has run in a folder."""
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_tests_of_the_page_pass(page: tuple[str, Path]) -> None:
    name, folder = page
    tests = [module for module in MODULES[name] if module.startswith("test_")]
    assert f"pytest {' '.join(tests)}" in PAGES[name]

    run = ended(folder, "pytest", "-q", "-p", "no:cacheprovider", *tests)

    count = sum(MODULES[name][module].count("\ndef test_") for module in tests)
    assert run.returncode == 0, run.stdout
    assert f"{count} passed" in run.stdout


@pytest.mark.slow
def test_its_types_hold(page: tuple[str, Path]) -> None:
    name, folder = page
    cache = str(ROOT / ".mypy_cache" / "page")

    run = ended(folder, "mypy", "--strict", "--cache-dir", cache, *MODULES[name])

    assert run.returncode == 0, run.stdout


def test_each_example_of_kopf_has_a_row() -> None:
    rows = [line for line in PAGES["from-kopf"].splitlines() if line.startswith("| ")]

    assert [named for named in KOPF if not any(row.startswith(f"| {named}") for row in rows)] == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_column_of_ours_names_what_is_there(name: str) -> None:
    rows = [line.split("|")[2] for line in FENCED.sub("", PAGES[name]).splitlines() if line.startswith("| ")]
    code = [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
    names = {word for text in code for word in re.findall(r"\b[A-Z][A-Z_a-z]+\b", text)}

    assert names - {*reconcilers.__all__, *(cause.name for cause in Cause)} - OTHERS == set()

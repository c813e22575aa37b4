"""Every link of every page leads to a file and a heading that are there, and the index of docs/ leads to every page."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.docs.markdown import ROOT, anchors, links, text_of

INDEX = ROOT / "docs" / "README.md"
PATH = re.compile(r"`((?:core|adapters|app|tests|tools|bench|docs|deploy|manifests|examples|scripts)/[\w./-]+)`")
"""A file or folder of the repository, named in a text."""
MODULE = re.compile(r"`([\w/]+\.py)`")
"""A module, named by the end of its path."""


def ends_of(path: Path) -> Iterator[str]:
    """Every way to name a file by the end of its path."""
    parts = path.relative_to(ROOT).parts
    yield from ("/".join(parts[start:]) for start in range(len(parts)))


def pages() -> list[Path]:
    """Every page that is checked in."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    return [ROOT / name for name in listed] or [path for path in ROOT.rglob("*.md") if ".venv" not in path.parts]


PAGES = pages()
MODULES = {end for path in ROOT.glob("[a-z]*/**/*.py") for end in ends_of(path)}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_link_leads_somewhere() -> None:
    dead = [
        f"{named(page)}: {path}#{anchor}"
        for page in PAGES
        for path, anchor in links(page)
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path))
    ]

    assert dead == []


def test_every_path_and_module_that_is_named_is_there() -> None:
    for page in [page for page in PAGES if page.name != "CHANGELOG.md"]:
        text = text_of(page)
        assert [path for path in PATH.findall(text) if not (ROOT / path).exists()] == [], named(page)
        assert [name for name in MODULE.findall(text) if name not in MODULES] == [], named(page)


def test_no_page_is_longer_than_a_reader_stays() -> None:
    """Decisions are read one at a time."""
    lengths = {named(page): len(text_of(page).split()) for page in PAGES if page.parent.name != "decisions"}
    assert {page: words for page, words in lengths.items() if words > 2_500} == {}


def test_the_index_leads_to_every_page_of_docs() -> None:
    linked = {path for path, _ in links(INDEX)}
    in_docs = {page for page in PAGES if page.parent == ROOT / "docs"} - {INDEX}
    folders = {page.parent / "README.md" for page in PAGES if ROOT / "docs" in page.parents} - {INDEX}

    assert in_docs - linked == set()
    assert {path for path in folders if path.exists()} - linked == set()


def test_every_page_of_docs_is_reached_from_its_index() -> None:
    reached, ahead = set[Path](), [INDEX]
    while ahead:
        page = ahead.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            ahead += [path for path, _ in links(page)]

    assert {page for page in PAGES if ROOT / "docs" in page.parents} - reached == set()


def test_every_line_of_the_index_has_a_link_and_says_what_it_leads_to() -> None:
    entries = re.findall(r"^\* (.+(?:\n  .+)*)", text_of(INDEX), re.MULTILINE)

    assert len(entries) >= 20
    assert [entry for entry in entries if not re.match(r"\[[^\]]+\]\([^)]+\): \S", entry)] == []


def test_the_front_page_leads_to_the_index() -> None:
    assert INDEX in {path for path, _ in links(ROOT / "README.md")}

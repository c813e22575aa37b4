"""docs/glossary.md: twelve words, each explained once and used with that meaning; their synonyms do not occur."""

import ast
import re

import pytest

from tests.docs.markdown import ROOT, anchors

GLOSSARY = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([\w ]+) \| (.+\.) \| \[[\w-]+\.md\]\(([\w-]+\.md)(?:#([\w-]+))?\) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall(GLOSSARY.read_text(encoding="utf-8"))
USERS_PAGES = sorted(
    path for path in (ROOT / "docs").rglob("*.md") if path != GLOSSARY and path.parent != ROOT / "docs" / "spec"
)
"""Every page except the specification, whose words the clauses fix."""


def test_it_has_twelve_words_each_once_and_in_order() -> None:
    words = [row[0] for row in ROWS]
    assert len(words) == len(set(words)) == 12
    assert words == sorted(words, key=str.lower)


@pytest.mark.parametrize(("word", "meaning", "page", "anchor", "never"), ROWS, ids=[row[0] for row in ROWS])
def test_a_word_leads_to_the_page_that_explains_it(word: str, meaning: str, page: str, anchor: str, never: str) -> None:
    path = ROOT / "docs" / page
    assert len(meaning.split()) >= 6
    assert re.search(rf"\b{word}", path.read_text(encoding="utf-8"), re.IGNORECASE)
    assert not anchor or anchor in anchors(path)


def test_no_synonym_of_a_word_occurs() -> None:
    """A reader who meets two words for one thing looks for the difference."""
    synonyms = [synonym for row in ROWS for synonym in row[4].split(", ")]
    any_of_them = re.compile(rf"\b(?:{'|'.join(map(re.escape, synonyms))})s?\b", re.IGNORECASE)
    for path in USERS_PAGES:
        assert any_of_them.findall(path.read_text(encoding="utf-8")) == [], path.name


def test_a_managed_namespace_has_no_other_name_in_messages() -> None:
    """`check` and `status` print messages, which their readers look up in these pages."""
    synonyms = re.compile(r"\b(?:gated|opened namespace)\b")
    sources = (
        (path, path.read_text(encoding="utf-8"))
        for room in ("core/vworkspace_core", "app/vworkspace_app")
        for path in (ROOT / room).rglob("*.py")
    )
    messages = (
        (path, node.value)
        for path, source in sources
        if "gated" in source or "opened" in source  # to parse each module takes seconds
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    )
    assert [(path.name, message) for path, message in messages if synonyms.search(message)] == []

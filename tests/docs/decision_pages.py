"""The pages of `docs/decisions`, and their index by number, which `make docs-site` builds."""

import re
from collections.abc import Iterator
from functools import cache

import attrs

from tests.docs.markdown import ROOT, anchor

FOLDER = ROOT / "docs" / "decisions"
INDEX = FOLDER / "README.md"
ROOMS = tuple(re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\) \|", INDEX.read_text(encoding="utf-8"), re.MULTILINE))
"""The pages, each called after its room, in the order of the index."""

SECTION = re.compile(r"^## (.+)\n\n(.+)\n\n((?:(?!^## ).*\n?)+)", re.MULTILINE)
HEADING = re.compile(r"(\d+)\. (.+)")
DATED = re.compile(r"(\d{4}-\d{2}-\d{2})\. Clauses?: (.+)\.")


@attrs.frozen
class Decision:
    """A section of a page."""

    number: int
    title: str
    room: str
    date: str
    clauses: tuple[str, ...]
    text: str

    @property
    def link(self) -> str:
        """From the index to the section."""
        return f"{self.room}.md#{anchor(f'{self.number}. {self.title}')}"


def sections(room: str) -> Iterator[Decision]:
    """The decisions of a page in their order; AssertionError for a section without number, date or clauses."""
    page = (FOLDER / f"{room}.md").read_text(encoding="utf-8")
    found = SECTION.findall(page)
    assert len(found) == len(re.findall(r"^## ", page, re.MULTILINE)), f"{room}.md has a section without text"
    for heading, dated, text in found:
        named, told = HEADING.fullmatch(heading), DATED.fullmatch(dated)
        assert named is not None, f"{room}.md: '{heading}' does not begin with a number"
        assert told is not None, f"{room}.md: '{heading}' has no line `2026-01-31. Clauses: ….`"
        clauses = tuple(re.findall(r"\[([A-Z]+-\d+)\]", told[2]))
        assert clauses or told[2] == "none", f"{room}.md: '{heading}' rests on no clause, and does not say so"
        yield Decision(int(named[1]), named[2], room, told[1], clauses, text)


@cache
def decisions() -> tuple[Decision, ...]:
    """All of them, by number."""
    return tuple(
        sorted((decision for room in ROOMS for decision in sections(room)), key=lambda decision: decision.number)
    )


def page() -> str:
    """Return the text of `docs/decisions/README.md` on the site: the committed page and the list by number."""
    head = "## By number\n\n| number | decision | room | date |\n|---|---|---|---|"
    lines = [INDEX.read_text(encoding="utf-8"), head]
    for one in decisions():
        lines.append(f"| {one.number} | [{one.title}]({one.link}) | [{one.room}]({one.room}.md) | {one.date} |")
    return "\n".join(lines) + "\n"

"""What pages in Markdown hold: headings with the anchors that GitHub gives them, and links."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def anchor(heading: str) -> str:
    """The part of a link after `#`, as GitHub makes it from the text of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@cache
def text_of(page: Path) -> str:
    """A page without its fenced blocks, in which neither headings nor links count."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """All anchors of a page; of equal headings the second ends in `-1`."""
    seen: Counter[str] = Counter()
    names = []
    for heading in HEADING.findall(text_of(page)):
        name = anchor(heading)
        names.append(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(names)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links, with the anchor or an empty text; links to other places are left out."""
    for target in LINK.findall(text_of(page)):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, name = target.partition("#")
            yield ((page.parent / path).resolve() if path else page.resolve()), name

"""The pages of `docs/decisions`, and their index, which `make manifests` writes."""

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

from tests.docs.markdown import ROOT, anchor

FOLDER = ROOT / "docs" / "decisions"
INDEX = FOLDER / "README.md"
ROOMS = {
    "apimachinery": "manifests, resources, errors and times",
    "api": "our kinds: forms, labels, conditions, secret material",
    "controller": "what all controllers share: passes, caches, queue, Lease, Events",
    "graph": "one engine for the children of any owner: order, prune, teardown, create once",
    "instances": "what becomes of an ApplicationInstance, and what Flux's reports mean",
    "operations": "what becomes of an Operation; engines, templates, approvals",
    "clusters": "the Cluster object: what the operator says of itself",
    "jobs": "jobs and `control_plane`: the job store, the agent, pace and order on the wire",
    "credentials": "the credentials Secret, registration, rotation",
    "webhook": "the admission webhooks",
    "expressions": "`cel`, `schema` and `readiness`",
    "boxes": "operators from a file",
    "reconcilers": "reconcilers and watchers in Python",
    "kube-adapter": "how requests reach the API server",
    "odoo-adapter": "how requests reach the control plane; signatures and encryption",
    "laboratory": "the embedded API server, the simulated controllers, the embedded control plane",
    "app": "the process: ports, logs, composition, installation, rights",
    "tests-and-tools": "tests, benchmarks, releases",
}
"""What each page speaks of, in the order of the index. A page is called after its room."""

INTRODUCTION = """\
# Decisions

What shapes the code and does not follow from the [specification](../spec/README.md): what was unclear, what we do, and
why. Each decision has a number that never changes; code, tests and notes cite it (`decision 58`). Each stands on the
page of its room, with its date and the clauses that it rests on. A new one takes the next number and goes to the end of
its room's page. One that no longer holds stays, and names the one that replaced it. `make manifests` writes this index.
"""

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
    return tuple(sorted((one for room in ROOMS for one in sections(room)), key=lambda one: one.number))


def page() -> str:
    """The text of `docs/decisions/README.md`."""
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        "## By room",
        "",
        "| room | about | decisions |",
        "|---|---|---|",
    ]
    for room, about in ROOMS.items():
        numbers = ", ".join(f"[{one.number}]({one.link})" for one in decisions() if one.room == room)
        lines.append(f"| [{room}]({room}.md) | {about} | {numbers} |")
    lines += ["", "## By number", "", "| number | decision | room | date |", "|---|---|---|---|"]
    for one in decisions():
        lines.append(f"| {one.number} | [{one.title}]({one.link}) | [{one.room}]({one.room}.md) | {one.date} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else INDEX).write_text(page(), encoding="utf-8")

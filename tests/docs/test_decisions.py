"""docs/decisions: each decision has a number of its own, a date, a room and clauses, and what cites one finds it."""

import re
import subprocess

import pytest

from tests.docs.decision_pages import FOLDER, ROOMS, decisions, page
from tests.docs.markdown import ROOT, anchors
from tests.docs.spec_pages import clauses

CITATION = re.compile(r"\bdecisions? (\d+(?:(?:, | and | to )\d+)*)", re.IGNORECASE)
"""`decision 58`, `decisions 52, 53 and 54`."""
WITHIN = re.compile(r"\[(\d+)\]\(([^)]+)\)")


def cited() -> list[tuple[str, int]]:
    """Every place in the repository that names a decision by its number."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    files = [ROOT / name for name in listed] or [path for path in ROOT.rglob("*.*") if ".venv" not in path.parts]
    texts = (
        (path, path.read_text(encoding="utf-8")) for path in files if path.suffix in (".py", ".md", ".toml", ".yaml")
    )
    return [
        (str(path.relative_to(ROOT)), int(number))
        for path, text in texts
        for named in CITATION.findall(text)
        for number in re.findall(r"\d+", named)
    ]


def test_every_page_is_a_room_and_is_in_the_index() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {*ROOMS, "README"}
    assert all((FOLDER / f"{room}.md").read_text(encoding="utf-8").count("](README.md)") for room in ROOMS)


def test_the_index_of_the_site_leads_to_every_decision_by_its_number() -> None:
    rows = re.findall(r"^\| (\d+) \| \[.+?\]\((\S+)\) \|", page(), re.MULTILINE)

    assert rows == [(str(decision.number), decision.link) for decision in decisions()]
    for room in ROOMS:
        assert {link.partition("#")[2] for _, link in rows if link.startswith(f"{room}.md#")} <= anchors(
            FOLDER / f"{room}.md"
        )


def test_numbers_are_given_once() -> None:
    numbers = [decision.number for decision in decisions()]

    assert numbers == sorted(set(numbers))
    assert numbers[-1] >= 244, "the highest number stays, or a new decision would take it again"


def test_a_decision_has_a_heading_a_text_of_a_minute_and_clauses_that_exist() -> None:
    for decision in decisions():
        assert not decision.title.endswith((".", ":", ",")), decision.number
        assert len(decision.text.split()) > 8, decision.number
        assert len(decision.text.rstrip().splitlines()) <= 5, decision.number
        assert set(decision.clauses) <= set(clauses()), decision.number


@pytest.mark.slow
def test_every_decision_that_is_cited_exists() -> None:
    known = {decision.number for decision in decisions()}

    assert {place for place in cited() if place[1] not in known} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_a_number_within_a_page_leads_to_that_decision(room: str) -> None:
    links = {str(decision.number): decision.link for decision in decisions()}
    for number, target in WITHIN.findall((FOLDER / f"{room}.md").read_text(encoding="utf-8")):
        assert links[number] in (target, f"{room}.md{target}")

"""Behaviour is what it was, to the byte: decisions, machines, requests, messages and statuses, on a recorded corpus.

Worlds are JSON (`worlds/`) and so is what came of them (`golden/`); `neutral.py` and `play.py` turn one into the other.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.corpus.corpus import fingerprint, golden, pass_name, read_lines, worlds
from tests.corpus.neutral import CLASSES, Json, canonical
from tests.corpus.passes import STORIES, record
from tests.corpus.play import DECISIONS, MACHINES, play
from vworkspace_core.api.vocabulary import TABLE

WORLDS: Final = worlds()
REMEDY: Final = (
    "Behaviour has changed. A commit that moves, renames or unifies must not do that. Where it is meant to: "
    "`python -m tests.corpus.record`, and read the difference in tests/corpus/golden line by line."
)
LINES_SHOWN: Final = 40

UNSPOKEN: Final = frozenset(
    {
        "admission",
        "closed",
        "condition",
        "error",
        "informer remove",
        "rotated",
        "spent approvals",
    }
)
"""Words of `neutral.py` that no world needs."""

UNSAID: Final = frozenset(
    {
        "ApplicationInstance Blocked True AwaitingApproval",
        "ApplicationInstance Blocked True InternalError",
        "ApplicationInstance Blocked True MissingChartSource",
        "ApplicationInstance Deleting True AwaitingConfirmation",
        "Cluster Hardened False OpenPolicy",
        "Cluster Hardened False UnguardedNamespaces",
        "Cluster JobsBlocked False RecordsStored",
        "Cluster JobsBlocked True RecordsNotStored",
        "Operation Blocked True FieldConflict",
        "Operation Blocked True Forbidden",
        "Operation Blocked True InternalError",
        "Operation Cancelled True SupersededByOperation",
        "Operation Failed True EngineFailed",
        "Operation Failed True ValidationFailed",
    }
)
"""Conditions that the corpus does not show."""


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_come_to_what_they_came_to(name: str) -> None:
    """Each decision and each step of a machine, on the same worlds, gives the same bytes."""
    expected = list(read_lines(golden(name)))
    assert [fingerprint(one) for one in WORLDS[name]] == [line["world"] for line in expected], (
        "worlds and golden are not of one recording"
    )
    for number, (world, was) in enumerate(zip(WORLDS[name], expected, strict=True)):
        _same(was["comes to"], play(world), f"world {number} of {name}")


@pytest.mark.parametrize("name", STORIES)
def test_stories_leave_the_operator_in_the_same_words(name: str) -> None:
    """Every write to the API server and every message to the control plane, in order."""
    was, now = list(read_lines(golden(pass_name(name)))), json.loads(canonical(record(STORIES[name])))
    for number, (one, other) in enumerate(zip(was, now, strict=False)):
        _same(one, other, f"line {number} of the story {name!r}")
    assert len(now) == len(was), f"{name}: {len(now)} writes and messages instead of {len(was)}. {REMEDY}"


def _same(was: Json, now: Json, what: str) -> None:
    if canonical(was) == canonical(now):
        return
    before, after = (json.dumps(one, indent=1, sort_keys=True, ensure_ascii=False).split("\n") for one in (was, now))
    lines = list(difflib.unified_diff(before, after, "recorded", "now", n=2, lineterm=""))
    left = [f"… and {len(lines) - LINES_SHOWN} lines more"] if len(lines) > LINES_SHOWN else []
    pytest.fail("\n".join([f"{what}:", *lines[:LINES_SHOWN], *left, REMEDY]), pytrace=False)


# --- what the corpus covers -----------------------------------------------------------------------------------


def _everything(data: Json) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        yield data
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            yield from _everything(one)


RECORDED: Final = {name: [line["comes to"] for line in read_lines(golden(name))] for name in WORLDS}


def test_every_decision_and_every_machine_is_played() -> None:
    """Nothing that `play.py` can play is without worlds."""
    assert {world["of"] for found in WORLDS.values() for world in found} == {*DECISIONS, *MACHINES}


def test_every_word_of_the_machines_is_spoken() -> None:
    """Every event, effect and error that `neutral.py` knows occurs, but for those named here."""
    seen = {one.get("~") for one in _everything([list(WORLDS.values()), list(RECORDED.values())])}
    assert CLASSES.keys() - seen == UNSPOKEN


def test_every_effect_of_a_decision_occurs() -> None:
    """Every part of a decision, and every pace at which one is to look again."""
    decisions = [one for name, found in RECORDED.items() if WORLDS[name][0]["of"] in DECISIONS for one in found]
    assert set().union(*decisions) == {
        "apply",
        "create",
        "delete",
        "dry run",
        "events",
        "finalizer",
        "look again after",
        "only if current",
        "pace",
        "patch",
        "status",
        "transitions",
    }
    assert {decision.get("finalizer") for decision in decisions} == {None, "add", "remove"}
    assert {decision.get("pace") for decision in decisions} == {None, "backoff", "slow", "refused"}
    assert any("force" in one for one in _everything(decisions))


def test_every_condition_is_said() -> None:
    """Every row of the vocabulary (RES-4) stands in a status of the corpus, but for those named here."""
    stories = [list(read_lines(golden(pass_name(name)))) for name in STORIES]
    said = {
        (found["kind"], condition["type"], condition["status"], condition["reason"])
        for found in _everything([list(RECORDED.values()), stories])
        if str(found.get("kind")) in TABLE and isinstance(found.get("status"), Mapping)
        for condition in found["status"].get("conditions", ())
    }
    rows = {
        (kind, str(entry.type), str(entry.status), str(reason))
        for kind, entries in TABLE.items()
        for entry in entries
        for reason in entry.reasons
    }
    assert {" ".join(row) for row in rows - said} == UNSAID

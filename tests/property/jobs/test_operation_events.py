"""Life-cycle events of Operations: each happening once, with a key that says which (PULL-6)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Manifest
from tests.support.builders import condition
from tests.support.jobs import instance, operation, with_status
from vworkspace_core.jobs.events import phase_events, phase_in

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
STARTED, FINISHED = "2026-01-01T00:01:00Z", "2026-01-01T00:04:00Z"
PHASES = ("", "Pending", "Running", "Succeeded", "Failed", "Cancelled")


def live(phase: str, *conditions: dict[str, Any], started: bool = True) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase} if phase else {}
    if started and phase not in ("", "Pending"):
        status["startedAt"] = STARTED
    if phase in ("Succeeded", "Failed", "Cancelled"):
        status["finishedAt"] = FINISHED
    found = operation()
    found["metadata"] |= {"uid": "u1", "generation": 1}
    return with_status(found, *conditions, **status)


@pytest.mark.parametrize("missing", ["type", "engine", "targetRef", "message", "reason"])
@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_happening_says_nothing_of_what_the_object_does_not_say(phase: str, missing: str) -> None:
    why = condition(phase, "True", "R", message="why")
    found = live(phase, {name: value for name, value in why.items() if name == "type" or name != missing})
    found["spec"] = {name: value for name, value in found["spec"].items() if name != missing}

    for event in phase_events("Pending", found, NOW):
        told = event["operation"]
        assert None not in told.values()
        is_end = event["kind"] == f"Operation{phase}" and phase == "Failed"
        expected = {"type", "engine", "target"} | ({"finishedAt", "reason", "message"} if is_end else {"startedAt"})
        assert told.keys() == expected - {missing if missing != "targetRef" else "target"}


def kinds(before: str | None, now: Manifest, at: datetime = NOW) -> list[str]:
    return [event["kind"] for event in phase_events(before, now, at)]


@pytest.mark.parametrize(
    ("before", "phase", "told"),
    [
        ("", "Pending", []),
        ("Pending", "Running", ["OperationStarted"]),
        ("", "Running", ["OperationStarted"]),
        ("Running", "Running", []),
        ("Running", "Succeeded", ["OperationSucceeded"]),
        ("Running", "Failed", ["OperationFailed"]),
        ("Running", "Cancelled", ["OperationCancelled"]),
        ("Pending", "Succeeded", ["OperationStarted", "OperationSucceeded"]),
        ("Succeeded", "Succeeded", []),
    ],
)
def test_what_each_change_of_phase_tells_PULL_6(before: str, phase: str, told: list[str]) -> None:
    assert kinds(before, live(phase)) == told


def test_one_that_was_cancelled_before_it_started_never_started() -> None:
    assert kinds("Pending", live("Cancelled", started=False)) == ["OperationCancelled"]


def test_at_first_sight_only_what_is_recent_is_told() -> None:
    assert kinds(None, live("Succeeded")) == ["OperationStarted", "OperationSucceeded"]
    assert kinds(None, live("Succeeded"), NOW + timedelta(minutes=8)) == ["OperationSucceeded"]
    assert kinds(None, live("Succeeded"), NOW + timedelta(hours=1)) == []


def test_an_end_is_told_whole_and_redacted() -> None:
    failed = live("Failed", condition("Failed", "True", "Timeout", 1, "password=hunter2"))

    (told,) = phase_events("Running", failed, NOW)

    assert told["eventKey"] == "operation/org-myteam/backup-1/u1/OperationFailed"
    assert told["timestamp"] == "2026-01-01T00:05:00Z"
    assert told["resourceRef"]["uid"] == "u1"
    assert [(one["type"], one["message"]) for one in told["conditions"]] == [("Failed", "password=***")]
    assert told["operation"] == {
        "type": "Backup",
        "engine": "velero",
        "target": "nextcloud-myteam",
        "finishedAt": FINISHED,
        "reason": "Timeout",
        "message": "password=***",
    }


def test_other_kinds_have_no_such_life() -> None:
    found = with_status(instance(), phase="Running", startedAt=STARTED)

    assert phase_in(found) == ""
    assert phase_events(None, found, NOW) == ()
    assert phase_events("", found, NOW) == ()


@given(st.lists(st.sampled_from(PHASES), max_size=8))
def test_whatever_was_missed_each_happening_has_one_key(seen: list[str]) -> None:
    """Phases only move forward; an informer may show any of them, any number of times."""
    rank = {phase: min(place, 3) for place, phase in enumerate(PHASES)}
    forward: list[str] = []
    for phase in seen:
        if not forward or rank[phase] > rank[forward[-1]] or phase == forward[-1]:
            forward.append(phase)

    told = [
        event
        for before, phase in zip(["", *forward], forward, strict=False)
        for event in phase_events(before, live(phase), NOW)
    ]

    assert len({event["eventKey"] for event in told}) == len(told)
    assert ("OperationStarted" in [event["kind"] for event in told]) == any(rank[phase] >= 2 for phase in forward)

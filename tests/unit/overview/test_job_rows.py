"""The rows and entries of the control plane's jobs and events, field by field (SEE-3)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from vworkspace_core.overview.job_list import JobLine, event_entry, job_entries, job_line
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.timeline import TimelineEntry

AT = [f"2026-01-01T00:0{number}:00Z" for number in range(3)]
TIMES = [datetime(2026, 1, 1, 0, number, tzinfo=UTC) for number in range(3)]
PAYLOAD = {"kind": "ApplicationInstance", "metadata": {"namespace": "ns", "name": "a"}}
ENTRY: dict[str, Any] = {
    "id": "j-1",
    "clusterId": "c",
    "job": {"kind": "apply", "payload": PAYLOAD, "idempotencyKey": "k@1"},
    "offers": 3,
    "statuses": [{"phase": "Pending", "message": "first"}, {"phase": "Ready", "message": "last"}],
    "offeredAt": AT[0],
    "ackedAt": AT[1],
    "closedAt": AT[2],
    "result": {"outcome": "succeeded", "error": ""},
}


def test_a_row_has_every_field_of_its_job() -> None:
    assert job_line(ENTRY) == JobLine(
        id="j-1",
        cluster="c",
        kind="apply",
        about="ApplicationInstance ns/a",
        key="k@1",
        state="succeeded",
        severity=Severity.GOOD,
        offers=3,
        message="last",
        phase="Ready",
        offered=TIMES[0],
        acked=TIMES[1],
        closed=TIMES[2],
    )
    assert job_line({**ENTRY, "result": {"outcome": "failed", "error": "why"}}).message == "why"


def test_what_is_malformed_is_left_empty() -> None:
    nothing = JobLine("", "", "", "", "", "waits for its agent", Severity.WAITING, 0)

    assert job_line({}) == nothing
    odd = {"id": 5, "job": [], "statuses": "x", "offers": "3", "offeredAt": "", "result": "x", "closedAt": None}
    assert job_line(odd) == nothing
    assert job_line({**ENTRY, "statuses": []}).phase == ""


@pytest.mark.parametrize(
    ("entry", "state", "severity"),
    [
        ({}, "waits for its agent", Severity.WAITING),
        ({"offeredAt": AT[0]}, "offered", Severity.WAITING),
        ({"offeredAt": AT[0], "ackedAt": AT[1]}, "acknowledged", Severity.MOVING),
        ({"offeredAt": AT[0], "ackedAt": AT[1], "closedAt": AT[2]}, "withdrawn", Severity.QUIET),
        ({"result": {"outcome": "succeeded"}}, "succeeded", Severity.GOOD),
        ({"result": {"outcome": "noop"}}, "noop", Severity.QUIET),
        ({"result": {"outcome": "failed"}, "closedAt": AT[2]}, "failed", Severity.BAD),
        ({"result": {"outcome": "conflict"}}, "conflict", Severity.BAD),
        ({"result": {"outcome": "odd"}}, "odd", Severity.QUIET),
    ],
)
def test_the_state_of_a_job_is_its_outcome_or_how_far_it_has_come(
    entry: dict[str, Any], state: str, severity: Severity
) -> None:
    line = job_line(entry)

    assert (line.state, line.severity) == (state, severity)


@pytest.mark.parametrize(
    ("payload", "about"),
    [
        ("x" * 9, "encrypted"),
        (PAYLOAD, "ApplicationInstance ns/a"),
        ({"kind": "Operation", "namespace": "ns", "name": "a"}, "Operation ns/a"),
        ({"kind": "Cluster", "name": "a"}, "Cluster a"),
        ({"name": "a"}, "a"),
        ({"operation": {**PAYLOAD, "kind": "Operation"}}, "Operation ns/a"),
        ({"applicationInstance": PAYLOAD}, "ApplicationInstance ns/a"),
        ({"name": "top", "operation": PAYLOAD}, "top"),
        ({"kind": "Operation", "name": "b", "metadata": {"name": "a", "namespace": "ns"}}, "Operation ns/b"),
        ({"other": PAYLOAD}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_the_object_of_a_payload_is_named_wherever_it_is(payload: Any, about: str) -> None:
    assert job_line({"job": {"payload": payload}}).about == about


def test_the_times_of_a_job_are_entries_of_the_timeline() -> None:
    line = job_line(ENTRY)

    assert list(job_entries(line)) == [
        TimelineEntry(TIMES[0], "job j-1 was offered last", Severity.QUIET, "ApplicationInstance ns/a"),
        TimelineEntry(TIMES[1], "job j-1 was acknowledged", Severity.MOVING, "ApplicationInstance ns/a"),
        TimelineEntry(TIMES[2], "job j-1 ended: succeeded", Severity.GOOD, "ApplicationInstance ns/a"),
    ]
    assert list(job_entries(job_line({}))) == []


def test_an_event_is_an_entry_with_its_object_and_conditions() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Up"}
    event = {
        "timestamp": AT[1],
        "kind": "status",
        "resourceRef": {"kind": "Operation", "namespace": "ns", "name": "a"},
        "conditions": [condition] * 9,
    }

    told = "; ".join(["Operation ns/a", *["Ready=True Up"] * 8])
    assert event_entry(event) == TimelineEntry(TIMES[1], "event status", Severity.QUIET, told)
    bare = {"timestamp": AT[1], "resourceRef": {"kind": "Cluster", "name": "c"}}
    assert event_entry(bare) == TimelineEntry(TIMES[1], "event ", Severity.QUIET, "Cluster c")
    no_lists: list[Any] = [{"a": condition}, "x", 5, None, []]
    for odd in no_lists:
        assert event_entry({**bare, "conditions": odd}) == event_entry(bare)
    assert event_entry({"kind": "status"}) is None
    assert event_entry(None) is None

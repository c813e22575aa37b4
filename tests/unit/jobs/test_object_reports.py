"""What an object's raw status says to a job: its word, its summary, its obstacle, whether it has started (PULL-2)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.builders import condition
from tests.support.jobs import instance, operation, with_status
from vworkspace_core.api.labels import CANCEL
from vworkspace_core.jobs.events import (
    condition_events,
    credential_rotated,
    event_key,
    heartbeat,
    phase_events,
    reported_conditions,
    unreported_since,
)
from vworkspace_core.jobs.object_status import (
    can_still_start,
    ended_at,
    has_started,
    is_called_off,
    is_recurring,
    own_conditions_of,
    phase_of,
    summary_of,
    unsettled_reason,
    waits_for_schedule,
)

WAITS = "VolSyncWaitingForSchedule"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def live(*conditions: Any, **status: Any) -> dict[str, Any]:
    return with_status(instance(), *conditions, **status)


def run(*conditions: Any, **status: Any) -> dict[str, Any]:
    return with_status(operation(), *conditions, **status)


def true(*types: str) -> list[dict[str, Any]]:
    return [condition(type_, "True", "R", message=f"of {type_}") for type_ in types]


@pytest.mark.parametrize(
    ("found", "phase", "summary"),
    [
        (live(), "Pending", ""),
        (live(*true("Ready")), "Ready", "of Ready"),
        (live(condition("Ready", "False", "R", message="no")), "Pending", "no"),
        (live(*true("Degraded")), "Degraded", "of Degraded"),
        (live(*true("Other")), "Degraded", ""),
        (live(*true("Ready", "Degraded")), "Ready", "of Ready"),
        (live(*true("Ready", "Reconciling")), "Reconciling", "of Reconciling"),
        (live(*true("Reconciling", "Suspended")), "Suspended", "of Suspended"),
        (live(*true("Suspended", "Stalled")), "Stalled", "of Stalled"),
        (live(*true("Stalled", "Blocked")), "Blocked", "of Blocked"),
        (live(*true("Blocked", "Deleting")), "Deleting", "of Deleting"),
        (live(condition("Stalled", "True", "R"), *true("Ready")), "Stalled", "of Ready"),
        (run(), "Pending", ""),
        (run(phase="Running"), "Running", ""),
        (run(*true("Running", "Blocked"), phase="Running"), "Running", "of Running"),
        (run(*true("Accepted", "Blocked"), phase="Pending"), "Pending", "of Blocked"),
        (run(*true("Accepted"), phase="Pending"), "Pending", "of Accepted"),
        (run(phase=5), "Pending", ""),
    ],
)
def test_an_object_has_one_word_and_the_message_that_explains_it(found: Any, phase: str, summary: str) -> None:
    assert (phase_of(found), summary_of(found)) == (phase, summary)


def test_conditions_that_are_malformed_are_left_out() -> None:
    ready = condition("Ready", "True", "R")

    assert list(own_conditions_of(live("x", {}, {"type": 5}, ready))) == [ready]
    assert list(own_conditions_of({**instance(), "status": {"conditions": "x"}})) == []
    assert list(own_conditions_of({**instance(), "status": {"conditions": (ready,)}})) == [ready]


OBSTACLES = [
    condition("Blocked", "True", "B", message="b"),
    condition("Stalled", "True", "S", message="s"),
    condition("Accepted", "False", "A", message="a"),
    condition("Running", "True", "U", message="u"),
    condition("Ready", "False", "R", message="r"),
    condition("Reconciling", "True", "C", message="c"),
]


@pytest.mark.parametrize("first", range(len(OBSTACLES)))
def test_the_most_informative_obstacle_is_named(first: int) -> None:
    found = live(*reversed(OBSTACLES[first:]))

    told = OBSTACLES[first]
    assert unsettled_reason(found) == f"{told['reason']}: {told['message']}"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (condition("Ready", "Unknown", "Reconciling"), "Reconciling"),
        (condition("Ready", "Unknown", "R", message="m"), "R: m"),
        (condition("Ready", "True", "R", message="m"), ""),
        (condition("Blocked", "False", "B"), ""),
        ({"type": "Blocked", "status": "True", "message": "m"}, ""),
        ({"type": "Blocked", "status": "True", "reason": "B", "message": 5}, "B"),
    ],
)
def test_what_is_no_obstacle_is_not_named(found: Any, reason: str) -> None:
    assert unsettled_reason(live(found)) == reason


def called_off(found: dict[str, Any], text: Any = "true") -> dict[str, Any]:
    return {**found, "metadata": {**found["metadata"], "annotations": {CANCEL: text}}}


@pytest.mark.parametrize(
    ("found", "started", "startable"),
    [
        (run(), False, True),
        (run(phase="Pending"), False, True),
        (run(phase="Running"), True, False),
        (run(phase="Succeeded"), True, False),
        (run(phase="Failed"), True, False),
        (run(phase="Cancelled"), False, False),
        (run(phase="Pending", startedAt="x"), True, False),
        (called_off(run()), False, False),
        (called_off(run(), "yes"), False, True),
        (live(), False, False),
    ],
)
def test_an_operation_can_start_until_it_has_or_was_called_off(found: Any, started: bool, startable: bool) -> None:
    assert (has_started(found), can_still_start(found)) == (started, startable)


def test_only_true_as_text_calls_an_operation_off() -> None:
    assert [is_called_off(called_off(run(), text)) for text in ("true", "True", True, "")] == [
        True,
        False,
        False,
        False,
    ]
    assert is_called_off(run()) is False


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (None, ""),
        (run(), ""),
        (run(phase="Running", finishedAt="t"), ""),
        (run(phase="Succeeded", finishedAt="t"), "Succeeded at t"),
        (run(phase="Failed"), "Failed"),
        (run(phase="Cancelled", finishedAt=5), "Cancelled"),
        (live(phase="Succeeded"), ""),
    ],
)
def test_an_end_is_told_with_its_time(found: Any, ended: str) -> None:
    assert ended_at(found) == ended


def scheduled(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "spec": {**found["spec"], "parameters": {"schedule": "0 1 * * *"}}}


@pytest.mark.parametrize(
    ("found", "recurs", "waits"),
    [
        (run(condition("Running", "True", WAITS)), False, False),
        (scheduled(run(condition("Running", "True", WAITS))), True, True),
        (scheduled(run(condition("Running", "False", WAITS))), True, False),
        (scheduled(run(condition("Running", "True", "Other"))), True, False),
        (scheduled(run()), True, False),
        (scheduled(run(condition("Accepted", "True", "A"), condition("Running", "True", WAITS))), True, True),
        (scheduled(live(condition("Running", "True", WAITS))), False, False),
    ],
)
def test_an_operation_with_a_schedule_waits_between_two_runs(found: Any, recurs: bool, waits: bool) -> None:
    assert (is_recurring(found), waits_for_schedule(found)) == (recurs, waits)


# --- events -------------------------------------------------------------------------------------------------------


def at(minutes: float) -> str:
    return (NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def changed(minutes: float, status: str = "True", reason: str = "R") -> dict[str, Any]:
    return condition("Ready", status, reason, since=at(minutes))


@pytest.mark.parametrize(
    ("before", "now", "previous"),
    [
        (None, changed(-10), None),
        (None, changed(-10.1), "silent"),
        (None, {"type": "Ready", "status": "True", "reason": "R"}, "silent"),
        ({}, changed(-99), None),
        (changed(-99), changed(-99), "silent"),
        (changed(-99, "False"), changed(0), {"status": "False", "reason": "R"}),
        (changed(-99, reason="Q"), changed(0), {"status": "True", "reason": "Q"}),
    ],
)
def test_a_change_is_told_with_what_was_before(before: Any, now: dict[str, Any], previous: Any) -> None:
    known = before if not before else reported_conditions(live(before))

    told = condition_events(known, live(now), NOW)

    assert len(told) == (0 if previous == "silent" else 1)
    if told:
        assert told[0].get("previous") == previous
        assert (told[0]["kind"], told[0]["timestamp"]) == ("ConditionTransition", "2026-01-01T12:00:00Z")


def kinds(before: str | None, since: datetime | None = None, **status: Any) -> list[str]:
    return [event["kind"] for event in phase_events(before, run(**status), NOW, since)]


STARTED = {"startedAt": at(-10)}
ENDED = {**STARTED, "finishedAt": at(-1)}


@pytest.mark.parametrize(
    ("before", "status", "told"),
    [
        ("", {"phase": "Running", **STARTED}, ["OperationStarted"]),
        ("Pending", {"phase": "Running", **STARTED}, ["OperationStarted"]),
        ("Running", {"phase": "Running", **STARTED}, []),
        ("Pending", {"phase": "Running"}, []),
        ("Running", {"phase": "Succeeded", **ENDED}, ["OperationSucceeded"]),
        ("Pending", {"phase": "Failed", **ENDED}, ["OperationStarted", "OperationFailed"]),
        ("Pending", {"phase": "Cancelled", "finishedAt": at(-1)}, ["OperationCancelled"]),
        (None, {"phase": "Succeeded", **ENDED}, ["OperationStarted", "OperationSucceeded"]),
        (None, {"phase": "Succeeded", "startedAt": at(-10.1), "finishedAt": at(-1)}, ["OperationSucceeded"]),
        (None, {"phase": "Succeeded", "startedAt": "soon", "finishedAt": at(-11)}, []),
        (None, {"phase": "Pending", **STARTED}, []),
    ],
)
def test_the_life_of_an_operation_is_told_once(before: str | None, status: Any, told: list[str]) -> None:
    assert kinds(before, **status) == told
    assert phase_events(before, live(**status), NOW) == ()


def test_what_a_former_process_may_not_have_told_is_told() -> None:
    status = {"phase": "Succeeded", "startedAt": at(-60), "finishedAt": at(-30)}

    assert kinds(None, NOW - timedelta(minutes=60), **status) == ["OperationStarted", "OperationSucceeded"]
    assert kinds(None, NOW - timedelta(minutes=59), **status) == ["OperationSucceeded"]


def test_an_end_has_its_details() -> None:
    failed = condition("Failed", "True", "EngineFailed", message="password=hunter2 is wrong")
    (event,) = phase_events("Running", run(failed, phase="Failed", **ENDED), NOW)

    assert event["operation"] == {
        "type": "Backup",
        "engine": "velero",
        "target": operation()["spec"]["targetRef"]["name"],
        "finishedAt": at(-1),
        "reason": "EngineFailed",
        "message": "password=*** is wrong",
    }
    assert event["eventKey"].startswith("operation/")
    assert event["eventKey"].endswith("/OperationFailed")
    (started,) = phase_events("Pending", run(failed, phase="Running", **STARTED), NOW)
    assert set(started["operation"]) == {"type", "engine", "target", "startedAt"}


def cluster(reason: str, changed_at: float, **status: Any) -> dict[str, Any]:
    return {"status": {"conditions": [condition("Connected", "False", reason, since=at(changed_at))], **status}}


@pytest.mark.parametrize(
    ("found", "minutes"),
    [
        (None, -24 * 60 - 10),
        ({"status": {}}, -24 * 60 - 10),
        ({"status": {"lastHeartbeat": at(-5)}}, -15),
        ({"status": {"lastHeartbeat": at(5)}}, -10),
        ({"status": {"lastHeartbeat": "soon"}}, -24 * 60 - 10),
        (cluster("ControlPlaneUnreachable", -99, lastHeartbeat=at(-5)), -15),
        (cluster("NoAgent", -99, lastHeartbeat=at(-5)), -99 - 24 * 60 - 10),
    ],
)
def test_what_may_not_have_been_reported_begins_before_the_last_sign_of_life_PULL_6(found: Any, minutes: float) -> None:
    assert unreported_since(found, NOW) == NOW + timedelta(minutes=minutes)


def test_a_key_has_the_generation_of_the_condition_or_of_the_status_and_the_moment() -> None:
    bare = {"type": "Ready", "status": "True", "reason": "R"}
    found = live(bare, observedGeneration=3)
    named = "condition/apps.vworkspace.io/v1alpha1/ApplicationInstance/org-myteam/nextcloud-myteam/None/Ready/True/R"

    assert event_key(found, bare) == f"{named}@3/"
    assert event_key(found, {**bare, "observedGeneration": 2}, "now") == f"{named}@2/now"
    assert event_key(live({}, observedGeneration=None), {**bare, "lastTransitionTime": "t"}) == f"{named}@0/t"
    assert reported_conditions(found) == {"Ready": ("True", "R", "")}
    told = {**bare, "lastTransitionTime": "t", "reasonTransitionTime": "u"}
    assert reported_conditions(live(told)) == {"Ready": ("True", "R", "u")}
    assert reported_conditions(live({**told, "reasonTransitionTime": 5})) == {"Ready": ("True", "R", "5")}


def test_events_about_the_cluster_name_it_and_its_object() -> None:
    ready = condition("Connected", "True", "RoundTripOK")
    there = {
        "apiVersion": "ops.vworkspace.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "c", "uid": "u"},
        "status": {"conditions": [ready]},
    }
    ref = {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Cluster", "namespace": "", "name": "c", "uid": "u"}

    assert credential_rotated("c", there, "job/1", NOW) == {
        "kind": "CredentialRotated",
        "eventKey": "credential-rotated/c/job/1",
        "timestamp": "2026-01-01T12:00:00Z",
        "resourceRef": ref,
        "conditions": [ready],
        "clusterId": "c",
    }
    beat = heartbeat("c", None, NOW)
    assert (beat["kind"], beat["eventKey"]) == ("ClusterHeartbeat", "heartbeat/c/2026-01-01T12:00:00Z")
    assert (beat["resourceRef"], beat["conditions"], beat["clusterId"]) == ({**ref, "uid": ""}, [], "c")

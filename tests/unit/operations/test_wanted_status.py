"""RES-2, RES-4: what is written of an Operation, the size of its outputs, and the Events about it."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.decision import Decision, Requeue
from tests.support.operation_worlds import CONTEXT, NS, OP_UID, operation
from vworkspace_core.api.operation import EngineRef, LogsRef, Operation, OperationStatus, Phase
from vworkspace_core.operations.identity import condition_of
from vworkspace_core.operations.status import (
    LONGEST_OUTPUT,
    MOST_OUTPUTS,
    WantedStatus,
    small_outputs,
    unblocked_status,
    with_status,
)

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"a": 1, "b": "x", "c": True, "d": None, "e": 1.5}, {"a": 1, "b": "x", "c": True, "d": None, "e": 1.5}),
        ({"a": [1]}, {}),
        ({"a": {"b": "x", "c": [1], "d": {"e": 1}}}, {"a": {"b": "x"}}),
        ({"a": {"b": {}}}, {"a": {}}),
        ({"a": "x" * LONGEST_OUTPUT}, {"a": "x" * 1024}),
        ({"a": "x" * (LONGEST_OUTPUT + 1)}, {"a": "x" * 1024}),
        ({"a": {"b": "x" * 1025}}, {"a": {"b": "x" * 1024}}),
        ({"n" * 128: 1}, {"n" * 128: 1}),
        ({"n" * 129: {"n" * 129: 1}}, {"n" * 128: {"n" * 128: 1}}),
        ({f"a{n}": n for n in range(MOST_OUTPUTS)}, {f"a{n}": n for n in range(32)}),
        ({f"a{n}": n for n in range(MOST_OUTPUTS + 1)}, {f"a{n}": n for n in range(32)}),
        ({"a": {f"a{n}": n for n in range(33)}}, {"a": {f"a{n}": n for n in range(32)}}),
    ],
)
def test_outputs_stay_small(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert small_outputs(given) == kept
    assert WantedStatus(Phase.RUNNING, RUNNING, outputs=given).outputs == kept


def wanted(kind: str, status: ConditionStatus, reason: str, message: str = "") -> DesiredCondition:
    return DesiredCondition(kind, status, reason, message)


def there(kind: str, status: ConditionStatus, reason: str, message: str = "") -> Condition:
    return Condition(kind, status, reason, message, "2026-06-01T11:00:00Z", 1)


RUNNING = wanted("Running", TRUE, "EngineStarted", "it runs")
STOPPED = wanted("Running", FALSE, "EngineNotStarted")
BLOCKED = wanted("Blocked", TRUE, "NameTaken", "taken")
ACCEPTED = wanted("Accepted", TRUE, "TemplateValidated")


def of(*conditions: Condition, **status: Any) -> Operation:
    one = operation()
    return attrs.evolve(one, status=OperationStatus(conditions=conditions, observed_generation=1, **status))


def written(one: Operation, status: WantedStatus) -> Decision:
    return with_status(Decision(requeue=Requeue.SLOW), one, status, CONTEXT)


def told(decision: Decision) -> list[tuple[str, str, str]]:
    assert decision.status is not None
    return [(one["type"], one["status"], one["reason"]) for one in decision.status["status"]["conditions"]]


KEPT = there("Accepted", FALSE, "ValidationFailed", "wrong")


@pytest.mark.parametrize(
    ("before", "change", "conditions"),
    [
        ([], {}, [("Running", "True", "EngineStarted")]),
        ([KEPT], {}, [("Accepted", "False", "ValidationFailed"), ("Running", "True", "EngineStarted")]),
        ([KEPT], {"accepted": ACCEPTED},
         [("Accepted", "True", "TemplateValidated"), ("Running", "True", "EngineStarted")]),
        ([], {"blocked": BLOCKED, "ended": wanted("Failed", TRUE, "Timeout"),
              "degraded": wanted("Degraded", TRUE, "PartialFailure")},
         [("Running", "True", "EngineStarted"), ("Failed", "True", "Timeout"), ("Blocked", "True", "NameTaken"),
          ("Degraded", "True", "PartialFailure")]),
        ([there("Blocked", TRUE, "NameTaken")], {},
         [("Running", "True", "EngineStarted"), ("Blocked", "False", "Unblocked")]),
        ([there("Blocked", FALSE, "Unblocked")], {},
         [("Running", "True", "EngineStarted"), ("Blocked", "False", "Unblocked")]),
        ([there("Failed", TRUE, "Timeout"), there("Degraded", TRUE, "x"), there("Theirs", TRUE, "y")], {},
         [("Running", "True", "EngineStarted")]),
    ],
)  # fmt: skip
def test_the_conditions_are_those_that_are_wanted_in_their_order_RES_4(
    before: list[Condition], change: dict[str, Any], conditions: list[tuple[str, str, str]]
) -> None:
    decision = written(of(*before), attrs.evolve(WantedStatus(Phase.RUNNING, RUNNING), **change))

    assert told(decision) == conditions
    assert decision.requeue == Requeue.SLOW


def test_every_field_of_the_status_is_written_RES_2() -> None:
    engine, logs = EngineRef("batch/v1", "Job", NS, "job-1", "u-1"), LogsRef(kind="Pod", name="p", namespace=NS)
    status = WantedStatus(
        Phase.RUNNING,
        RUNNING,
        started_at="2026-06-01T11:00:00Z",
        finished_at="2026-06-01T12:00:00Z",
        outputs={"a": 1},
        logs_ref=logs,
        engine_ref=engine,
    )
    decision = written(of(), status)
    assert decision.status is not None
    fields = {key: value for key, value in decision.status["status"].items() if key != "conditions"}

    assert fields == {
        "observedGeneration": 1,
        "phase": "Running",
        "reason": "EngineStarted",
        "message": "it runs",
        "startedAt": "2026-06-01T11:00:00Z",
        "finishedAt": "2026-06-01T12:00:00Z",
        "outputs": {"a": 1},
        "logsRef": {"kind": "Pod", "name": "p", "namespace": NS},
        "engineRef": {"apiVersion": "batch/v1", "kind": "Job", "namespace": NS, "name": "job-1", "uid": "u-1"},
    }
    assert decision.row == "Running EngineStarted"
    bare = written(of(), WantedStatus(Phase.PENDING, STOPPED)).status
    assert bare is not None
    assert set(bare["status"]) <= {"observedGeneration", "phase", "reason", "message", "conditions"}


def test_a_status_that_is_up_to_date_is_not_written_RES_4() -> None:
    same = there("Running", TRUE, "EngineStarted", "it runs")
    known = of(same, phase=Phase.RUNNING, reason="EngineStarted", message="it runs")
    decision = written(known, WantedStatus(Phase.RUNNING, RUNNING))

    assert decision == Decision(requeue=Requeue.SLOW)
    assert decision.row == "Running EngineStarted"
    foreign = attrs.evolve(known, status=attrs.evolve(known.status, conditions=(same, there("Theirs", TRUE, "y"))))
    assert written(foreign, WantedStatus(Phase.RUNNING, RUNNING)).status is None
    changes: list[dict[str, Any]] = [
        {"phase": Phase.PENDING},
        {"reason": "Other"},
        {"message": ""},
        {"started_at": "2026-06-01T11:00:00Z"},
        {"finished_at": "2026-06-01T11:00:00Z"},
        {"outputs": {"a": 1}},
        {"logs_ref": LogsRef(kind="a", name="b", namespace="c")},
        {"engine_ref": EngineRef("v1", "A", "b", "c", "d")},
        {"observed_request": "x"},
        {"observed_generation": 0},
    ]
    for change in changes:
        other: Operation = attrs.evolve(known, status=attrs.evolve(known.status, **change))
        assert written(other, WantedStatus(Phase.RUNNING, RUNNING)).status is not None


def test_a_message_shows_no_secret() -> None:
    decision = written(of(), WantedStatus(Phase.RUNNING, attrs.evolve(RUNNING, message="password=hunter22")))

    assert decision.status is not None
    assert "hunter22" not in str(decision.status)


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        (wanted("Accepted", FALSE, "ValidationFailed"), "Warning"),
        (ACCEPTED, "Normal"),
        (BLOCKED, "Warning"),
        (wanted("Failed", TRUE, "Timeout"), "Warning"),
        (wanted("Degraded", TRUE, "PartialFailure"), "Warning"),
        (wanted("Succeeded", TRUE, "EngineSucceeded"), "Normal"),
    ],
)
def test_each_change_is_an_event_and_a_bad_one_a_warning_REC_1(condition: DesiredCondition, kind: str) -> None:
    field = {"Accepted": "accepted", "Blocked": "blocked", "Degraded": "degraded"}.get(condition.type, "ended")
    given: dict[str, Any] = {field: condition}
    status = attrs.evolve(WantedStatus(Phase.RUNNING, STOPPED), **given)
    events = {event.reason: event for event in written(of(), status).events}

    event = events[condition.reason]
    assert (event.type, event.regarding.name, event.regarding_uid) == (kind, "op-1", OP_UID)
    assert events["EngineNotStarted"].type == "Normal"
    gone = written(of(there("Blocked", TRUE, "NameTaken")), WantedStatus(Phase.RUNNING, STOPPED)).events
    assert {event.reason: event.type for event in gone}["Unblocked"] == "Normal"


def test_a_status_without_its_block_is_else_the_same() -> None:
    engine, logs = EngineRef("batch/v1", "Job", NS, "job-1", "u-1"), LogsRef(kind="Pod", name="p", namespace=NS)
    fields: dict[str, Any] = {
        "started_at": "2026-06-01T11:00:00Z",
        "finished_at": "2026-06-01T12:00:00Z",
        "outputs": {"a": 1},
        "logs_ref": logs,
        "engine_ref": engine,
    }
    blocked, degraded = there("Blocked", TRUE, "NameTaken"), there("Degraded", TRUE, "PartialFailure", "half")
    for kind, phase in (("Succeeded", Phase.SUCCEEDED), ("Failed", Phase.FAILED), ("Cancelled", Phase.CANCELLED)):
        ended = there(kind, TRUE, "Because", "that is it")
        one = of(there("Running", FALSE, "EngineFinished", "x"), ended, blocked, degraded, phase=phase, **fields)

        assert unblocked_status(one) == WantedStatus(
            phase,
            wanted("Running", FALSE, "EngineFinished", "x"),
            ended=wanted(kind, TRUE, "Because", "that is it"),
            degraded=wanted("Degraded", TRUE, "PartialFailure", "half"),
            **fields,
        )
        assert condition_of(one, kind) is ended
    assert unblocked_status(of(blocked)) == WantedStatus(Phase.PENDING, STOPPED)
    assert condition_of(of(blocked), "Failed") is None

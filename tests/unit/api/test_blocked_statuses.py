"""REC-13: the conditions, fields and Events of our own kinds after a pass that an error stopped."""

from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json
from purekube.controller.decision import Decision
from purekube.controller.reconcile_error import ReconcileError, ReconcileErrorCause, blocked_status
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.reconcile_error import INSTANCE_WORDS, OPERATION_WORDS, words_in_cluster

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = {words.kind: words for words in (INSTANCE_WORDS, OPERATION_WORDS)}
CAUSE = ReconcileErrorCause
TOLD = "why. The log line with reconcile_id cafe-1 has more."
READY = Condition("Ready", ConditionStatus.TRUE, "HelmReleaseReady", "m", "2026-06-01T11:00:00Z", 1)
RUNNING = Condition("Running", ConditionStatus.TRUE, "EngineRunning", "m", "2026-06-01T11:00:00Z", 1)
NEW = {"phase": "Pending"}


def blocked(kind: Kind, cause: CAUSE, *before: Condition, cluster: str = "c", **status: Any) -> Decision:
    meta = {"name": "a", "namespace": "ns", "generation": 1, "uid": "u"}
    labels = {MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: "c"}
    conditions = [condition_json(one) for one in before]
    manifest = {
        **kind.manifest("a", "ns"),
        "metadata": {**meta, "labels": labels},
        "status": {**status, "conditions": conditions},
    }
    error = ReconcileError(cause, "why", "cafe-1")
    return blocked_status(words_in_cluster(WORDS[kind], cluster), manifest, before, error, NOW)


CASES: list[tuple[Kind, CAUSE, tuple[Condition, ...], list[tuple[str, str, str, str]], dict[str, str]]] = [
    (
        APPLICATION_INSTANCE, CAUSE.FORBIDDEN, (),
        [
            ("Ready", "False", "NotDeployed", TOLD),
            ("Reconciling", "False", "Stable", "blocked: Forbidden"),
            ("Blocked", "True", "Forbidden", TOLD),
        ],
        {"reason": "Forbidden", "message": TOLD, "lastReconcileTime": "2026-06-01T12:00:00Z"},
    ),
    (
        APPLICATION_INSTANCE, CAUSE.INTERNAL_ERROR, (READY,),
        [
            ("Ready", "True", "HelmReleaseReady", "m"),
            ("Reconciling", "False", "Stable", "blocked: InternalError"),
            ("Blocked", "True", "InternalError", TOLD),
        ],
        {"reason": "InternalError", "message": TOLD, "lastReconcileTime": "2026-06-01T12:00:00Z"},
    ),
    (
        APPLICATION_INSTANCE, CAUSE.TRANSIENT, (),
        [("Ready", "Unknown", "Reconciling", TOLD), ("Reconciling", "True", "HelmReleaseInstalling", TOLD)],
        {"reason": "HelmReleaseInstalling", "message": TOLD, "lastReconcileTime": "2026-06-01T12:00:00Z"},
    ),
    (
        APPLICATION_INSTANCE, CAUSE.TRANSIENT, (READY,),
        [("Ready", "True", "HelmReleaseReady", "m"), ("Reconciling", "True", "HelmReleaseInstalling", TOLD)],
        {"reason": "HelmReleaseInstalling", "message": TOLD, "lastReconcileTime": "2026-06-01T12:00:00Z"},
    ),
    (
        OPERATION, CAUSE.FORBIDDEN, (),
        [("Running", "False", "EngineNotStarted", ""), ("Blocked", "True", "Forbidden", TOLD)],
        {**NEW, "reason": "Forbidden", "message": TOLD},
    ),
    (
        OPERATION, CAUSE.INTERNAL_ERROR, (RUNNING,),
        [("Running", "True", "EngineRunning", "m"), ("Blocked", "True", "InternalError", TOLD)],
        {**NEW, "reason": "InternalError", "message": TOLD},
    ),
    (
        OPERATION, CAUSE.TOO_DEEP, (),
        [("Accepted", "False", "ValidationFailed", TOLD), ("Running", "False", "EngineNotStarted", "")],
        {**NEW, "reason": "ValidationFailed", "message": TOLD},
    ),
    (
        OPERATION, CAUSE.TRANSIENT, (),
        [("Running", "False", "EngineNotStarted", TOLD)],
        {**NEW, "reason": "EngineNotStarted", "message": TOLD},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "cause", "before", "conditions", "fields"), CASES)
def test_each_cause_is_told_on_each_kind(
    kind: Kind, cause: CAUSE, before: tuple[Condition, ...], conditions: Any, fields: dict[str, str]
) -> None:
    decision = blocked(kind, cause, *before)

    assert decision.status is not None
    status = decision.status["status"]
    told = [(one["type"], one["status"], one["reason"], one.get("message", "")) for one in status["conditions"]]
    assert told == conditions
    assert {name: value for name, value in status.items() if name not in ("conditions", "observedGeneration")} == fields


def test_a_phase_that_is_there_stays() -> None:
    decision = blocked(OPERATION, CAUSE.FORBIDDEN, RUNNING, phase="Running")

    assert decision.status is not None
    assert decision.status["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("kind", "cause", "events"),
    [
        (APPLICATION_INSTANCE, CAUSE.FORBIDDEN, [("Normal", "NotDeployed"), ("Warning", "Forbidden")]),
        (APPLICATION_INSTANCE, CAUSE.TRANSIENT, [("Normal", "Reconciling")]),
        (OPERATION, CAUSE.FORBIDDEN, [("Warning", "Forbidden")]),
        (OPERATION, CAUSE.TOO_DEEP, [("Warning", "ValidationFailed")]),
        (OPERATION, CAUSE.TRANSIENT, []),
    ],
)
def test_people_are_told_of_what_blocks(kind: Kind, cause: CAUSE, events: list[tuple[str, str]]) -> None:
    assert [(event.type, event.reason) for event in blocked(kind, cause).events] == events


@pytest.mark.parametrize(("kind", "type_"), [(APPLICATION_INSTANCE, "Blocked"), (OPERATION, "Blocked")])
def test_a_cause_that_was_told_is_not_told_again_with_another_log_line(kind: Kind, type_: str) -> None:
    before = "why. The log line with reconcile_id beef-2 has more."
    told = Condition(type_, ConditionStatus.TRUE, "InternalError", before, "2026-06-01T11:00:00Z", 1)
    decision = blocked(kind, CAUSE.INTERNAL_ERROR, told)

    assert decision.status is not None
    found = {one["type"]: one["message"] for one in decision.status["status"]["conditions"]}
    assert found[type_] == before


def test_an_operation_that_is_too_deep_keeps_its_message_too() -> None:
    before = Condition(
        "Accepted", ConditionStatus.FALSE, "ValidationFailed", "why. The log line with reconcile_id beef-2"
    )
    decision = blocked(OPERATION, CAUSE.TOO_DEEP, before)

    assert decision.status is not None
    assert decision.status["status"]["conditions"][0]["message"] == before.message


@pytest.mark.parametrize("kind", WORDS)
def test_an_object_of_another_cluster_is_left_alone_RES_5(kind: Kind) -> None:
    assert blocked(kind, CAUSE.FORBIDDEN, cluster="another") == Decision()

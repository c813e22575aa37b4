"""OPS-1, OPS-8, OPS-11, OPS-12: the statuses, deadlines and writes of a run, each as a value."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import JOB, VELERO_BACKUP
from purekube.controller.decision import Delete, Failure, MergePatch, Requeue
from purekube.controller.ownership import UNRECORDED
from tests.support.instance_worlds import NOW
from tests.support.operation_worlds import CONTEXT, NS, OP_UID, SETTINGS, operation
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE, OPERATION_UID
from vworkspace_core.api.operation import EngineRef, LogsRef, Operation, OperationStatus, Phase
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import Engine, EngineObject, EngineStatus, Progress
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.lifecycle import (
    after_failure,
    blocked_status,
    deadline_of,
    ended_status,
    engine_ref_of,
    is_over,
    pace_after,
    progress_status,
    refused_status,
    started_status,
    stop,
    unlock,
)
from vworkspace_core.operations.status import WantedStatus

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
JOBS = ENGINES["job"]
REF = ObjectRef(JOB, NS, "job-1")
KNOWN = EngineRef("batch/v1", "Job", NS, "job-1", "u-1")
STARTED = "2026-06-01T11:30:00Z"
LOGS = LogsRef(kind="Job", name="job-1", namespace=NS)
STATUS = OperationStatus(
    phase=Phase.RUNNING, started_at=STARTED, outputs={"a": 1}, logs_ref=LOGS, engine_ref=KNOWN, observed_generation=1
)


def running(status: OperationStatus = STATUS, of: str = "runCommand.job", **spec: Any) -> Operation:
    return attrs.evolve(operation(of, **spec), status=status)


def condition(kind: str, status: ConditionStatus, reason: str, message: str = "") -> DesiredCondition:
    return DesiredCondition(kind, status, reason, message)


BASE = WantedStatus(
    Phase.RUNNING,
    condition("Running", TRUE, "EngineStarted"),
    started_at=STARTED,
    outputs={"a": 1},
    logs_ref=LOGS,
    engine_ref=KNOWN,
)


# --- deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "usual", "recurring", "needs", "seconds"),
    [
        ({"timeoutSeconds": 60}, 3600, False, 0, 60),
        ({"timeoutSeconds": 60}, 3600, True, 9999, 60),
        ({}, 3600, False, 0, 3600),
        ({}, 3600, False, 3600, 3600),
        ({}, 3600, False, 3601, 3601),
        ({}, 3600, True, 0, None),
        ({}, None, False, 0, JOBS.timeout_seconds),
    ],
)
def test_a_run_has_the_deadline_of_its_spec_or_of_its_engine_OPS_12(
    spec: dict[str, Any], usual: int | None, recurring: bool, needs: int, seconds: int | None
) -> None:
    engine = attrs.evolve(JOBS, recurring=lambda one: recurring, needs_seconds=lambda one, objects: needs)
    settings = attrs.evolve(SETTINGS, timeout_seconds={} if usual is None else {"job": usual, "velero": 1})
    context = attrs.evolve(CONTEXT, settings=settings)
    one = running(**spec)

    expected = None if seconds is None else NOW - timedelta(minutes=30) + timedelta(seconds=seconds)
    assert deadline_of(one, engine, context, {}) == expected
    assert deadline_of(running(OperationStatus(), **spec), engine, context, {}) is None
    if expected is None:
        assert not is_over(one, engine, context, {})
        return
    table: list[tuple[float, bool]] = [(-1, False), (0, True), (1, True)]
    for shift, over in table:
        at: OperationContext = attrs.evolve(context, now=expected + timedelta(seconds=shift))
        assert is_over(one, engine, at, {}) is over
        assert not is_over(running(OperationStatus(), **spec), engine, at, {})


# --- statuses ---------------------------------------------------------------------------------------------------------


def test_a_start_names_what_is_created_next_OPS_1() -> None:
    made = engine_ref_of(EngineObject(JOB, JOB.manifest("job-1", NS)))
    velero = engine_ref_of(EngineObject(VELERO_BACKUP, VELERO_BACKUP.manifest("b", "velero")))
    accepted = condition("Accepted", TRUE, "TemplateValidated")

    assert made == EngineRef("batch/v1", "Job", NS, "job-1", "")
    assert velero == EngineRef("velero.io/v1", "Backup", "velero", "b", "")
    assert started_status(running(), made, {"b": 2}, NOW) == WantedStatus(
        Phase.RUNNING,
        condition("Running", TRUE, "EngineStarted", "creating Job job-1"),
        accepted,
        started_at="2026-06-01T12:00:00Z",
        outputs={"b": 2},
        engine_ref=made,
    )
    bare = started_status(running(), None, {}, NOW)
    assert (bare.running.message, bare.engine_ref, bare.accepted) == ("asked for", None, accepted)


@pytest.mark.parametrize(
    ("report", "message", "change"),
    [
        (EngineStatus(Progress.RUNNING, "PodRunning", "one pod"), "",
         {"running": condition("Running", TRUE, "PodRunning", "one pod")}),
        (EngineStatus(Progress.RUNNING, "PodRunning", "one pod"), "cancelling",
         {"running": condition("Running", TRUE, "PodRunning", "cancelling")}),
        (EngineStatus(Progress.RUNNING, "Waits", "agree", blocked=Reason.AWAITING_APPROVAL), "",
         {"running": condition("Running", TRUE, "Waits", "agree"),
          "blocked": condition("Blocked", TRUE, "AwaitingApproval", "agree")}),
        (EngineStatus(Progress.RUNNING, "Waits", "agree", blocked=Reason.AWAITING_APPROVAL), "more",
         {"running": condition("Running", TRUE, "Waits", "more"),
          "blocked": condition("Blocked", TRUE, "AwaitingApproval", "more")}),
        (EngineStatus(Progress.RUNNING, "Resting", "", last_run="at noon"), "",
         {"running": condition("Running", TRUE, "Resting"),
          "ended": condition("Succeeded", TRUE, "EngineSucceeded", "at noon")}),
        (EngineStatus(Progress.RUNNING, "R", "", {"b": 2}, LogsRef(kind="Pod", name="p", namespace=NS)), "",
         {"running": condition("Running", TRUE, "R"), "outputs": {"b": 2},
          "logs_ref": LogsRef(kind="Pod", name="p", namespace=NS)}),
    ],
)  # fmt: skip
def test_a_run_that_goes_on_keeps_what_is_known_OPS_8(
    report: EngineStatus, message: str, change: Mapping[str, Any]
) -> None:
    assert progress_status(running(), report, message) == attrs.evolve(BASE, **change)
    nothing = progress_status(running(OperationStatus()), EngineStatus(Progress.RUNNING, "R"))
    assert (nothing.outputs, nothing.logs_ref, nothing.engine_ref, nothing.started_at) == ({}, None, None, None)


def test_a_run_that_cannot_go_on_says_why_OPS_8() -> None:
    assert blocked_status(running(), Reason.NAME_TAKEN, "taken") == attrs.evolve(
        BASE,
        running=condition("Running", TRUE, "EngineStarted", "taken"),
        blocked=condition("Blocked", TRUE, "NameTaken", "taken"),
    )
    assert blocked_status(running(OperationStatus()), Reason.NAME_TAKEN, "taken").outputs == {}


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("degraded", ["", "half of it"])
def test_an_end_has_its_condition_and_its_time_OPS_8(phase: Phase, started: bool, degraded: str) -> None:
    one = running(STATUS if started else OperationStatus())
    report = EngineStatus(Progress.FAILED, "x", "that is it", {"b": 2}, degraded=degraded)
    base = BASE if started else WantedStatus(Phase.RUNNING, BASE.running)

    assert ended_status(one, phase, "Because", report, NOW) == attrs.evolve(
        base,
        phase=phase,
        running=condition("Running", FALSE, "EngineFinished" if started else "EngineNotStarted"),
        ended=condition(phase.value, TRUE, "Because", "that is it"),
        degraded=condition("Degraded", TRUE, "PartialFailure", degraded) if degraded else None,
        outputs={"b": 2},
        finished_at="2026-06-01T12:00:00Z",
    )


# --- writes -----------------------------------------------------------------------------------------------------------


def job(**meta: Any) -> dict[str, Any]:
    return {
        **JOB.manifest("job-1", NS),
        "metadata": {
            "name": "job-1",
            "namespace": NS,
            "uid": "u-1",
            "resourceVersion": "5",
            "labels": {MANAGED_BY: MANAGED_BY_VALUE, OPERATION_UID: OP_UID},
            **meta,
        },
    }


RIGHT = 'User "u" cannot delete resource "jobs" in API group "batch" in the namespace "org-myteam"'
REFUSED = (Failure(REF, "delete", Forbidden("no")),)
ELSEWHERE = (Failure(attrs.evolve(REF, name="other"), "delete", Forbidden("no")),)


def seen(manifest: dict[str, Any] | None, failures: tuple[Failure, ...] = ()) -> OperationObserved:
    return OperationObserved(objects={} if manifest is None else {REF: manifest}, failures=failures)


@pytest.mark.parametrize(
    ("manifest", "failures", "deletes"),
    [
        (None, (), False),
        (job(), (), True),
        (job(), ELSEWHERE, True),
        (job(), REFUSED, False),
        (job(deletionTimestamp="now"), (), False),
    ],
)
def test_a_run_is_stopped_by_one_delete_of_what_was_read_OPS_11(
    manifest: dict[str, Any] | None, failures: tuple[Failure, ...], deletes: bool
) -> None:
    for unlocking, version in ((False, "5"), (True, None)):
        found = stop(running(), seen(manifest, failures), unlocking=unlocking)
        assert found == ((Delete(REF, "u-1", version),) if deletes else ())
    assert stop(running(attrs.evolve(STATUS, engine_ref=None)), seen(job())) == ()


UNLOCK = MergePatch(REF, {"metadata": {"resourceVersion": "5", "finalizers": ["x"]}})
UNSEEN = attrs.evolve(STATUS, engine_ref=attrs.evolve(KNOWN, uid=""))


@pytest.mark.parametrize(
    ("status", "manifest", "failures", "deleting", "unlocks"),
    [
        (STATUS, job(finalizers=["x", UNRECORDED]), (), False, True),
        (STATUS, job(finalizers=["x", UNRECORDED]), ELSEWHERE, False, True),
        (STATUS, job(finalizers=["x", UNRECORDED]), REFUSED, False, False),
        (STATUS, job(finalizers=["x"]), (), False, False),
        (STATUS, None, (), False, False),
        (UNSEEN, job(finalizers=["x", UNRECORDED]), (), False, False),
        (UNSEEN, job(finalizers=["x", UNRECORDED]), (), True, True),
        (attrs.evolve(STATUS, engine_ref=None), job(finalizers=["x", UNRECORDED]), (), True, False),
    ],
)
def test_the_lock_goes_once_the_uid_is_recorded_or_nobody_will_record_it_OPS_1(
    status: OperationStatus,
    manifest: dict[str, Any] | None,
    failures: tuple[Failure, ...],
    deleting: bool,
    unlocks: bool,
) -> None:
    one = running(status)
    if deleting:
        one = attrs.evolve(one, metadata=attrs.evolve(one.metadata, deletion_timestamp="now"))

    assert unlock(one, seen(manifest, failures)) == ((UNLOCK,) if unlocks else ())


@pytest.mark.parametrize(
    ("errors", "requeue"),
    [
        ([], Requeue.NO),
        ([Unavailable("busy")], Requeue.BACKOFF),
        ([Forbidden("a quota")], Requeue.BACKOFF),
        ([Forbidden(RIGHT)], Requeue.REFUSED),
        ([Unavailable("busy"), Forbidden(RIGHT)], Requeue.REFUSED),
    ],
)
def test_refused_writes_are_paced_by_a_missing_right_REC_13(errors: list[OperatorError], requeue: Requeue) -> None:
    failures = tuple(Failure(REF, "delete", error) for error in errors)

    assert pace_after(failures) == requeue
    told = refused_status(BASE, failures, SETTINGS)
    if requeue is not Requeue.REFUSED:
        assert told is BASE
        return
    assert told.blocked is not None
    assert (told.blocked.type, told.blocked.status, told.blocked.reason) == ("Blocked", TRUE, "Forbidden")
    assert "delete jobs.batch" in told.blocked.message
    assert attrs.evolve(told, blocked=None) == BASE


VELERO = ObjectRef(VELERO_BACKUP, "velero", "b")


@pytest.mark.parametrize(
    ("engine", "ref", "error", "requeue", "reason", "words"),
    [
        ("job", REF, KindMissing("x"), Requeue.SLOW, "DependencyMissing", "jobs.batch"),
        ("job", REF, NotFound("gone"), Requeue.SLOW, "DependencyMissing", f"create {REF}: gone"),
        ("velero", VELERO, NotFound("gone"), Requeue.SLOW, "DependencyMissing", "velero"),
        ("velero", attrs.evolve(VELERO, namespace=NS), NotFound("gone"), Requeue.SLOW, "DependencyMissing",
         f"create Backup {NS}/b: gone"),
        ("job", REF, Forbidden(RIGHT), Requeue.REFUSED, "Forbidden", "delete jobs.batch"),
    ],
)  # fmt: skip
def test_a_refused_create_blocks_where_waiting_may_help_REC_13(
    engine: str, ref: ObjectRef, error: OperatorError, requeue: Requeue, reason: str, words: str
) -> None:
    status, pace = after_failure(running(), ENGINES[engine], Failure(ref, "create", error), NOW, SETTINGS)

    assert (pace, status.phase, status.outputs) == (requeue, Phase.RUNNING, {"a": 1})
    assert status.blocked is not None
    assert status.blocked.reason == reason
    assert words in status.blocked.message
    assert status.running.message == status.blocked.message


def test_a_kind_that_is_not_served_is_told_with_what_to_install_REC_12() -> None:
    engine: Engine = ENGINES["velero"]
    status, _ = after_failure(running(), engine, Failure(VELERO, "create", KindMissing("x")), NOW, SETTINGS)

    assert engine.install
    assert engine.install in status.running.message
    assert ENGINES["job"].install == ""


@pytest.mark.parametrize(
    ("error", "requeue"),
    [
        (Forbidden("a quota"), Requeue.SLOW),
        (Unauthorized("who"), Requeue.SLOW),
        (Permanent("odd"), Requeue.SLOW),
        (Unavailable("busy"), Requeue.BACKOFF),
    ],
)
def test_a_create_that_may_pass_is_tried_again_REC_13(error: OperatorError, requeue: Requeue) -> None:
    told = f"create {REF}: {error.message}; tried again"
    expected = attrs.evolve(BASE, running=condition("Running", TRUE, "EngineStarted", told))

    assert after_failure(running(), JOBS, Failure(REF, "create", error), NOW, SETTINGS) == (expected, requeue)


def test_a_create_that_is_invalid_ends_the_run_REC_13() -> None:
    status, pace = after_failure(running(), JOBS, Failure(REF, "create", Invalid("wrong")), NOW, SETTINGS)

    assert pace == Requeue.NO
    assert status.phase is Phase.FAILED
    assert status.ended == condition("Failed", TRUE, "ValidationFailed", f"create {REF}: wrong")
    assert (status.finished_at, status.outputs) == ("2026-06-01T12:00:00Z", {"a": 1})

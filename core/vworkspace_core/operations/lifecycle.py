"""The status and the writes for each step in the life of an Operation (OPS-1, OPS-8, OPS-11, OPS-12).

    Pending ──start──► Running ──► Succeeded | Failed | Cancelled

The modules `reconcile`, `engine_run` and `deletion` decide which step is taken.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import Forbidden, Invalid, KindMissing, NotFound, Permanent, first_refusal
from purekube.apimachinery.manifest import ObjectRef, metadata
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import Delete, Failure, MergePatch, Requeue
from purekube.controller.ownership import is_locked, unlocking
from vworkspace_core.api.operation import TERMINAL_PHASES, EngineRef, Operation, Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.remedies import missing_right_of, not_installed, not_permitted, velero_is_elsewhere
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import Engine, EngineObject, EngineStatus, Objects, Progress
from vworkspace_core.operations.identity import own_object
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.status import WantedStatus

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def deadline_of(operation: Operation, engine: Engine, context: OperationContext, objects: Objects) -> datetime | None:
    """Return the time at which the operator ends the run if it has not ended before.

    Return None if the run has not started, or if it has no deadline and only a cancellation ends it (OPS-10, OPS-12).
    The deadline comes from the Operation's spec, or else from the settings in `context` or from `engine`, which may
    read it from its object in `objects`.
    """
    if operation.status.started_at is None:
        return None
    seconds = operation.spec.timeout_seconds
    if seconds is None:
        if engine.recurring(operation):
            return None
        usual = context.settings.timeout_seconds.get(engine.name, engine.timeout_seconds)
        seconds = max(usual, engine.needs_seconds(operation, objects))
    return datetime.fromisoformat(operation.status.started_at) + timedelta(seconds=seconds)


def is_over(operation: Operation, engine: Engine, context: OperationContext, objects: Objects) -> bool:
    """Report whether the deadline of the Operation's run (see `deadline_of`) has passed; False if it has none."""
    deadline = deadline_of(operation, engine, context, objects)
    return deadline is not None and context.now >= deadline


def engine_ref_of(engine_object: EngineObject) -> EngineRef:
    """Return the reference to the engine object (such as a Job) that is written into the Operation's status.

    The reference has no uid, since the object is not created yet.
    """
    ref = engine_object.ref
    return EngineRef(ref.kind.api_version, ref.kind.kind, ref.namespace or "", ref.name, "")


def started_status(
    operation: Operation, engine_ref: EngineRef | None, outputs: Mapping[str, Any], now: datetime
) -> WantedStatus:
    """Return the status of an Operation whose run starts now.

    `engine_ref` refers to the engine object (such as a Job) that is created next; it is None if the engine creates
    none. `outputs` are the first entries of the status field `outputs`.
    """
    message = f"creating {engine_ref.kind} {engine_ref.name}" if engine_ref is not None else "asked for"
    return WantedStatus(
        Phase.RUNNING,
        running=DesiredCondition(Type.RUNNING, _TRUE, Reason.ENGINE_STARTED, message),
        accepted=DesiredCondition(Type.ACCEPTED, _TRUE, Reason.TEMPLATE_VALIDATED),
        started_at=format_time(now),
        outputs=outputs,
        engine_ref=engine_ref,
    )


def progress_status(operation: Operation, status: EngineStatus, message: str = "") -> WantedStatus:
    """Return the status of `operation`, whose run continues, from the engine's report `status`.

    `message` replaces the message in the report, unless it is empty.
    """
    wanted_status = _updated_status(operation, status)
    text = message or status.message
    blocked = DesiredCondition(Type.BLOCKED, _TRUE, status.blocked, text) if status.blocked is not None else None
    ended = (
        DesiredCondition(Type.SUCCEEDED, _TRUE, Reason.ENGINE_SUCCEEDED, status.last_run) if status.last_run else None
    )
    running = DesiredCondition(Type.RUNNING, _TRUE, status.reason, text)
    return attrs.evolve(wanted_status, running=running, blocked=blocked, ended=ended)


def blocked_status(operation: Operation, reason: Reason, message: str) -> WantedStatus:
    """Return the status of `operation`, whose started run cannot continue.

    `reason` and `message` describe the obstacle.
    """
    status = EngineStatus(Progress.RUNNING, Reason.ENGINE_STARTED, message)
    return attrs.evolve(
        progress_status(operation, status), blocked=DesiredCondition(Type.BLOCKED, _TRUE, reason, message)
    )


def refused_status(
    wanted_status: WantedStatus, failures: tuple[Failure, ...], settings: OperationSettings
) -> WantedStatus:
    """Return `wanted_status`, with the condition Blocked added if one of `failures` (refused writes) lacked a right.

    The condition's message names the right, with a remedy that depends on how the operator was installed, as `settings`
    say.
    """
    message = missing_right_of(failures, settings.installation)
    return (
        attrs.evolve(wanted_status, blocked=DesiredCondition(Type.BLOCKED, _TRUE, Reason.FORBIDDEN, message))
        if message
        else wanted_status
    )


def pace_after(failures: tuple[Failure, ...]) -> Requeue:
    """Return the time of the next pass after `failures`, the writes of this pass that were refused.

    If one of them lacked a right, the result is `Requeue.REFUSED`: a retry after half a minute at most. For other
    failures it is `Requeue.BACKOFF`, a delay that grows with each failure, and for no failures `Requeue.NO`.
    """
    if first_refusal(failure.error for failure in failures) is not None:
        return Requeue.REFUSED
    return Requeue.BACKOFF if failures else Requeue.NO


def ended_status(operation: Operation, phase: Phase, reason: str, status: EngineStatus, now: datetime) -> WantedStatus:
    """Return the final status of an Operation that ended in `phase` for the reason `reason`.

    `status` is the engine's last report, from which the message, the outputs and the logs are taken. `now` is the time
    of the end.
    """
    kind = {Phase.SUCCEEDED: Type.SUCCEEDED, Phase.FAILED: Type.FAILED, Phase.CANCELLED: Type.CANCELLED}[phase]
    degraded = (
        DesiredCondition(Type.DEGRADED, _TRUE, Reason.PARTIAL_FAILURE, status.degraded) if status.degraded else None
    )
    started = operation.status.started_at is not None
    return attrs.evolve(
        _updated_status(operation, status),
        phase=phase,
        running=DesiredCondition(
            Type.RUNNING, _FALSE, Reason.ENGINE_FINISHED if started else Reason.ENGINE_NOT_STARTED
        ),
        ended=DesiredCondition(kind, _TRUE, reason, status.message),
        degraded=degraded,
        finished_at=format_time(now),
    )


def _updated_status(operation: Operation, status: EngineStatus) -> WantedStatus:
    """Return the status of a running Operation: its present one, with the outputs and logs in the engine's report
    `status`.
    """
    before = operation.status
    return WantedStatus(
        Phase.RUNNING,
        running=DesiredCondition(Type.RUNNING, _TRUE, Reason.ENGINE_STARTED),
        started_at=before.started_at,
        outputs=dict(status.outputs) or before.outputs or {},
        logs_ref=status.logs_ref or before.logs_ref,
        engine_ref=before.engine_ref,
    )


def unlock(operation: Operation, observed: OperationObserved) -> tuple[MergePatch, ...]:
    """Return the patch that removes the operator's finalizer from the Operation's engine object, as a tuple.

    The engine object (such as a Job) is in `observed`; after the patch it may be deleted. The tuple is empty if the
    status of an unfinished Operation has not recorded the object's uid yet, if a write to the object failed in this
    pass, or if there is nothing to remove.
    """
    engine_object, known = own_object(operation, observed.objects), operation.status.engine_ref
    recorded = known is not None and known.uid
    ends = operation.status.phase in TERMINAL_PHASES or operation.metadata.deletion_timestamp is not None
    if engine_object is None or not (recorded or ends):
        return ()
    ref, live = engine_object
    if not is_locked(live) or _failed(observed, ref):
        return ()
    return (unlocking(ref, live),)


def stop(operation: Operation, observed: OperationObserved, *, unlocking: bool = False) -> tuple[Delete, ...]:
    """Return the request to delete the Operation's engine object (such as a Job), as a tuple.

    The tuple is empty if `observed` has no such object, if its deletion was already requested, or if a write to it
    failed in this pass. The delete names the resourceVersion that was read. It therefore fails if the run has ended in
    the meantime, and the next pass can record how it ended. With `unlocking` the delete names no resourceVersion,
    because a patch in the same pass, which removes the operator's finalizer, changes the object first.
    """
    engine_object = own_object(operation, observed.objects)
    if engine_object is None:
        return ()
    ref, live = engine_object
    meta = metadata(live)
    if meta.get("deletionTimestamp") or _failed(observed, ref):
        return ()
    # The API server refuses the delete with 409 if uid or version differ (W-30).
    return (Delete(ref, meta["uid"], None if unlocking else meta.get("resourceVersion")),)


def _failed(observed: OperationObserved, ref: ObjectRef) -> bool:
    return any(failure.ref == ref for failure in observed.failures)


def after_failure(
    operation: Operation, engine: Engine, failure: Failure, now: datetime, settings: OperationSettings
) -> tuple[WantedStatus, Requeue]:
    """Return an Operation's status and the time of the next pass after its engine object could not be created (REC-13).

    An engine object is, for example, a Job. `failure` is the API server's refusal, `now` its time. The status is failed
    if the object is invalid, and blocked if its kind, its namespace or a right is missing. Otherwise it is still
    running, with a message that the create is retried.
    """
    error, message = failure.error, f"{failure.verb} {failure.ref}: {failure.error.message}"
    match error:
        case Invalid():
            status = EngineStatus(Progress.FAILED, "", message)
            return ended_status(operation, Phase.FAILED, Reason.VALIDATION_FAILED, status, now), Requeue.NO
        case KindMissing():
            missing = not_installed([failure.ref.kind.crd_name], engine.install)
            return blocked_status(operation, Reason.DEPENDENCY_MISSING, missing), Requeue.SLOW
        case NotFound():
            if engine.namespace is not None and failure.ref.namespace == engine.namespace(settings):
                message = velero_is_elsewhere(engine.namespace(settings))
            return blocked_status(operation, Reason.DEPENDENCY_MISSING, message), Requeue.SLOW
        case Forbidden() if error.right is not None:
            told = not_permitted(error.right, settings.installation)
            return blocked_status(operation, Reason.FORBIDDEN, told), Requeue.REFUSED
        case Forbidden() | Permanent():
            pace = Requeue.SLOW
        case _:
            pace = Requeue.BACKOFF
    status = EngineStatus(Progress.RUNNING, Reason.ENGINE_STARTED, f"{message}; tried again")
    return progress_status(operation, status), pace

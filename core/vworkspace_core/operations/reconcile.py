"""The decision about an Operation (OPS-1 to OPS-12).

Expected flow
    belongs to another operator → nothing; being deleted → `deletion`; ended → only cleanup; not started → check of the
    preconditions, then the intent; started → create the engine object once, then follow its status.
Guarantees
    Pure: the same input gives the same output. At most one engine object (such as a Job) is ever created for a uid: the
    intent (the reference to the object) is in the status before the create, the create happens from the newest copy of
    the Operation only, and the object cannot vanish before its uid is recorded. A terminal phase is final.
Assumptions
    Where `needs_live_view` says so, `observed` and the Operation were read from the API server, not from a cache.
"""

from typing import assert_never

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.controller.decision import Decision, Finalizer, Requeue
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import FINALIZER, cancellation_requested, is_managed
from vworkspace_core.api.managed_namespace import (
    claimed_by_another_operator,
    closed_namespace,
    is_labelled_for,
    wrong_cluster,
)
from vworkspace_core.api.operation import TERMINAL_PHASES, Operation, Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations import lifecycle
from vworkspace_core.operations.approvals import Redemption
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import EngineStatus, Progress
from vworkspace_core.operations.deletion import decide_deletion, tidy
from vworkspace_core.operations.engine_run import decide_running
from vworkspace_core.operations.identity import own_object, target_ref
from vworkspace_core.operations.preconditions import Start, UnmetPrecondition, start_or_unmet
from vworkspace_core.operations.status import WantedStatus, with_status

_GOING = Decision(row="being deleted, without our finalizer")


def needs_live_view(operation: Operation, observed: OperationObserved, context: OperationContext) -> bool:
    """Report whether the objects for the decision about `operation` must be read from the API server again.

    The objects in `observed` come from caches, which may be outdated. `context` has the settings and the time. A read
    is needed before everything that cannot be undone, such as start, create and stop. It is also needed for objects
    that no cache holds, because an engine finds them by a selector. Other operators' Operations need no read.
    """
    meta = operation.metadata
    if meta.deletion_timestamp is not None:
        return FINALIZER in meta.finalizers
    if operation.status.phase in TERMINAL_PHASES or not is_managed(meta):
        return False
    if operation.status.phase is not Phase.RUNNING and _targets_other_cluster(operation, observed, context):
        return False  # where we may not act, we may not read either; the caches hold the reason
    if operation.status.phase is not Phase.RUNNING or cancellation_requested(operation.metadata):
        return True
    engine, known = context.engine_of(operation), operation.status.engine_ref
    if engine is None or (known is not None and not known.uid):
        return True
    if known is None and target_ref(operation) not in observed.objects:
        return True
    if lifecycle.is_over(operation, engine, context, observed.objects):
        return True
    if known is not None and own_object(operation, observed.objects) is None:
        return True
    if engine.diagnostics(operation, observed.objects):
        return True
    return any(ref not in observed.objects for ref in engine.extra_reads(operation, observed.objects))


def _targets_other_cluster(operation: Operation, observed: OperationObserved, context: OperationContext) -> bool:
    closed = closed_namespace(operation.metadata.namespace, observed.namespace)
    return bool(closed or wrong_cluster(OPERATION, operation.metadata, context.settings.cluster_id))


def approval_to_redeem(
    operation: Operation, observed: OperationObserved, context: OperationContext
) -> Redemption | None:
    """Return the approval by a person that must be recorded as used before the Operation starts, or None.

    The result is None if the Operation needs no approval. It is also None while another precondition is unmet, so that
    an Operation that cannot start does not use up its approval.
    """
    meta = operation.metadata
    if meta.deletion_timestamp is not None or cancellation_requested(meta) or not is_managed(meta):
        return None
    if operation.status.phase not in (None, Phase.PENDING) or claimed_by_another_operator(
        operation, context.settings.cluster_id
    ):
        return None
    outcome = start_or_unmet(operation, observed, context)
    if (
        isinstance(outcome, UnmetPrecondition)
        or outcome.redemption is None
        or context.claims.is_recorded(outcome.redemption)
    ):
        return None
    return outcome.redemption


def reconcile_operation(operation: Operation, observed: OperationObserved, context: OperationContext) -> Decision:
    """Return the decision about `operation`: the writes to make, and the time of the next pass.

    It depends only on the observed objects and the context (settings and time).
    """
    meta = operation.metadata
    if meta.deletion_timestamp is not None:
        return decide_deletion(operation, observed, context) if FINALIZER in meta.finalizers else _GOING
    if not is_managed(meta) or _belongs_to_another_operator(operation, observed, context):
        return Decision(row="not ours")
    if operation.status.phase in TERMINAL_PHASES:
        return tidy(operation, observed, context)
    if operation.status.phase is Phase.RUNNING:
        return decide_running(operation, observed, context)
    return _decide_start(operation, observed, context)


def _belongs_to_another_operator(operation: Operation, observed: OperationObserved, context: OperationContext) -> bool:
    """Report whether another cluster's operator may own the Operation.

    The answer is False if the run began in this cluster. The cluster label of the engine object (such as a Job) shows
    where it began, or that of the target if there is no engine object.
    """
    if not claimed_by_another_operator(operation, context.settings.cluster_id):
        return False
    if operation.status.started_at is None:
        return True
    engine_object = own_object(operation, observed.objects)
    began_on = engine_object[1] if engine_object else observed.objects.get(target_ref(operation))
    return began_on is None or not is_labelled_for(began_on, context.settings.cluster_id)


def _decide_start(operation: Operation, observed: OperationObserved, context: OperationContext) -> Decision:
    """Return the decision (the writes to make) about an Operation that has not started: to cancel, to block or to start
    it.
    """
    if cancellation_requested(operation.metadata):
        status = EngineStatus(Progress.RUNNING, "", "cancelled before it started")
        wanted_status = lifecycle.ended_status(operation, Phase.CANCELLED, Reason.USER_CANCELLED, status, context.now)
        return with_status(Decision(), operation, wanted_status, context)
    outcome = start_or_unmet(operation, observed, context)
    match outcome:
        case UnmetPrecondition():
            return with_status(Decision(), operation, _pending(outcome), context)
        case Start(redemption=Redemption() as redemption) if not context.claims.is_recorded(redemption):
            waits = _unrecorded(context.claims.trouble)
            return with_status(Decision(requeue=Requeue.BACKOFF), operation, _pending(waits), context)
        case Start():
            engine_ref = lifecycle.engine_ref_of(outcome.objects[0]) if outcome.objects else None
            outputs = outcome.engine.initial_outputs(operation, outcome.target, observed.objects)
            wanted_status = lifecycle.started_status(operation, engine_ref, outputs, context.now)
            finalizer = None if FINALIZER in operation.metadata.finalizers else Finalizer.ADD
            return with_status(Decision(finalizer=finalizer), operation, wanted_status, context)
        case _:
            assert_never(outcome)


def _unrecorded(trouble: str) -> UnmetPrecondition:
    """Return the unmet precondition that the approval is not recorded as used yet.

    `trouble` says why recording failed, and is empty before the first try.
    """
    message = (
        f"could not be written down as used: {trouble}; tried again" if trouble else "is being written down as used"
    )
    return UnmetPrecondition(Reason.AWAITING_APPROVAL, f"the approval {message}")


def _pending(unmet: UnmetPrecondition) -> WantedStatus:
    """Return the status of an Operation that cannot start, because the precondition `unmet` does not hold.

    It has the condition Blocked if waiting may help, or else Accepted=False.
    """
    true, false = ConditionStatus.TRUE, ConditionStatus.FALSE
    waiting = DesiredCondition(Type.RUNNING, false, Reason.ENGINE_NOT_STARTED)
    if unmet.accepted is False:
        refused = DesiredCondition(Type.ACCEPTED, false, unmet.reason, unmet.message)
        return WantedStatus(Phase.PENDING, waiting, accepted=refused)
    accepted = DesiredCondition(Type.ACCEPTED, true, Reason.TEMPLATE_VALIDATED) if unmet.accepted else None
    blocked = DesiredCondition(Type.BLOCKED, true, unmet.reason, unmet.message)
    return WantedStatus(Phase.PENDING, waiting, accepted=accepted, blocked=blocked)

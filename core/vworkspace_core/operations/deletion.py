"""The cleanup after an Operation has ended, and the deletion of Operations (OPS-11, OPS-7).

The deletion of a finished Operation keeps its results: a backup is not deleted with the Operation that made it. The
deletion of a running Operation stops its run first, unless `--cascade=orphan` or the annotation `vworkspace.io/abandon`
says that the run goes on.
"""

from purekube.apimachinery.errors import first_refusal
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.apimachinery.meta import ABANDON, ConditionStatus, is_abandoned
from purekube.controller.decision import Decision, Finalizer, MergePatch
from purekube.controller.ownership import is_locked, is_orphaning, owner_uids, owners_without, unlocked_finalizers
from purekube.ports import KubernetesEvent
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import namespace_is_terminating
from vworkspace_core.api.operation import TERMINAL_PHASES, Operation, Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.remedies import merge_command
from vworkspace_core.operations import lifecycle
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import EngineStatus, Progress
from vworkspace_core.operations.engines.volsync import schedule_again
from vworkspace_core.operations.identity import condition_of, goes_with, own_object
from vworkspace_core.operations.status import unblocked_status, with_status


def tidy(operation: Operation, observed: OperationObserved, context: OperationContext) -> Decision:
    """Return the decision (the writes to make) about an Operation that has ended.

    It removes the operator's finalizer from the engine object (such as a Job), which is in `observed`. The engine
    object is also deleted if the operator stopped the run. `context` has the settings and the time.
    """
    patches = lifecycle.unlock(operation, observed)
    deletes = lifecycle.stop(operation, observed, unlocking=bool(patches)) if _was_stopped(operation) else ()
    decision = Decision(
        patches=patches,
        deletes=deletes,
        only_if_current=True,
        requeue=lifecycle.pace_after(observed.failures),
        row=f"OPS-1 ended {operation.status.phase}",
    )
    blocked = condition_of(operation, Type.BLOCKED)
    was_blocked = blocked is not None and blocked.status is ConditionStatus.TRUE
    if was_blocked or first_refusal(failure.error for failure in observed.failures) is not None:
        wanted_status = lifecycle.refused_status(unblocked_status(operation), observed.failures, context.settings)
        return with_status(decision, operation, wanted_status, context)
    return decision


def _was_stopped(operation: Operation) -> bool:
    """Report whether the operator ended the Operation's run, by cancellation or because of its deadline.

    That is also so if it gave up creating the engine object (such as a Job), whose create may still arrive afterwards.
    """
    known = operation.status.engine_ref
    if operation.status.phase is Phase.CANCELLED or (known is not None and not known.uid):
        return True
    failed = condition_of(operation, Type.FAILED)
    return operation.status.phase is Phase.FAILED and failed is not None and failed.reason == Reason.TIMEOUT


def decide_deletion(operation: Operation, observed: OperationObserved, context: OperationContext) -> Decision:
    """Return the decision (the writes to make and the time of the next pass) about an Operation that is being deleted.

    The Operation must have the operator's finalizer. `observed` has the cluster's state, `context` the settings, the
    engines and the time.
    """
    gone = Decision(finalizer=Finalizer.REMOVE, only_if_current=True, row="OPS-11 nothing to stop")
    engine_object = own_object(operation, observed.objects)
    if is_abandoned(operation.metadata):
        return _orphan(operation, engine_object, observed, context, f"{ABANDON} is set")
    phase = operation.status.phase
    if phase is not Phase.RUNNING and phase not in TERMINAL_PHASES:
        return gone
    if engine_object is None and namespace_is_terminating(observed.namespace):
        return gone
    if engine_object is None:
        return _finish_without_object(operation, observed, context, gone)
    if _is_orphaned(operation, observed) or _has_lost_its_owner(operation, *engine_object, context):
        return _orphan(operation, engine_object, observed, context, "deleted with --cascade=orphan")
    stopping = bool(metadata(engine_object[1]).get("deletionTimestamp"))
    patches = lifecycle.unlock(operation, observed)
    if _namespace_is_terminating(operation, engine_object[0], observed):
        if patches:
            return Decision(patches=patches, only_if_current=True, row="OPS-11 goes with its namespace")
        if not is_locked(engine_object[1]):
            return gone
    if _has_finished(operation, observed, context) and not stopping:
        # Without the Operation no controller would unlock the object, and its own deletion would hang.
        return tidy(operation, observed, context) if is_locked(engine_object[1]) else gone
    decision = Decision(
        patches=patches,
        deletes=lifecycle.stop(operation, observed, unlocking=bool(patches)),
        only_if_current=True,
        requeue=lifecycle.pace_after(observed.failures),
        row="OPS-11 stop the run",
    )
    waited = f"{engine_object[0]} to go{_locked_for_good(operation, engine_object, observed)}"
    return _waiting(decision, operation, waited, observed, context)


def _is_orphaned(operation: Operation, observed: OperationObserved) -> bool:
    return observed.is_orphaning or is_orphaning(operation.metadata)


def _has_lost_its_owner(operation: Operation, ref: ObjectRef, live: Manifest, context: OperationContext) -> bool:
    """Report whether the engine object `live` (such as a Job) no longer refers to the Operation as owner.

    After `--cascade=orphan` nothing else is left to see for an operator that did not run meanwhile: the garbage
    collector takes the owner reference away (Kubernetes: pkg/controller/garbagecollector/garbagecollector.go,
    orphanDependents). Objects that hold data, or in another namespace, never had one.
    """
    engine = context.engine_of(operation)
    had_one = engine is not None and goes_with(ref, operation, engine.holds_data)
    return had_one and operation.metadata.uid not in owner_uids(live)


def _orphan(
    operation: Operation,
    engine_object: tuple[ObjectRef, Manifest] | None,
    observed: OperationObserved,
    context: OperationContext,
    cause: str,
) -> Decision:
    """Return the decision that removes the owner reference from the engine object (such as a Job).

    Garbage collection then keeps the object. Once no owner reference is left, the Operation's finalizer goes, with an
    Event that names the `cause`.
    """
    if (
        engine_object is None
        or not _is_held(operation, engine_object[1])
        or namespace_is_terminating(observed.namespace)
    ):
        events = (_abandoned(operation, engine_object, cause),)
        return Decision(finalizer=Finalizer.REMOVE, only_if_current=True, events=events, row="OPS-11 let go of")
    ref, live = engine_object
    refused = any(failure.ref == ref for failure in observed.failures)
    patches = () if refused else (letting_go(ref, live, operation.metadata.uid),)
    decision = Decision(patches=patches, only_if_current=True, requeue=lifecycle.pace_after(observed.failures))
    return _waiting(decision, operation, f"{ref} to be let go of", observed, context)


def letting_go(ref: ObjectRef, live: Manifest, uid: str) -> MergePatch:
    """Return the patch by which an engine object (such as a Job) outlives its Operation, whose uid is `uid`.

    It removes the owner reference and the operator's finalizer, and takes back what the operator changed for a while.
    """
    own = schedule_again(live) or {}
    meta = {
        "resourceVersion": metadata(live)["resourceVersion"],
        "ownerReferences": owners_without(live, uid),
        "finalizers": unlocked_finalizers(live),
        **metadata(own),
    }
    return MergePatch(ref, {**own, "metadata": meta})


def is_marked(live: Manifest) -> bool:
    """Report whether an engine object (such as a Job) has a mark for the operator, which has to go before it does.

    The marks are the operator's finalizer, and the annotation of a schedule that it has postponed.
    """
    return is_locked(live) or schedule_again(live) is not None


def _is_held(operation: Operation, live: Manifest) -> bool:
    """Report whether the engine object `live` (such as a Job) refers to the Operation as owner, or is marked."""
    return is_marked(live) or operation.metadata.uid in owner_uids(live)


def _locked_for_good(
    operation: Operation, engine_object: tuple[ObjectRef, Manifest], observed: OperationObserved
) -> str:
    """Return the end of a message: the command that removes the operator's finalizer from the engine object (a Job,
    say).

    It is empty unless the operator itself can no longer remove the finalizer, because the namespace is being deleted.
    """
    ref, live = engine_object
    if not _namespace_is_terminating(operation, ref, observed) or not is_locked(live):
        return ""
    command = merge_command(ref, {"metadata": {"finalizers": unlocked_finalizers(live)}})
    return f"; the namespace is being deleted and the operator may not change it any more. To let go of it: {command}"


def _namespace_is_terminating(operation: Operation, made: ObjectRef, observed: OperationObserved) -> bool:
    """Report whether the Operation's namespace is being deleted and the engine object (such as a Job) `made` is in it.

    If so, the operator need not delete `made`.
    """
    return namespace_is_terminating(observed.namespace) and made.namespace == operation.metadata.namespace


def _has_finished(operation: Operation, observed: OperationObserved, context: OperationContext) -> bool:
    """Report whether the run has ended without being stopped.

    Its engine object (such as a Job) is then kept when the Operation is deleted. A run that the operator stopped does
    not count. If the Operation's status shows no end, the status of the engine object decides.
    """
    if operation.status.phase in TERMINAL_PHASES:
        return not _was_stopped(operation)
    engine = context.engine_of(operation)
    return engine is None or engine.observe(operation, observed.objects).phase is not Progress.RUNNING


def _finish_without_object(
    operation: Operation, observed: OperationObserved, context: OperationContext, gone: Decision
) -> Decision:
    """Return the decision (the writes to make) about deleting an Operation without an engine object (such as a Job).

    While an unsuccessful run still affects its target, the decision is to wait, unless it goes on by
    `--cascade=orphan`. Otherwise it is `gone`, the decision that removes the Operation's finalizer.
    """
    engine, phase = context.engine_of(operation), operation.status.phase
    stays = phase is Phase.SUCCEEDED or (phase is Phase.RUNNING and _is_orphaned(operation, observed))
    if engine is None or stays or not engine.blocks_end(operation, observed.objects):
        return gone
    return _waiting(Decision(), operation, "the target to let go of it", observed, context)


def _waiting(
    decision: Decision, operation: Operation, what: str, observed: OperationObserved, context: OperationContext
) -> Decision:
    """Return `decision`, with a new status if the Operation is still running.

    The status says that the deletion waits for `what`.
    """
    if operation.status.phase is not Phase.RUNNING:
        return decision
    engine = context.engine_of(operation)
    after = f". {engine.after_stop}" if engine is not None and engine.after_stop else ""
    refusals = "".join(f"; {failure.verb} {failure.ref}: {failure.error.message}" for failure in observed.failures)
    running = condition_of(operation, Type.RUNNING)
    reason = running.reason if running is not None else Reason.ENGINE_STARTED
    status = EngineStatus(Progress.RUNNING, reason, f"being deleted: waiting for {what}{after}{refusals}")
    standing = lifecycle.progress_status(operation, status)
    wanted_status = lifecycle.refused_status(standing, observed.failures, context.settings)
    return with_status(decision, operation, wanted_status, context)


def _abandoned(operation: Operation, engine_object: tuple[ObjectRef, Manifest] | None, cause: str) -> KubernetesEvent:
    meta = operation.metadata
    known = operation.status.engine_ref
    message = "nothing was started"
    if known is not None:
        where = f"{known.namespace}/{known.name}".removeprefix("/")
        message = f"{known.kind} {where} was not found, or may not be read"
    if engine_object is not None:
        going = bool(metadata(engine_object[1]).get("deletionTimestamp"))
        message = f"{engine_object[0]} {'is being deleted already' if going else 'is left to itself'}"
    return KubernetesEvent(
        regarding=ObjectRef(OPERATION, meta.namespace, meta.name),
        regarding_uid=meta.uid,
        type="Warning",
        reason="Abandoned",
        action="Finalize",
        note=f"{cause}: the finalizer goes; {message}",
    )


# --- unreadable Operations --------------------------------------------------------------------------------------------

"""The preconditions for the start of an Operation, in the order of OPS-3. The first that does not hold is reported.

A check depends only on the Operation, the snapshot (the observed objects) and the context (settings and time). A
blocked Operation is checked again when one of the objects in its snapshot changes, and starts automatically once all
preconditions hold.
"""

from collections.abc import Callable
from typing import Final

import attrs

from purekube.apimachinery.formats import quoted
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.names import bounded_name
from vworkspace_core.api.admission import check_operation
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import ALLOWED_TYPES, CANCEL, capabilities, cluster_id_of, is_managed, type_is_allowed
from vworkspace_core.api.managed_namespace import closed_namespace, wrong_cluster
from vworkspace_core.api.operation import Operation
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.remedies import (
    approval_remedy,
    approve_command,
    capability_command,
    merge_command,
    not_installed,
    velero_is_elsewhere,
)
from vworkspace_core.operations.approvals import Flaw, Redemption
from vworkspace_core.operations.conflicts import first_ahead, first_to_postpone, is_running
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import Engine, EngineContext, EngineObject, EngineRefusal
from vworkspace_core.operations.identity import is_ready, name_taken, target_of, why_not_ready
from vworkspace_core.operations.parameters import parameter_problems, unknown_template
from vworkspace_core.operations.templates import OperationTemplate


@attrs.frozen
class UnmetPrecondition:
    """A precondition of OPS-3 that does not hold and so keeps an Operation from starting, with a reason and a message.

    `accepted` says which conditions the Operation gets. If it is False, the Operation gets Accepted=False, since it is
    invalid. If it is True, the Operation gets Accepted=True and Blocked=True, since waiting may help. If it is None,
    the Operation gets Blocked=True, and its condition Accepted is unchanged.
    """

    reason: Reason
    message: str
    accepted: bool | None = True


@attrs.frozen
class Start:
    """The result if all preconditions of OPS-3 hold: the engine, the target, and the engine objects to create.

    An engine object is, for example, a Job. `redemption` is the approval by a person that this start uses up, or None
    if the Operation needs no approval.
    """

    engine: Engine
    target: ApplicationInstance
    objects: tuple[EngineObject, ...]
    redemption: Redemption | None = None


@attrs.frozen
class _Case:
    """An Operation whose preconditions are being checked, with its target, template and engine."""

    operation: Operation
    observed: OperationObserved
    context: OperationContext
    target: ApplicationInstance
    template: OperationTemplate
    engine: Engine
    engine_context: EngineContext


def start_or_unmet(
    operation: Operation, observed: OperationObserved, context: OperationContext
) -> Start | UnmetPrecondition:
    """Return the first precondition of OPS-3 that does not hold for `operation`, or what is needed to start it.

    The result depends on `observed`, the observed objects, and on `context`, the settings and the time.
    """
    known = _identified(operation, observed, context)
    if isinstance(known, UnmetPrecondition):
        return known
    for check in _CHECKS:
        if unmet := check(known):
            return unmet
    objects = known.engine.desired(operation, known.target, known.engine_context)
    for obj in objects:
        if unmet := _taken(known, obj.ref):
            return unmet
    if unmet := _sync_may_begin(known):
        return unmet
    return Start(known.engine, known.target, objects, _redemption(known))


def _identified(
    operation: Operation, observed: OperationObserved, context: OperationContext
) -> _Case | UnmetPrecondition:
    """Return the Operation with its target, template and engine, for the later checks of preconditions.

    If one of them is missing or not permitted, return the precondition that is not met. The checks are target,
    namespace, cluster, type and template, in this order.
    """
    target = target_of(operation, observed.objects)
    name = operation.spec.target_ref.name
    if target is None or not is_managed(target.metadata):
        message = f"spec.targetRef.name: there is no managed ApplicationInstance {name} in this namespace"
        return UnmetPrecondition(Reason.TARGET_NOT_FOUND, message, accepted=False)
    if target.metadata.deletion_timestamp is not None:
        return UnmetPrecondition(Reason.TARGET_NOT_FOUND, f"the target {name} is being deleted", accepted=False)
    installation = context.settings.installation
    if message := closed_namespace(operation.metadata.namespace, observed.namespace, installation):
        return UnmetPrecondition(Reason.NAMESPACE_NOT_GATED, message, accepted=None)
    if message := wrong_cluster(OPERATION, operation.metadata, context.settings.cluster_id):
        return UnmetPrecondition(Reason.WRONG_CLUSTER, message, accepted=None)
    if cluster_id_of(target.metadata) != bounded_name(context.settings.cluster_id):
        other = wrong_cluster(APPLICATION_INSTANCE, target.metadata, context.settings.cluster_id)
        return UnmetPrecondition(Reason.WRONG_CLUSTER, f"the target {name}: {other}", accepted=None)
    return _templated(operation, observed, context, target)


def _templated(
    operation: Operation, observed: OperationObserved, context: OperationContext, target: ApplicationInstance
) -> _Case | UnmetPrecondition:
    kind, name = operation.spec.type, str(operation.spec.engine)
    if not type_is_allowed(observed.namespace, kind):
        message = f"type {kind} is not admitted in this namespace: its annotation {ALLOWED_TYPES} names those that are"
        return UnmetPrecondition(Reason.TEMPLATE_NOT_ALLOWED, message, accepted=False)
    template, engine = context.templates.find(kind, name), context.engine_of(operation)
    if template is None or engine is None:
        return UnmetPrecondition(Reason.VALIDATION_FAILED, str(unknown_template(operation)), accepted=False)
    return _Case(operation, observed, context, target, template, engine, context.for_engine(observed, template))


def _capability(case: _Case) -> UnmetPrecondition | None:
    """Return the unmet precondition if the target's annotation for the required capability does not name the engine
    (RES-5).

    Return None if it does. A capability is a task, such as `backup`.
    """
    given = capabilities(case.target.metadata).get(case.template.capability)
    if given == case.engine.name:
        return None
    meta, capability, engine = case.target.metadata, case.template.capability, case.engine.name
    message = f"the target {meta.name} does not name engine {engine} for {capability}"
    message += f", but {quoted(given)}" if given else ""
    command = capability_command(meta.name, meta.namespace, capability, engine)
    return UnmetPrecondition(Reason.CAPABILITY_MISSING, f"{message}. To fix: {command}", accepted=False)


def _parameters(case: _Case) -> UnmetPrecondition | None:
    problems = [
        *parameter_problems(case.operation, case.template),
        *check_operation(case.operation, settings=case.context.settings.admission),
    ]
    if problems:
        message = "; ".join(map(str, problems))
        return UnmetPrecondition(Reason.VALIDATION_FAILED, message, accepted=False)
    refusal = _refusal(case)
    if refusal is None or refusal.blocks:
        return None
    return UnmetPrecondition(refusal.reason, refusal.message, accepted=False)


def _refusal(case: _Case) -> EngineRefusal | None:
    return case.engine.check(case.operation, case.target, case.engine_context)


def _needs_approval(case: _Case) -> bool:
    approvals = case.operation.spec.approvals
    return case.template.needs_approval or (approvals is not None and approvals.required)


def _redemption(case: _Case) -> Redemption | None:
    return case.context.claims.to_redeem(case.operation, case.context.now) if _needs_approval(case) else None


def _approval(case: _Case) -> UnmetPrecondition | None:
    if not _needs_approval(case):
        return None
    approvals = case.operation.spec.approvals
    claim = approvals.claim if approvals is not None else None
    flaw = case.context.claims.flaw_of(claim, case.operation, case.context.now)
    if flaw is None:
        return None
    meta, installation = case.operation.metadata, case.context.settings.installation
    if flaw is not Flaw.NO_SECRET:
        command = approve_command(ObjectRef(OPERATION, meta.namespace, meta.name), installation)
        return UnmetPrecondition(Reason.AWAITING_APPROVAL, f"{flaw.value}. To fix: {command}")
    help_ = approval_remedy(installation)
    return UnmetPrecondition(Reason.MISSING_SECRET, f"{flaw.value}. To fix: {help_}")


def _target_ready(case: _Case) -> UnmetPrecondition | None:
    refusal = _refusal(case)
    if refusal is not None and refusal.blocks:
        return UnmetPrecondition(refusal.reason, refusal.message)
    if not case.template.needs_ready_target or is_ready(case.target):
        return None
    return UnmetPrecondition(Reason.TARGET_NOT_READY, why_not_ready(case.target))


def _conflict(case: _Case) -> UnmetPrecondition | None:
    ahead = first_ahead(case.operation, case.observed.siblings)
    if ahead is None:
        return None
    message = f"waits for Operation {ahead.metadata.name} ({ahead.spec.type}, {ahead.status.phase or 'Pending'})"
    return UnmetPrecondition(Reason.CONFLICTING_OPERATION, message + _stuck_sync(case, ahead))


def _stuck_sync(case: _Case, ahead: Operation) -> str:
    """Return the end of the message for a wait for a sync of the recurring Operation `ahead`; empty for any other.

    No deadline ends a sync that fails.
    """
    engine = case.context.engine_of(ahead)
    if engine is None or not engine.recurring(ahead) or not is_running(ahead):
        return ""
    ref = ObjectRef(OPERATION, ahead.metadata.namespace, ahead.metadata.name)
    cancel = merge_command(ref, {"metadata": {"annotations": {CANCEL: "true"}}})
    return f", whose sync has no deadline. If it fails again and again, cancel it: {cancel}"


def _sync_may_begin(case: _Case) -> UnmetPrecondition | None:
    """Return the unmet precondition that a conflicting Operation has not postponed its next scheduled run yet.

    This check is the last: only for an Operation that would start is the schedule postponed.
    """
    due = first_to_postpone(case.operation, case.observed.siblings)
    if due is None:
        return None
    message = f"waits until the next run of Operation {due.metadata.name} ({due.spec.type}) is postponed"
    return UnmetPrecondition(Reason.CONFLICTING_OPERATION, message)


def _dependencies(case: _Case) -> UnmetPrecondition | None:
    missing = [kind.crd_name for kind in case.engine.kinds(case.operation) if kind in case.observed.missing_kinds]
    if missing:
        return UnmetPrecondition(Reason.DEPENDENCY_MISSING, not_installed(missing, case.engine.install))
    if any(kind in case.engine_context.missing_kinds for kind in case.engine.kinds(case.operation)):
        message = velero_is_elsewhere(case.context.settings.velero_namespace)
        return UnmetPrecondition(Reason.DEPENDENCY_MISSING, message)
    return None


_CHECKS: Final[tuple[Callable[[_Case], UnmetPrecondition | None], ...]] = (
    _capability,
    _parameters,
    _dependencies,
    _approval,
    _target_ready,
    _conflict,
)


def _taken(case: _Case, ref: ObjectRef) -> UnmetPrecondition | None:
    """Return the unmet precondition that the name of the engine object `ref` (such as a Job) is taken (OPS-1).

    Return None if no other object has the name.
    """
    if ref not in case.observed.objects:
        return None
    return UnmetPrecondition(Reason.NAME_TAKEN, name_taken(ref))

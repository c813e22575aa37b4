"""The handling of an Operation that cannot be read, because it is malformed (REC-13, OPS-11): it starts no run.

A run that has started already is left alone: the operator neither follows nor stops it until the spec can be read again
or the Operation is deleted.
"""

from typing import Any

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import Decision
from vworkspace_core.api.labels import FINALIZER, is_managed
from vworkspace_core.api.managed_namespace import claimed_by_another_operator
from vworkspace_core.api.operation import (
    TERMINAL_PHASES,
    EngineName,
    Operation,
    OperationSpec,
    OperationStatus,
    OperationType,
    Phase,
    TargetRef,
)
from vworkspace_core.api.own_status import Unreadable, problem_text, read_status
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.deletion import decide_deletion, tidy
from vworkspace_core.operations.identity import condition_of
from vworkspace_core.operations.status import WantedStatus, with_status


def unreadable_operation(manifest: Manifest, error: ValidationProblems) -> Unreadable[Operation]:
    """Return the readable part of the malformed Operation `manifest`: metadata, type, engine, target name and status.

    `error` has the reasons why the Operation is malformed; the result has them as one text.
    """
    spec, status = _spec(manifest), read_status(OperationStatus, manifest)
    stub = Operation(read_meta(manifest), spec or _UNKNOWN, status or OperationStatus())
    return Unreadable(stub, problem_text(error), has_spec=spec is not None, has_status=status is not None)


_NO_TARGET = TargetRef(name="")

_UNKNOWN = OperationSpec(_NO_TARGET, OperationType.RUNBOOK, EngineName.WORKFLOW)


def _spec(manifest: Manifest) -> OperationSpec | None:
    """Return the Operation's spec with only type, engine and target name, or None if type or engine is malformed."""
    kind: Any = get_path(manifest, "spec", "type")
    engine: Any = get_path(manifest, "spec", "engine")
    name = get_path(manifest, "spec", "targetRef", "name")
    try:
        target = attrs.evolve(_NO_TARGET, name=name if isinstance(name, str) else "")
        return OperationSpec(target, OperationType(kind), EngineName(engine))
    except ValueError:
        return None


def decide_unreadable_operation(
    source: Unreadable[Operation], observed: OperationObserved, context: OperationContext
) -> Decision:
    """Return the decision (the writes to make and the time of the next pass) about a malformed Operation (REC-13).

    `source` is the readable part of the Operation. `observed` has the cluster's state, `context` the settings and the
    time. If the Operation is being deleted, it is handled like a well-formed
    one; otherwise its problems are written into its status, unless it has ended or is not the operator's.
    """
    stub = source.stub
    if stub.metadata.deletion_timestamp is not None:
        known = context if source.has_spec else attrs.evolve(context, engines={})
        return decide_deletion(stub, observed, known) if FINALIZER in stub.metadata.finalizers else Decision()
    if (
        not is_managed(stub.metadata)
        or claimed_by_another_operator(stub, context.settings.cluster_id)
        or not source.has_status
    ):
        return Decision()
    if stub.status.phase in TERMINAL_PHASES:
        return tidy(stub, observed, context)
    return with_status(Decision(), stub, _report(stub, source.problems), context)


def _report(stub: Operation, problems: str) -> WantedStatus:
    """Return the status of a malformed Operation: the present status, with Accepted=False.

    The condition's message is `problems`, the reasons why the Operation cannot be read.
    """
    before, running = stub.status, condition_of(stub, Type.RUNNING)
    desired = DesiredCondition(Type.RUNNING, ConditionStatus.FALSE, Reason.ENGINE_NOT_STARTED)
    if running is not None:
        desired = DesiredCondition(Type.RUNNING, running.status, running.reason, running.message)
    return WantedStatus(
        before.phase or Phase.PENDING,
        running=desired,
        accepted=DesiredCondition(Type.ACCEPTED, ConditionStatus.FALSE, Reason.VALIDATION_FAILED, problems),
        started_at=before.started_at,
        outputs=before.outputs or {},
        logs_ref=before.logs_ref,
        engine_ref=before.engine_ref,
    )

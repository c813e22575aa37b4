"""The conditions and status fields of the operator's kinds after a reconcile pass that an error stopped (REC-13)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.timestamps import format_time
from purekube.controller.reconcile_error import ReconcileError, ReconcileErrorCause, ReconcileErrorWords
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.managed_namespace import is_labelled_for
from vworkspace_core.api.operation import Phase
from vworkspace_core.api.reasons import (
    InstanceConditionType,
    InstanceReason,
    OperationConditionType,
    OperationReason,
    headline,
)
from vworkspace_core.api.vocabulary import owned_types


def _of_instance(before: Mapping[str, Condition], blocked: ReconcileError) -> Iterator[DesiredCondition]:
    """Yield the conditions that an ApplicationInstance gets after the error `blocked` stopped its reconcile pass.

    `before` has its present conditions by type. A present Ready is kept, since a deployed release keeps running.
    """
    kind, reason = InstanceConditionType, InstanceReason
    text = blocked.message_over()
    if blocked.is_transient:
        if kind.READY not in before:
            yield DesiredCondition(kind.READY, ConditionStatus.UNKNOWN, reason.RECONCILING, text)
        yield DesiredCondition(kind.RECONCILING, ConditionStatus.TRUE, reason.HELM_RELEASE_INSTALLING, text)
        return
    if kind.READY not in before:
        yield DesiredCondition(kind.READY, ConditionStatus.FALSE, reason.NOT_DEPLOYED, text)
    yield DesiredCondition(kind.RECONCILING, ConditionStatus.FALSE, reason.STABLE, f"blocked: {blocked.cause}")
    message = blocked.message_over(before.get(kind.BLOCKED))
    yield DesiredCondition(kind.BLOCKED, ConditionStatus.TRUE, blocked.cause, message)


def _of_operation(before: Mapping[str, Condition], blocked: ReconcileError) -> Iterator[DesiredCondition]:
    """Yield the conditions that an Operation gets after the error `blocked` stopped its reconcile pass.

    `before` has its present conditions by type. A present Running is kept, since the engine continues its work.
    """
    kind = OperationConditionType
    if kind.RUNNING not in before:
        text = blocked.message_over() if blocked.is_transient else ""
        yield DesiredCondition(kind.RUNNING, ConditionStatus.FALSE, OperationReason.ENGINE_NOT_STARTED, text)
    if blocked.cause is ReconcileErrorCause.TOO_DEEP:
        message = blocked.message_over(before.get(kind.ACCEPTED))
        yield DesiredCondition(kind.ACCEPTED, ConditionStatus.FALSE, blocked.cause, message)
    elif not blocked.is_transient:
        message = blocked.message_over(before.get(kind.BLOCKED))
        yield DesiredCondition(kind.BLOCKED, ConditionStatus.TRUE, blocked.cause, message)


def words_in_cluster(words: ReconcileErrorWords, cluster_id: str) -> ReconcileErrorWords:
    """Return `words`, the rules by which a status reports a reconcile error, restricted to objects of this cluster.

    This operator writes no status of objects that are labelled for another cluster (RES-5).
    """
    return attrs.evolve(words, is_ours=partial(is_labelled_for, cluster_id=cluster_id))


INSTANCE_WORDS: Final = ReconcileErrorWords(
    APPLICATION_INSTANCE,
    owned_types(APPLICATION_INSTANCE.kind),
    _of_instance,
    lambda conditions, now: {"lastReconcileTime": format_time(now), **headline(APPLICATION_INSTANCE, conditions)},
    events={InstanceConditionType.BLOCKED: True, InstanceConditionType.READY: False},
)
OPERATION_WORDS: Final = ReconcileErrorWords(
    OPERATION,
    owned_types(OPERATION.kind),
    _of_operation,
    lambda conditions, _: headline(OPERATION, conditions),
    defaults={"phase": Phase.PENDING.value},
    events={OperationConditionType.BLOCKED: True, OperationConditionType.ACCEPTED: True},
)

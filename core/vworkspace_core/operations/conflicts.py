"""Mutual exclusion of Operations on the same target, and the order in which they run (OPS-5).

A target is the application (ApplicationInstance) on which an Operation acts. Conflict is symmetric. Operations are
ordered by creation time, then by uid, so that no two can wait for each other. A running Operation delays all that it
conflicts with. One that is blocked for another reason than a conflict delays none.
"""

from collections.abc import Iterable
from typing import Final

from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.labels import cancellation_requested
from vworkspace_core.api.operation import BETWEEN_SYNCS, IDLE_REASONS, TERMINAL_PHASES, Operation, OperationType, Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.identity import condition_of

EXCLUDES: Final = {
    OperationType.UPGRADE: frozenset({OperationType.UPGRADE}),
    OperationType.RESTORE: frozenset({OperationType.UPGRADE, OperationType.BACKUP, OperationType.RESTORE}),
    OperationType.BACKUP: frozenset({OperationType.RESTORE}),
    OperationType.MIGRATION: frozenset(
        {OperationType.UPGRADE, OperationType.RESTORE, OperationType.BACKUP, OperationType.MIGRATION}
    ),
    OperationType.RUN_COMMAND: frozenset[OperationType](),
    OperationType.RUNBOOK: frozenset[OperationType](),
}
"""The conflicts: for each Operation type, the types that must not run on the target at the same time.

A conflict applies in both directions, even if only one of the two types lists it.
"""


def conflicting(kind: OperationType, other: OperationType) -> bool:
    """Report whether Operations of the types `kind` and `other` conflict on the same target.

    They must then not run at the same time.
    """
    return other in EXCLUDES[kind] or kind in EXCLUDES[other]


def order_of(operation: Operation) -> tuple[str, str]:
    """Return the key by which Operations are sorted: creation time, then uid.

    The creation time can be compared as text, since one API server writes all of them in the same format.
    """
    return (operation.metadata.creation_timestamp, operation.metadata.uid)


def is_running(operation: Operation) -> bool:
    """Report whether an Operation is active now. A scheduled Operation counts as inactive between two runs."""
    if operation.status.phase is not Phase.RUNNING:
        return False
    running = condition_of(operation, Type.RUNNING)
    return running is None or running.reason not in IDLE_REASONS


def may_begin_sync(operation: Operation) -> bool:
    """Report whether an Operation waits for its schedule, by which its next run may begin at any time."""
    running = condition_of(operation, Type.RUNNING)
    return operation.status.phase is Phase.RUNNING and running is not None and running.reason == BETWEEN_SYNCS


def first_to_postpone(operation: Operation, siblings: Iterable[Operation]) -> Operation | None:
    """Return a conflicting Operation whose next scheduled run has to be postponed before `operation` starts, or None.

    `siblings` are the other Operations on the same target.
    """
    due = (one for one in siblings if may_begin_sync(one) and conflicting(operation.spec.type, one.spec.type))
    return min(due, key=order_of, default=None)


def has_to_postpone(operation: Operation, siblings: Iterable[Operation]) -> bool:
    """Report whether the next scheduled run of `operation` must not begin now.

    It must not while one of `siblings`, the other Operations on the same target, conflicts with it and runs, or would
    start now.
    """
    others = (one for one in siblings if conflicting(operation.spec.type, one.spec.type))
    return any(is_running(one) or _contends(one) for one in others)


def conflict_order_of(operation: Operation) -> tuple[bool, bool]:
    """Return two facts about an Operation that decide whether other Operations on its target have to wait.

    The first is whether it is running, the second whether it would start now if no Operation conflicted with it.
    """
    return is_running(operation), _contends(operation)


def first_ahead(operation: Operation, siblings: Iterable[Operation]) -> Operation | None:
    """Return the conflicting Operation for which `operation` has to wait, or None if it need not wait.

    `siblings` are the other Operations on the same target. A running Operation is ahead of waiting ones, and an older
    Operation is ahead of younger ones.
    """
    mine = operation.metadata.uid
    others = [
        sibling
        for sibling in siblings
        if sibling.metadata.uid != mine and conflicting(operation.spec.type, sibling.spec.type)
    ]
    running = [sibling for sibling in others if is_running(sibling)]
    waiting = [sibling for sibling in others if _contends(sibling) and order_of(sibling) < order_of(operation)]
    return min(running, key=order_of, default=None) or min(waiting, key=order_of, default=None)


def _contends(operation: Operation) -> bool:
    """Report whether, by its status, `operation` would start now if no other Operation conflicted with it.

    An Operation without a status counts as ready to start.
    """
    meta, phase = operation.metadata, operation.status.phase
    if phase in TERMINAL_PHASES or phase is Phase.RUNNING:
        return False
    if meta.deletion_timestamp is not None or cancellation_requested(meta):
        return False
    if operation.status.observed_generation != meta.generation:
        return True  # its status describes another spec
    accepted, blocked = condition_of(operation, Type.ACCEPTED), condition_of(operation, Type.BLOCKED)
    if accepted is not None and accepted.status is ConditionStatus.FALSE:
        return False
    if blocked is None or blocked.status is not ConditionStatus.TRUE:
        return True
    return blocked.reason == Reason.CONFLICTING_OPERATION

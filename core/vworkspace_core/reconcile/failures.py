"""What a refused write means for the instance (REC-8, REC-13): conflict, terminal or transient, never swallowed."""

import shlex
from collections.abc import Iterator

import attrs

from vworkspace_core.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    Unavailable,
)
from vworkspace_core.kinds.labels import FIELD_MANAGER
from vworkspace_core.kinds.reasons import InstanceReason as Reason
from vworkspace_core.known import HELM_RELEASE
from vworkspace_core.manifest import Manifest, canonical_json, dig
from vworkspace_core.reconcile.barriers import Barrier
from vworkspace_core.reconcile.decision import Failure, Requeue

__all__ = ["Setback", "is_own_history", "meaning"]


@attrs.frozen
class Setback:
    """A failure that may pass: `reason` is one of Reconciling's, `message` says what and that it is tried again."""

    reason: str
    message: str
    requeue: Requeue


def is_own_history(failure: Failure) -> bool:
    """A conflict that names only ourselves: an Update entry of our own, against which force is right (REC-6)."""
    error = failure.error
    return isinstance(error, Conflict) and bool(error.conflicts) and _others(error) == ()


def meaning(failure: Failure, *, released_before: bool) -> Barrier | Setback:
    """Whether the failure blocks the instance or is tried again."""
    what = f"{failure.verb} {failure.ref}"
    error = failure.error
    match error:
        case Conflict():
            return Barrier(Reason.FIELD_CONFLICT, _conflict(failure, error), requeue=Requeue.SLOW)
        case Invalid():
            return Barrier(Reason.VALIDATION_FAILED, f"{what}: {error.message}", stalled=True)
        case KindMissing():
            told = f"not installed in this cluster: {failure.ref.kind.crd_name}"
            return Barrier(Reason.MISSING_DEPENDENCIES, told, requeue=Requeue.SLOW)
        case NotFound():
            return Barrier(Reason.NAMESPACE_NOT_GATED, f"{what}: {error.message}")
        case Forbidden(namespace_terminating=True):
            return Barrier(Reason.NAMESPACE_NOT_GATED, f"namespace {failure.ref.namespace} is being terminated")
        case Forbidden():
            return _retried(failure, f"{what} is not permitted: {error.message}", Requeue.SLOW, released_before)
        case Permanent():
            return _retried(failure, f"{what}: {error.message}", Requeue.SLOW, released_before)
        case Stale() | AlreadyExists() | Expired() | Unavailable() | OperatorError():
            return _retried(failure, f"{what}: {error.message}", Requeue.BACKOFF, released_before)


def _retried(failure: Failure, message: str, requeue: Requeue, released_before: bool) -> Setback:
    if failure.ref.kind != HELM_RELEASE:
        reason = Reason.CHART_SOURCE_SYNCING
    else:
        reason = Reason.HELM_RELEASE_UPGRADING if released_before else Reason.HELM_RELEASE_INSTALLING
    pace = "slow backoff, at most every five minutes" if requeue is Requeue.SLOW else "backoff"
    return Setback(reason, f"{message}; tried again with {pace}", requeue)


def _others(error: Conflict) -> tuple[FieldConflict, ...]:
    return tuple(conflict for conflict in error.conflicts if conflict.manager != FIELD_MANAGER)


def _conflict(failure: Failure, error: Conflict) -> str:
    """Who holds what, and the command that hands it back: editing the value back is not enough (REC-8)."""
    by_manager: dict[str, list[str]] = {}
    for conflict in _others(error):
        by_manager.setdefault(conflict.manager, []).append(conflict.field)
    held = "; ".join(
        f'field manager "{manager}" holds {", ".join(fields)}' for manager, fields in sorted(by_manager.items())
    )
    commands = [command for manager in sorted(by_manager) for command in _hand_back(failure, manager)]
    cure = f". To hand it back: {' && '.join(commands)}" if commands else ""
    return f"{failure.ref}: {held}{cure}"


def _hand_back(failure: Failure, manager: str) -> Iterator[str]:
    """A JSON patch that removes that one managedFields entry, guarded by its manager's name."""
    for index, operation in _entries(failure.live, manager):
        path = f"/metadata/managedFields/{index}"
        patch = canonical_json(
            [
                {"op": "test", "path": f"{path}/manager", "value": manager},
                {"op": "test", "path": f"{path}/operation", "value": operation},
                {"op": "remove", "path": path},
            ]
        ).decode()
        ref = failure.ref
        yield (
            f"kubectl patch {ref.kind.plural}.{ref.kind.group} {ref.name} -n {ref.namespace} "
            f"--type=json -p {shlex.quote(patch)}"
        )


def _entries(live: Manifest | None, manager: str) -> Iterator[tuple[int, str]]:
    """Main-resource entries of that manager, newest position first, so that the indexes stay right."""
    entries = dig(live, "metadata", "managedFields")
    if not isinstance(entries, list):
        return
    for index in reversed(range(len(entries))):
        entry = entries[index]
        if dig(entry, "manager") == manager and not dig(entry, "subresource"):
            yield index, str(dig(entry, "operation"))

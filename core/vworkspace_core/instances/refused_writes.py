"""What a refused write means for the instance (REC-8, REC-13): conflict, terminal or transient, never swallowed."""

import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import attrs

from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import not_permitted
from vworkspace_core.apimachinery.errors import (
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
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, canonical_json, dig
from vworkspace_core.apimachinery.resources import HELM_RELEASE
from vworkspace_core.apimachinery.secret_material import safe
from vworkspace_core.controller.decision import Failure
from vworkspace_core.controller.requeue import Requeue
from vworkspace_core.instances.blocker import Barrier

_MOST_FIELDS = 8


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
    what, error = f"{failure.verb} {failure.ref}", failure.error
    told = safe(error.message if error.message.startswith(what) else f"{what}: {error.message}")
    match error:
        case Conflict():
            return Barrier(Reason.FIELD_CONFLICT, _conflict(failure, error), requeue=Requeue.SLOW)
        case Invalid() if leftover := _leftover(failure):
            return Barrier(Reason.FIELD_CONFLICT, leftover, requeue=Requeue.SLOW)
        case Invalid():
            return Barrier(Reason.VALIDATION_FAILED, told, stalled=True)
        case KindMissing():
            missing = f"not installed in this cluster: {failure.ref.kind.crd_name}"
            return Barrier(Reason.MISSING_DEPENDENCIES, missing, requeue=Requeue.SLOW)
        case NotFound():
            return Barrier(Reason.NAMESPACE_NOT_GATED, told)
        case Forbidden(namespace_terminating=True):
            return Barrier(Reason.NAMESPACE_NOT_GATED, f"namespace {failure.ref.namespace} is being terminated")
        case Forbidden() if error.right is not None:
            return Barrier(Reason.FORBIDDEN, not_permitted(error.right), requeue=Requeue.REFUSED)
        case Forbidden():
            refused = f"{what} is not permitted: {error.message}"
            return _retried(failure, refused, Requeue.SLOW, released_before)
        case Permanent():
            return _retried(failure, told, Requeue.SLOW, released_before)
        case Stale() | AlreadyExists() | Expired() | Unavailable() | OperatorError():
            return _retried(failure, told, Requeue.BACKOFF, released_before)


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
        f'field manager "{manager}" holds {_listed(fields)}' for manager, fields in sorted(by_manager.items())
    )
    command = _hand_back(failure, by_manager.keys())
    return f"{failure.ref}: {held}" + (f". To hand it back: {command}" if command else "")


def _listed(fields: Sequence[str]) -> str:
    """The paths, as many as fit before the command that is the better part of the message."""
    named = ", ".join(fields[:_MOST_FIELDS])
    return named if len(fields) <= _MOST_FIELDS else f"{named} and {len(fields) - _MOST_FIELDS} more"


def _hand_back(failure: Failure, managers: Container[str]) -> str:
    """One JSON patch that removes the managedFields entries in the way, guarded by their managers' names."""
    steps: list[dict[str, Any]] = []
    for index, entry in _entries(failure.live):
        manager, operation = str(dig(entry, "manager")), str(dig(entry, "operation"))
        if manager in managers:
            path = f"/metadata/managedFields/{index}"
            steps.append({"op": "test", "path": f"{path}/manager", "value": manager})
            steps.append({"op": "test", "path": f"{path}/operation", "value": operation})
            steps.append({"op": "remove", "path": path})
    return _command(failure.ref, steps) if steps else ""


def _command(ref: ObjectRef, steps: list[dict[str, Any]]) -> str:
    kind = ref.kind.crd_name if ref.kind.group else ref.kind.plural
    patch = shlex.quote(canonical_json(steps).decode())
    return f"kubectl patch {kind} {ref.name} -n {ref.namespace} --type=json -p {patch}"


def _leftover(failure: Failure) -> str:
    """What is left of `chart` beside a `chartRef`, or the other way round; empty when that is not the trouble.

    A HelmRelease has one of the two. A field that somebody else holds in the one we no longer want stays when we
    leave, and makes the whole invalid: a conflict in all but name.
    """
    have, want = dig(failure.live, "spec"), dig(failure.wanted, "spec")
    if failure.ref.kind != HELM_RELEASE or not isinstance(have, Mapping) or not isinstance(want, Mapping):
        return ""
    for old, new in (("chart", "chartRef"), ("chartRef", "chart")):
        if old in have and old not in want and new in want:
            held = ", ".join(f'"{manager}"' for manager in sorted(_holders(failure.live, old))) or "nobody"
            steps = [
                {"op": "remove", "path": f"/spec/{old}"},
                {"op": "add", "path": f"/spec/{new}", "value": want[new]},
            ]
            told = f"{failure.ref}: .spec.{old}, held by field manager {held}, must give way to .spec.{new}"
            return f"{told}. To hand it back: {_command(failure.ref, steps)}"
    return ""


def _holders(live: Manifest | None, field: str) -> set[str]:
    return {
        str(dig(entry, "manager"))
        for _, entry in _entries(live)
        if dig(entry, "fieldsV1", "f:spec", f"f:{field}") is not None and dig(entry, "manager") != FIELD_MANAGER
    }


def _entries(live: Manifest | None) -> Iterator[tuple[int, Any]]:
    """Entries of the main resource, the last first, so that the positions before a removed one stay right."""
    entries = dig(live, "metadata", "managedFields")
    if isinstance(entries, list):
        yield from ((index, entries[index]) for index in reversed(range(len(entries))) if not _is_sub(entries[index]))


def _is_sub(entry: Any) -> bool:
    return bool(dig(entry, "subresource"))

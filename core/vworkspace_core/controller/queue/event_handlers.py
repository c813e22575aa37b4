"""From a change in the cluster to the keys it concerns (REC-1)."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from vworkspace_core.apimachinery.manifest import Kind, ObjectRef
from vworkspace_core.controller.informer.changes import CacheChange, ChangeType
from vworkspace_core.controller.informer.partial_decode import is_in_progress, owners
from vworkspace_core.controller.queue.workqueue import Priority

PROGRESS_SECONDS = 1.0
"""How long a report that is no verdict yet may wait for the next one: controllers write several in a row, and of
what is merely under way an instance tells no more than commentary, which waits for a minute (REC-6)."""

KeysOf: TypeAlias = Callable[[CacheChange], Iterator[ObjectRef]]
"""Which keys to reconcile because of a change."""


@attrs.frozen
class Urgency:
    """Before which other keys a key is looked at because of a change, and in how many seconds at the latest."""

    priority: Priority = Priority.LIVE
    after: float = 0.0


UrgencyOf: TypeAlias = Callable[[CacheChange], Urgency]


def itself(change: CacheChange) -> Iterator[ObjectRef]:
    """The changed object is the key."""
    yield change.ref


def owners_of_kind(kind: Kind) -> KeysOf:
    """The owners of `kind`, before and after the change: one that lost a child is looked at as well."""

    def keys(change: CacheChange) -> Iterator[ObjectRef]:
        before = () if change.old_raw is None else owners(change.old_raw, kind)
        yield from dict.fromkeys((*owners(change.raw, kind), *before))

    return keys


def priority_of(change: CacheChange) -> Priority:
    """Objects of the first list can wait; a live change cannot."""
    return Priority.BACKGROUND if change.initial else Priority.LIVE


def at_once(change: CacheChange) -> Urgency:
    """Every change is looked at now."""
    return Urgency(priority_of(change))


def verdict_first(change: CacheChange) -> Urgency:
    """A verdict is looked at now; what is only under way, in a moment, together with what follows it."""
    if change.type is not ChangeType.DELETED and is_in_progress(change.raw):
        return Urgency(priority_of(change), PROGRESS_SECONDS)
    return Urgency(_begun(change))


def what_is_begun(change: CacheChange) -> Urgency:
    """What an engine says of a run goes before runs that are yet to start."""
    return Urgency(_begun(change))


def _begun(change: CacheChange) -> Priority:
    return Priority.BACKGROUND if change.initial else Priority.VERDICT

"""Event handlers, which map a change in the cluster to the keys (references of objects) to reconcile, with their
urgency (REC-1).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import attrs

from purekube.apimachinery.manifest import Kind, ObjectRef, metadata
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.outline import is_in_progress, owners
from purekube.controller.queue.workqueue import Priority

PROGRESS_SECONDS = 1.0
"""The delay in seconds before an intermediate status of a downstream object is handled, so that several are handled
together.

Controllers write several statuses in a row. While a release is under way, an instance shows only progress messages,
which may wait for a minute (REC-6).
"""

KeysOf: TypeAlias = Callable[[CacheChange], Iterator[ObjectRef]]
"""A function that yields the keys (references of objects) to reconcile because of a change."""


@attrs.frozen
class Urgency:
    """The priority that a change gives to a key (an object to reconcile), and the longest delay in seconds before it is
    reconciled.
    """

    priority: Priority = Priority.LIVE
    after: float = 0.0


UrgencyOf: TypeAlias = Callable[[CacheChange], Urgency]


def same_object(change: CacheChange) -> Iterator[ObjectRef]:
    """Yield the reference of the changed object as the key to reconcile."""
    yield change.ref


def owners_of_kind(kind: Kind) -> KeysOf:
    """Return a handler that yields the owners of the changed object that are of `kind`, before and after the change.

    Owners before the change are included because the change may have removed an owner reference.
    """

    def keys(change: CacheChange) -> Iterator[ObjectRef]:
        before = () if change.old_raw is None else owners(change.old_raw, kind)
        yield from dict.fromkeys((*owners(change.raw, kind), *before))

    return keys


def by_spec(keys_of: KeysOf) -> KeysOf:
    """Return a handler like `keys_of` that ignores updates in which `metadata.generation` stays the same, such as
    writes of the status.
    """

    def keys(change: CacheChange) -> Iterator[ObjectRef]:
        before = change.old_object
        is_status = (
            change.type is not ChangeType.DELETED
            and before is not None
            and metadata(before).get("generation") == metadata(change.object).get("generation")
        )
        return iter(()) if is_status else keys_of(change)

    return keys


def when_defined(kinds: Iterable[Kind], keys_of: KeysOf) -> KeysOf:
    """Return a handler for changes of CRDs. For the CRD of one of the `kinds` it yields the keys that `keys_of` yields,
    for any other CRD none.
    """
    names = {kind.crd_name for kind in kinds}
    return lambda change: keys_of(change) if change.ref.name in names else iter(())


def priority_of(change: CacheChange) -> Priority:
    """Return the priority of a change: BACKGROUND for an object of the informer's first list, otherwise LIVE."""
    return Priority.BACKGROUND if change.initial else Priority.LIVE


def at_once(change: CacheChange) -> Urgency:
    """Return the urgency of a change to reconcile without delay, with the priority that `priority_of` gives it."""
    return Urgency(priority_of(change))


def in_background(change: CacheChange) -> Urgency:
    """Return the urgency with the priority BACKGROUND and no delay, whatever the change.

    It is for kinds whose waiting objects must not count as a backlog (`WorkQueue.is_backlogged`): a backlog delays the
    writing of statuses.
    """
    return Urgency(Priority.BACKGROUND)


def verdict_first(change: CacheChange) -> Urgency:
    """Return the urgency of a change of a downstream object (one that the reconciled object requires).

    A final status (`is_in_progress` is False), or a deletion, is reconciled at once and before other changes, except
    for an object of the informer's first list, which can wait. An intermediate status is reconciled after a short
    delay, so that several are reconciled together.
    """
    if change.type is not ChangeType.DELETED and is_in_progress(change.raw):
        return Urgency(priority_of(change), PROGRESS_SECONDS)
    return Urgency(_has_started(change))


def started_runs_first(change: CacheChange) -> Urgency:
    """Return the urgency of a change of an object that carries out a started run, such as the Job of an Operation (one
    action on an application, for example a backup).

    Such a change is reconciled before ordinary changes, except for an object of the informer's first list, which can
    wait.
    """
    return Urgency(_has_started(change))


def _has_started(change: CacheChange) -> Priority:
    return Priority.BACKGROUND if change.initial else Priority.VERDICT

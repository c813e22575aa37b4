"""The changes that matter to one controller, collected for each object until the next call of user code (PH-7).

A pass's own writes come back as watch events, before or after their responses. So changes are collected as they arrive,
and examined when the next pass begins: those with a version that the pass wrote are ignored.
"""

from collections.abc import Iterator
from typing import Final

import attrs
import msgspec
import structlog

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.controller.event_series import Once
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.outline import owners
from purekube.controller.informer.store import ObjectStore
from purekube.controller.shard import WHOLE, Shard
from purekube.reconcilers.controllers import (
    AnyController,
    Controller,
    Feature,
    features_of,
    kind_of,
    name_of,
    overrides,
    reference_problem,
)
from purekube.reconcilers.progress import NOTHING, ObjectProgress, PendingEvent, ProgressRules
from purekube.reconcilers.watching import Filters
from purekube_run.reconcilers.watches import refers_index, refers_key

_log = structlog.get_logger("operator")

_MOST: Final = 32
"""The maximum number of changes per object that are not examined yet: more than a pass writes. Of more changes, the
oldest count as changes by others.
"""


@attrs.frozen
class _Arrived:
    ref: ObjectRef
    version: str
    old_raw: bytes | None = None


class PendingEvents:
    """The changes that one controller's user code has not seen yet, collected by object.

    `vanished` keeps the last states of objects that disappeared before user code could clean up after them. Nothing is
    collected for objects of other shards, since no pass would ever take it.
    """

    def __init__(
        self, controller: AnyController, rules: ProgressRules, store: ObjectStore, shard: Shard = WHOLE
    ) -> None:
        self._controller = controller
        self._shard = shard
        self._kind = kind_of(controller)
        self.rules = rules
        self._store = store
        given = controller.filters
        self._filters: Filters | None = None
        if Feature.FILTER in features_of(controller):
            self._filters = attrs.evolve(given, finalizers={*given.finalizers, rules.begun, rules.kept})
        self._arrived: dict[ObjectRef, list[_Arrived]] = {}
        self._own: dict[ObjectRef, set[tuple[ObjectRef, str]]] = {}
        self._kept: dict[ObjectRef, PendingEvent] = {}
        self.vanished: dict[ObjectRef, Manifest] = {}
        self.lives: dict[ObjectRef, ObjectProgress] = {}
        self._failing = Once()

    # --- incoming changes ------------------------------------------------------------------------------------------

    def of_itself(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Record a change of an object of the controller's own kind, and yield the object's key.

        Nothing is recorded and yielded if a filter of the controller says that the change does not matter. If the
        controller wrote the change itself, the key is yielded, but nothing is recorded.
        """
        if self._is_own(change.ref, change):
            yield change.ref  # the worker pool ignores it as well
            return
        match change.type:
            case ChangeType.DELETED:
                progress = self.lives.get(change.ref)
                uid = str(metadata(change.object).get("uid", ""))
                if progress is not None and progress.uid == uid and not progress.cleaned:
                    self.vanished[change.ref] = change.object
            case ChangeType.UPDATED:
                old = change.old_object
                if self._filters is not None and old is not None and not self._passes(self._filters, old, change):
                    return
                self._arrive(change.ref, _Arrived(change.ref, change.version, change.old_raw))
            case ChangeType.ADDED:
                pass
        yield change.ref

    def _passes(self, filters: Filters, old: Manifest, change: CacheChange) -> bool:
        """Report whether an update must be handled. A predicate of the user gets an object that it may modify."""
        return filters.passes(old, change.object if filters.predicate is None else change.copied())

    def of_owned(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Record a change of an object that the controller may own, and yield the keys of its owners, which are objects
        of the controller's own kind.

        These are the owners before and after the change.
        """
        before = () if change.old_raw is None else owners(change.old_raw, self._kind)
        for key in dict.fromkeys((*owners(change.raw, self._kind), *before)):
            yield from self._woken(key, change)

    def of_read(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Record a change of an object that the controller only reads, and yield the keys of the objects to reconcile.

        These are the objects of the controller's own kind that refer to the changed object, and those that the
        controller's method `wakes` returns for it.
        """
        names = self._store.indexed_names(refers_index(self._controller), refers_key(change.ref))
        referring = (ObjectRef(self._kind, namespace or None, name) for namespace, name in names)
        for key in dict.fromkeys((*referring, *self._named_by(change))):
            yield from self._woken(key, change)

    def _named_by(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the keys that the controller's method `wakes` returns for the old and the new state of the changed
        object.

        The method gets copies, since other controllers read the same object and it may modify what it gets.
        """
        if overrides(self._controller, Controller.wakes):
            for state in (change.old_object, change.copied()):
                yield from () if state is None else self._answer_of_wakes(state)

    def _answer_of_wakes(self, state: Manifest) -> list[ObjectRef]:
        """Return the keys that the controller's method `wakes` returns for an object in `state`.

        If `wakes` raises, the exception is logged once, and the result is empty.
        """
        try:
            named = list(self._controller.wakes(state))
            if problem := next((text for ref in named if (text := reference_problem(ref, [self._kind]))), ""):
                raise TypeError(problem)
            named = [ObjectRef(self._kind, ref.namespace if self._kind.namespaced else None, ref.name) for ref in named]
        except Exception as error:
            if self._failing.first(name_of(self._controller), type(error).__name__):
                _log.warning("wakes failed; what it was asked about wakes no object", error=str(error))
            return []
        return named

    def _woken(self, key: ObjectRef, change: CacheChange) -> Iterator[ObjectRef]:
        if self._is_own(key, change):
            yield key
        elif self._store.raw(key.namespace, key.name) is not None:
            version = "" if change.type is ChangeType.DELETED else change.version
            self._arrive(key, _Arrived(change.ref, version))
            yield key

    def _is_own(self, key: ObjectRef, change: CacheChange) -> bool:
        """Report whether the last pass over `key` wrote this change. If so, forget that write."""
        own, written = self._own.get(key), (change.ref, change.version)
        if own is None or change.type is ChangeType.DELETED or written not in own:
            return False
        own.remove(written)
        if not own:
            del self._own[key]
        return True

    def _arrive(self, key: ObjectRef, arrived: _Arrived) -> None:
        if not self._shard.owns(key.namespace):
            return
        kept = self._arrived.setdefault(key, [])
        kept.append(arrived)
        if len(kept) > _MOST:
            self._kept[key] = _with_arrived(self._kept.get(key, NOTHING), key, kept.pop(0))

    def resync(self, key: ObjectRef) -> None:
        """Record that an object's resync interval has elapsed, as a pending change for the next call of user code."""
        if self._shard.owns(key.namespace):
            self._kept[key] = attrs.evolve(self._kept.get(key, NOTHING), resynced=True)

    # --- calls by passes ---------------------------------------------------------------------------------------------

    def wrote(self, key: ObjectRef, ref: ObjectRef, version: str) -> None:
        """Record that a pass over `key` wrote the object `ref`, whose resourceVersion then was `version`, so that the
        watch event does not count as a change by others.
        """
        if Feature.ECHO in self.rules.features:
            self._own.setdefault(key, set()).add((ref, version))

    def begin(self, key: ObjectRef) -> None:
        """Begin a pass: turn the changes that arrived since the last pass into pending changes.

        Changes that the last pass wrote are dropped. The caches must show all writes of that pass when this is called.
        """
        wake, own = self._kept.get(key, NOTHING), self._own.pop(key, set())
        for arrived in self._arrived.pop(key, ()):
            if (arrived.ref, arrived.version) not in own:
                wake = _with_arrived(wake, key, arrived)
        if wake is not NOTHING:
            self._kept[key] = wake

    def wake(self, key: ObjectRef) -> PendingEvent:
        """Return the pending changes of the object `key`, without forgetting them."""
        return self._kept.get(key, NOTHING)

    def take(self, key: ObjectRef) -> PendingEvent:
        """Return the pending changes of the object `key` for a call of user code, and forget them."""
        return self._kept.pop(key, NOTHING)

    def give_back(self, key: ObjectRef, wake: PendingEvent) -> None:
        """Make the changes `wake` pending again, because the call of user code that got them failed."""
        self._kept[key] = wake.before(self._kept.get(key))

    def forget(self, key: ObjectRef) -> None:
        """Forget an object that was deleted, with its pending changes."""
        self.lives.pop(key, None)
        for kept in (self._arrived, self._own, self._kept):
            kept.pop(key, None)


def _with_arrived(wake: PendingEvent, key: ObjectRef, arrived: _Arrived) -> PendingEvent:
    """Return the pending changes of the object `key` with one more change by others."""
    if arrived.ref != key:
        return wake.with_waker(arrived.ref)
    return wake.with_change(None if arrived.old_raw is None else msgspec.json.decode(arrived.old_raw))

"""The store: every object of every resource under one resourceVersion counter, with a window of history.

Reads never decode and writes touch only their own object, so the cost of a write does not depend on the number of
objects. The history serves watches that resume, pages that continue and lists of past versions; for versions older than
the window the callers answer 410 (W-05, W-06, W-11).
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from kubelab.model.failure import internal
from kubelab.model.records import GroupResource, ObjectKey, Record, StoredChange, record_of
from purekube.schema.node import Schema

Observer = Callable[[GroupResource, StoredChange], None]
"""A function that is called after every write, in order, before the writer returns."""


@attrs.define(eq=False)
class _Table:
    """The objects of one resource with their sorted keys and their recent changes."""

    objects: dict[ObjectKey, Record] = attrs.field(factory=dict)
    keys: list[ObjectKey] = attrs.field(factory=list)
    changes: deque[StoredChange] = attrs.field(factory=deque)


@attrs.frozen
class StoreSnapshot:
    """The content of a store at one moment, without its history."""

    version: int
    objects: Mapping[GroupResource, Mapping[ObjectKey, Record]] = attrs.field(repr=False)

    def of(self, where: GroupResource) -> Mapping[ObjectKey, Record]:
        """Return the records of all objects of the resource `where`, by their keys (namespace and name)."""
        return self.objects.get(where, {})


class Store:
    """The store of all objects and their history. No other part of the server assigns resourceVersions."""

    def __init__(self, *, window: int = 10_000, object_bytes: int = 1_572_864) -> None:
        """Create an empty store that keeps `window` changes over all resources.

        Objects of more than `object_bytes` are refused; the default is etcd's limit (W-37).
        """
        # The first revision of an etcd is 1, so 0 is free to mean any state.
        self.version = 1
        self.floor = 1
        self._window = window
        self._object_bytes = object_bytes
        self._tables: dict[GroupResource, _Table] = {}
        self._history: deque[_Table] = deque()
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with the resource and the change after every write from now on.

        Return a function to call when `observer` is to be called no longer.
        """
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def get(self, where: GroupResource, key: ObjectKey) -> Record | None:
        """Return the current record of one object, or None if the object does not exist."""
        table = self._tables.get(where)
        return None if table is None else table.objects.get(key)

    def put(
        self,
        where: GroupResource,
        manifest: Mapping[str, Any],
        *,
        lacks_status: bool = False,
        schema: Schema | None = None,
    ) -> Record:
        """Create or replace one object of the resource `where`, with the next resourceVersion. Return its new record.

        `lacks_status` means that the status in `manifest` is a default that no write has set yet. `schema` is the
        schema by which the object was found valid, None if it was not validated. Raises ApiFailure 500 if the object is
        too large.
        """
        table = self._table(where)
        record = record_of(manifest, self.version + 1, lacks_status=lacks_status, schema=schema)
        # etcd's own limit shows through: status 500 without a reason, although the client sent too much (W-37).
        if len(record.raw) > self._object_bytes:
            raise internal("etcdserver: request is too large")
        self.version += 1
        before = table.objects.get(record.key)
        if before is None:
            insort(table.keys, record.key)
        table.objects[record.key] = record
        self._record(where, table, StoredChange(self.version, before, record))
        return record

    def remove(self, where: GroupResource, key: ObjectKey) -> StoredChange:
        """Delete one object, and return the change. The deletion has a resourceVersion of its own (W-17)."""
        table = self._table(where)
        before = table.objects.pop(key)
        del table.keys[bisect_left(table.keys, key)]
        self.version += 1
        change = StoredChange(self.version, before, None)
        self._record(where, table, change)
        return change

    def drop(self, where: GroupResource) -> None:
        """Remove a resource and its history, after its CRD and its objects have been removed."""
        table = self._tables.pop(where, None)
        if table is not None:
            table.changes.clear()

    def scan(
        self, where: GroupResource, namespace: str | None = None, after: ObjectKey | None = None
    ) -> Iterator[Record]:
        """Yield the current objects of a resource in the order of lists: by namespace and name.

        `namespace` None means all namespaces. With `after`, begin after the object with this key (namespace and name).
        """
        table = self._tables.get(where)
        if table is None:
            return iter(())
        keys = _between(table.keys, namespace, after)
        return (table.objects[key] for key in keys)

    def past(self, where: GroupResource, version: int, namespace: str | None, after: ObjectKey | None) -> list[Record]:
        """Return the records that `scan` would have yielded at the resourceVersion `version`.

        The other arguments are those of `scan`. The history must still reach back to `version`: it must not be below
        `floor`.
        """
        table = self._tables.get(where)
        if table is None:
            return []
        undone: dict[ObjectKey, Record | None] = {}
        for change in reversed(table.changes):
            if change.version <= version:
                break
            undone[_key_of(change)] = change.before
        keys = sorted({*table.keys, *undone}) if undone else table.keys
        states = (undone[key] if key in undone else table.objects.get(key) for key in _between(keys, namespace, after))
        return [record for record in states if record is not None]

    def since(self, where: GroupResource, version: int) -> list[StoredChange]:
        """Return the changes of one resource after the resourceVersion `version`, oldest first.

        The history must still reach back to it: `version` must not be below `floor`.
        """
        table = self._tables.get(where)
        changes: list[StoredChange] = []
        for change in reversed(table.changes if table else ()):
            if change.version <= version:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def count(self, where: GroupResource) -> int:
        """Return the number of objects of the resource."""
        table = self._tables.get(where)
        return 0 if table is None else len(table.objects)

    def places(self) -> list[GroupResource]:
        """Return the group and plural name of every resource of which objects exist or have existed."""
        return list(self._tables)

    def compact(self, version: int | None = None) -> None:
        """Forget the history up to `version`, or the whole history if that is None, as an etcd compaction does."""
        bound = self.version if version is None else min(version, self.version)
        # Tables of dropped resources are still in the history, with no changes left.
        while self._history and (not self._history[0].changes or self._history[0].changes[0].version <= bound):
            self._forget_oldest()
        self.floor = max(self.floor, bound)

    def snapshot(self) -> StoreSnapshot:
        """Return the present state of all objects."""
        return StoreSnapshot(self.version, {where: dict(table.objects) for where, table in self._tables.items()})

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Replace the content and the resourceVersion by the snapshot's. Observers are called for each difference."""
        before = self.snapshot()
        self._tables = {where: _Table(dict(held), sorted(held)) for where, held in snapshot.objects.items()}
        self._history.clear()
        # A restored etcd has no history before the snapshot, and gives its later revisions out again (W-15).
        self.version = self.floor = snapshot.version
        for where in {**before.objects, **snapshot.objects}:
            was, now = before.of(where), snapshot.of(where)
            for key in {**was, **now}:
                if was.get(key) is not now.get(key):
                    self._notify(where, StoredChange(self.version, was.get(key), now.get(key)))

    def _table(self, where: GroupResource) -> _Table:
        return self._tables.setdefault(where, _Table())

    def _record(self, where: GroupResource, table: _Table, change: StoredChange) -> None:
        table.changes.append(change)
        self._history.append(table)
        while len(self._history) > self._window:
            self._forget_oldest()
        self._notify(where, change)

    def _notify(self, where: GroupResource, change: StoredChange) -> None:
        for observer in tuple(self._observers):
            observer(where, change)

    def _forget_oldest(self) -> None:
        changes = self._history.popleft().changes
        if changes:
            self.floor = max(self.floor, changes.popleft().version)


def _key_of(change: StoredChange) -> ObjectKey:
    record = change.after or change.before
    assert record is not None, "a change has a state before or after it"
    return record.key


def _between(keys: list[ObjectKey], namespace: str | None, after: ObjectKey | None) -> list[ObjectKey]:
    """Return those of `keys` that are in the namespace `namespace` and come after the key `after`.

    If the namespace is None, keys of all namespaces are returned.
    """
    first = 0 if namespace is None else bisect_left(keys, (namespace, ""))
    # No name sorts between a text and the same text with a null character.
    last = len(keys) if namespace is None else bisect_left(keys, (namespace + "\0", ""))
    if after is not None:
        first = max(first, bisect_left(keys, (after[0], after[1] + "\0")))
    return keys[first:last]

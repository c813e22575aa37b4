"""Changes that an informer's store reports to its readers, and the store's secondary indexes."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ChangeType(StrEnum):
    """The kind of a change to an informer's store: an object was added, updated or deleted."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


@attrs.frozen
class CacheChange:
    """One change of an informer's store.

    `raw` is the present object, or its last known state for DELETED. `version` is the object's resourceVersion.
    `old_raw` is the object before an UPDATED. `initial` marks objects of the informer's first list, which existed
    before. A deletion that the watch missed while disconnected is reported as DELETED too.
    """

    type: ChangeType
    ref: ObjectRef
    raw: bytes
    old_raw: bytes | None = None
    initial: bool = False
    version: str = ""

    @cached_property
    def object(self) -> Manifest:
        """The object, decoded once and shared by all readers, who must not modify it."""
        return _decode(self.raw)

    def copied(self) -> Manifest:
        """Return the object as a copy that the caller may modify, such as for code of users."""
        return _decode(self.raw)

    @property
    def old_object(self) -> Mapping[str, Any] | None:
        """The object before an UPDATED, as a copy that the caller may modify; None for other changes."""
        return None if self.old_raw is None else _decode(self.old_raw)


Name: TypeAlias = tuple[str, str]
"""The namespace (empty for cluster-scoped kinds) and name of an object."""

IndexKey: TypeAlias = tuple[str, str]
"""The name of an index and a value in it."""

Indexer: TypeAlias = Callable[[Manifest], Iterable[str]]
"""A function from an object to the values under which one index finds the object."""


def keys_of(manifest: Manifest, indexers: Mapping[str, Indexer]) -> tuple[IndexKey, ...]:
    """Return the index keys (index name and value) of an object, without duplicates.

    `indexers` maps the name of each index to the function that returns the object's values in that index.
    """
    return tuple({(index, value): None for index, indexer in indexers.items() for value in indexer(manifest)})


class SecondaryIndex:
    """An index that maps each key (index name and value) to the names of its objects, in order of arrival."""

    def __init__(self) -> None:
        self._names: dict[IndexKey, dict[Name, None]] = {}

    def find(self, index: str, value: str) -> Iterable[Name]:
        """Return the names of the objects that have `value` in the index named `index`."""
        return self._names.get((index, value), {})

    def insert(self, name: Name, keys: Iterable[IndexKey]) -> None:
        """Add the object with this name under all of its `keys`."""
        for key in keys:
            self._names.setdefault(key, {})[name] = None

    def remove(self, name: Name, keys: Iterable[IndexKey]) -> None:
        """Remove the object with this name from all of its `keys`."""
        for key in keys:
            names = self._names[key]
            del names[name]
            if not names:
                del self._names[key]

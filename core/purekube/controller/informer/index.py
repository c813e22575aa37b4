"""Secondary indexes of a store: the objects that carry a value."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from purekube.apimachinery.manifest import Manifest, get_path, metadata

Name: TypeAlias = tuple[str, str]
"""The namespace (empty for cluster-scoped kinds) and name of an object."""

IndexKey: TypeAlias = tuple[str, str]
"""The name of an index and a value in it."""

Indexer: TypeAlias = Callable[[Manifest], Iterable[str]]
"""The values under which an object is found."""


def owner_uids(manifest: Manifest) -> Iterable[str]:
    """Return the uids of all owners, controller or not."""
    owners = metadata(manifest).get("ownerReferences") or ()
    return (str(uid) for owner in owners if (uid := get_path(owner, "uid")))


def keys_of(manifest: Manifest, indexers: Mapping[str, Indexer]) -> tuple[IndexKey, ...]:
    """Return every index entry of an object, each once."""
    return tuple({(index, value): None for index, indexer in indexers.items() for value in indexer(manifest)})


class SecondaryIndex:
    """Object names by index key, in order of arrival."""

    def __init__(self) -> None:
        self._names: dict[IndexKey, dict[Name, None]] = {}

    def find(self, index: str, value: str) -> Iterable[Name]:
        """Return the names held under a value."""
        return self._names.get((index, value), {})

    def insert(self, name: Name, keys: Iterable[IndexKey]) -> None:
        """Enter a name under all its keys."""
        for key in keys:
            self._names.setdefault(key, {})[name] = None

    def remove(self, name: Name, keys: Iterable[IndexKey]) -> None:
        """Remove a name from all its keys."""
        for key in keys:
            names = self._names[key]
            del names[name]
            if not names:
                del self._names[key]

"""The objects that each Operation waits for: those read at the last look before it has started (OPS-3).

No index can hold them, since only the engine knows which objects its parameters name. A look at an Operation records
the objects before it reads them, so that no change between reading and waiting is missed.
"""

from collections.abc import Iterable, Iterator

import attrs

from purekube.apimachinery.manifest import ObjectRef


@attrs.define
class AwaitedObjects:
    """The keys of Operations, by the objects that they wait for."""

    _of: dict[ObjectRef, frozenset[ObjectRef]] = attrs.field(factory=dict)
    _by: dict[ObjectRef, set[ObjectRef]] = attrs.field(factory=dict)

    def awaits(self, key: ObjectRef, objects: Iterable[ObjectRef]) -> None:
        """Record that the key waits for exactly these objects, replacing earlier ones; an empty set clears it."""
        desired, before = frozenset(objects), self._of.pop(key, frozenset())
        for ref in before - desired:
            self._by[ref].discard(key)
            if not self._by[ref]:
                del self._by[ref]
        for ref in desired - before:
            self._by.setdefault(ref, set()).add(key)
        if desired:
            self._of[key] = desired

    def keys_waiting_for(self, ref: ObjectRef) -> Iterator[ObjectRef]:
        """Yield the keys that wait for an object, sorted by name."""
        yield from sorted(self._by.get(ref, ()), key=str)

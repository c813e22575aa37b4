"""Which Operations wait for which objects: those that the last look at one that has not started was about (OPS-3).

No index can tell, since only the engine knows what its parameters name, and where. A look at an Operation puts down
what it looked at before it reads it, so that no change falls between the reading and the waiting.
"""

from collections.abc import Iterable, Iterator

import attrs

from vworkspace_core.apimachinery.manifest import ObjectRef


@attrs.define
class AwaitedObjects:
    """Keys by the objects that they wait for."""

    _of: dict[ObjectRef, frozenset[ObjectRef]] = attrs.field(factory=dict)
    _by: dict[ObjectRef, set[ObjectRef]] = attrs.field(factory=dict)

    def awaits(self, key: ObjectRef, objects: Iterable[ObjectRef]) -> None:
        """The key waits for these from now on, and for nothing else; for nothing at all where there are none."""
        wanted, before = frozenset(objects), self._of.pop(key, frozenset())
        for ref in before - wanted:
            self._by[ref].discard(key)
            if not self._by[ref]:
                del self._by[ref]
        for ref in wanted - before:
            self._by.setdefault(ref, set()).add(key)
        if wanted:
            self._of[key] = wanted

    def keys_waiting_for(self, ref: ObjectRef) -> Iterator[ObjectRef]:
        """Who waits for that object, sorted by name."""
        yield from sorted(self._by.get(ref, ()), key=str)

"""The indexes of the Operation cache, and the index of Operations by the objects for which they wait (OPS-3)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.names import bounded_name
from purekube.controller.informer.changes import Indexer
from purekube.controller.ownership import is_locked
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.operation import TERMINAL_PHASES, EngineName


@attrs.define
class AwaitedObjects:
    """An index that finds the Operations which wait for an object."""

    _of: dict[ObjectRef, frozenset[ObjectRef]] = attrs.field(factory=dict)
    _by: dict[ObjectRef, set[ObjectRef]] = attrs.field(factory=dict)

    def awaits(self, key: ObjectRef, objects: Iterable[ObjectRef]) -> None:
        """Record that the Operation `key` waits for exactly the given `objects`.

        An Operation that waits for none is removed from the index.
        """
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
        """Yield the Operations that wait for the object `ref`, sorted by name."""
        yield from sorted(self._by.get(ref, ()), key=str)


BY_UID: Final = "uid"
"""The index of Operations by uid. An engine's object names its Operation by uid, in the label `operation-uid`."""

OPEN: Final = "open"
"""The index of Operations that have not ended, by namespace; the key `EVERYWHERE` holds all of them."""

OPEN_ON: Final = "open-on"
"""The index of Operations that have not ended, by target."""

UPGRADES_OF: Final = "upgrades-of"
"""The index of Operations with the engine helm that have started, including ended ones, by target (REC-9)."""

LOCKED: Final = "locked"
"""The index of engine objects that are locked (see `locked`), under the key `EVERYWHERE`."""

EVERYWHERE: Final = "*"


def target_in(manifest: Manifest) -> ObjectRef | None:
    """Return the target that an Operation's manifest names; None if the manifest names none."""
    name = get_path(manifest, "spec", "targetRef", "name")
    namespace = metadata(manifest).get("namespace")
    return ObjectRef(APPLICATION_INSTANCE, namespace, name) if isinstance(name, str) and name else None


def has_ended(manifest: Manifest) -> bool:
    """Report whether the Operation's phase is final."""
    return get_path(manifest, "status", "phase") in TERMINAL_PHASES


def _by_uid(manifest: Manifest) -> Iterator[str]:
    yield bounded_name(str(metadata(manifest).get("uid", "")))


def _open(manifest: Manifest) -> Iterator[str]:
    if not has_ended(manifest):
        yield str(metadata(manifest).get("namespace"))
        yield EVERYWHERE


def _open_on(manifest: Manifest) -> Iterator[str]:
    target = target_in(manifest)
    if target is not None and not has_ended(manifest):
        yield str(target)


def _upgrades_of(manifest: Manifest) -> Iterator[str]:
    target = target_in(manifest)
    started = get_path(manifest, "status", "startedAt") is not None
    if target is not None and started and get_path(manifest, "spec", "engine") == EngineName.HELM:
        yield str(target)


def _locked(manifest: Manifest) -> Iterator[str]:
    if is_locked(manifest):
        yield EVERYWHERE


ENGINE_INDEXES: Final[Mapping[str, Indexer]] = {LOCKED: _locked}
OPERATION_INDEXES: Final[Mapping[str, Indexer]] = {
    BY_UID: _by_uid,
    OPEN: _open,
    OPEN_ON: _open_on,
    UPGRADES_OF: _upgrades_of,
}

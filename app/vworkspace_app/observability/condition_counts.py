"""How many objects of ours have which conditions: counted as they change, so that a scrape decodes no object."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.reasons import (
    InstanceConditionType,
    InstanceReason,
    OperationConditionType,
    OperationReason,
)
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, get_path
from vworkspace_core.controller.informer.changes import CacheChange, ChangeType

ConditionLabels: TypeAlias = tuple[str, str, str]
"""Type, status and reason of a condition."""

_OTHER: Final = "other"
_STATUSES: Final = frozenset(("True", "False", "Unknown"))


@attrs.define
class ConditionCounts:
    """Counts the conditions of one kind. Reasons that are not ours, of Flux or an engine, count as `other`."""

    types: frozenset[str] = attrs.field(converter=frozenset)
    reasons: frozenset[str] = attrs.field(converter=frozenset)
    _by_object: dict[ObjectRef, tuple[ConditionLabels, ...]] = attrs.field(factory=dict, init=False)
    _counts: Counter[ConditionLabels] = attrs.field(factory=Counter, init=False)

    def count(self, change: CacheChange) -> None:
        """Count a change that an informer saw."""
        now = () if change.type is ChangeType.DELETED else tuple(self._conditions(change.object))
        for labels in self._by_object.pop(change.ref, ()):
            self._counts[labels] -= 1
        for labels in now:
            self._counts[labels] += 1
        if now:
            self._by_object[change.ref] = now

    def samples(self) -> tuple[tuple[ConditionLabels, int], ...]:
        """How many objects have which condition.

        One that no object has any more stays, at 0: a series that ends looks like an outage.
        """
        return tuple(sorted(self._counts.items()))

    def _conditions(self, manifest: Manifest) -> Iterator[ConditionLabels]:
        if get_path(manifest, "metadata", "labels", MANAGED_BY) != MANAGED_BY_VALUE:
            return
        for condition in get_path(manifest, "status", "conditions") or ():
            kind, status, reason = (str(condition.get(field)) for field in ("type", "status", "reason"))
            if kind in self.types and status in _STATUSES:
                yield kind, status, reason if reason in self.reasons else _OTHER


def instance_conditions() -> ConditionCounts:
    """The conditions of ApplicationInstances."""
    return ConditionCounts(InstanceConditionType, InstanceReason)


def operation_conditions() -> ConditionCounts:
    """The conditions of Operations."""
    return ConditionCounts(OperationConditionType, OperationReason)

"""What is asked for in an ApplicationInstance, as a key: what follows from that alone is worked out once.

Flux reports several times on one request, and the status of the instance moves with it; its spec does not. To check it
and to build manifests from it anew was half of a decision. What is remembered is worked out from an instance that holds
nothing but what was asked for, so that it cannot depend on more.
"""

from typing import Final, Generic, TypeVar

from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.apimachinery.meta import ObjectMeta

T = TypeVar("T")

REMEMBERED: Final = 128
"""Intents that one cache holds: more than are under way at once, each a few kilobytes."""


class Intent:
    """Spec, names, uid, labels and annotations of an instance.

    Specs are compared by identity, which costs nothing: the codec makes one object of copies that say the same.
    """

    __slots__ = ("_meta", "_spec")

    def __init__(self, instance: ApplicationInstance) -> None:
        self._meta = instance.metadata
        self._spec = instance.spec

    def __hash__(self) -> int:
        return hash((id(self._spec), self._meta.uid, self._meta.name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intent) and self._spec is other._spec and _asks_the_same(self._meta, other._meta)

    @property
    def instance(self) -> ApplicationInstance:
        """An instance that holds this, and nothing else."""
        meta = self._meta
        asked = ObjectMeta(meta.name, meta.namespace, meta.uid, labels=meta.labels, annotations=meta.annotations)
        return ApplicationInstance(asked, self._spec)


def _asks_the_same(left: ObjectMeta, right: ObjectMeta) -> bool:
    return left is right or (
        left.name == right.name
        and left.uid == right.uid
        and left.namespace == right.namespace
        and left.annotations == right.annotations
        and left.labels == right.labels
    )


class ById(Generic[T]):
    """A value as a key by identity: comparing its content would cost more than is spared."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value

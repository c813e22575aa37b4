"""The user-set part of an ApplicationInstance as a cache key: what follows from it alone is computed once.

Flux reports several times on one request, and each time the status of the instance changes, but not its spec. Checking
the spec and building manifests from it again took half of a decision. A cached result is computed from an instance
reduced to these parts, so that it cannot depend on more.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from purekube.apimachinery.meta import ObjectMeta
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.codec import is_shared, shared_spec

P = ParamSpec("P")
T = TypeVar("T")

REMEMBERED: Final = 128
"""The number of intents that one cache holds: more than are under way at once, each a few kilobytes."""


class Intent:
    """Spec, names, uid, labels and annotations of an instance.

    Specs are compared by identity, which costs nothing: the codec makes one object of equal copies.
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
    def is_small(self) -> bool:
        """True if it may be cached: 128 large specs would take too much memory."""
        return is_shared(self._spec)

    @property
    def instance(self) -> ApplicationInstance:
        """An instance with these parts only."""
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


def remembered(work: Callable[Concatenate[Intent, P], T]) -> "_Remembered[P, T]":
    """Cache what follows from an intent, unless its spec is large (RUN-11)."""
    return _Remembered(work)


class _Remembered(Generic[P, T]):
    def __init__(self, work: Callable[Concatenate[Intent, P], T]) -> None:
        self._work = work
        self._cached = lru_cache(maxsize=REMEMBERED)(work)
        _CACHES.append(self._cached)

    def __call__(self, intent: Intent, *rest: P.args, **named: P.kwargs) -> T:
        if not intent.is_small:
            return self._work(intent, *rest, **named)
        return self._cached(intent, *rest, **named)  # type: ignore[arg-type]


_CACHES: Final[list[Any]] = [shared_spec]


def forget() -> None:
    """Clear the caches, as every measurement of work must do first."""
    for cache in _CACHES:
        cache.cache_clear()


class ById(Generic[T]):
    """A value as a key by identity: comparing its content would cost more than the cache saves."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value

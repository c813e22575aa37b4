"""A cache for results that depend only on the user-set part of an ApplicationInstance, its intent (RUN-11).

Flux reports several times on one request, and each time the status of the instance changes, but not its spec. Without
the cache, checking the spec and building manifests from it took half of the time of a decision. The functions whose
results are cached do not know of the cache: their callers call `recall`. Such a function gets the instance reduced to
its intent, so that its result cannot depend on anything else.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar, TypeVarTuple

from purekube.apimachinery.meta import ObjectMeta
from vworkspace_core.api.application_instance import ApplicationInstance, ApplicationInstanceSpec
from vworkspace_core.api.codec import is_shared, shared_spec

T = TypeVar("T")
Rest = TypeVarTuple("Rest")

REMEMBERED: Final = 128
"""The number of results that are cached per function, each a few kilobytes large.

It exceeds the number of reconcile passes that run at once.
"""


def recall(work: Callable[[ApplicationInstance, *Rest], T], source: ApplicationInstance, *rest: *Rest) -> T:
    """Return the result of `work(intent, *rest)`, from a cache if possible.

    `intent` is the spec of the instance `source` with its names, labels and annotations. Results for large specs are
    not cached.
    """
    if not is_shared(source.spec):
        return work(intent_of(source.metadata, source.spec), *rest)
    cache = _CACHES.get(work)
    if cache is None:
        cache = _CACHES.setdefault(work, lru_cache(maxsize=REMEMBERED)(CallKey.result))
    result: T = cache(CallKey(work, source, rest))
    return result


def forget() -> None:
    """Clear the caches of `recall`, and that of the specs that were read from JSON (`codec.shared_spec`).

    A performance measurement must begin with this call.
    """
    for cache in (shared_spec, *_CACHES.values()):
        cache.cache_clear()


_CACHES: Final[dict[Any, Any]] = {}


def intent_of(meta: ObjectMeta, spec: ApplicationInstanceSpec) -> ApplicationInstance:
    """Return an instance with this spec and only the names, uid, labels and annotations of `meta`."""
    asked = ObjectMeta(meta.name, meta.namespace, meta.uid, labels=meta.labels, annotations=meta.annotations)
    return ApplicationInstance(asked, spec)


class CallKey:
    """The key of a cached function call: the function and its arguments.

    Specs are compared by identity, which is cheap and sufficient, since `api.codec` returns the same object for equal
    specs. Other arguments except strings are compared by identity too, because comparing their content would cost more
    than the cache saves.
    """

    __slots__ = ("_marks", "_meta", "_rest", "_spec", "_work")

    def __init__(self, work: Any, source: ApplicationInstance, rest: tuple[Any, ...] = ()) -> None:
        self._work, self._meta, self._spec, self._rest = work, source.metadata, source.spec, rest
        self._marks = tuple(each if isinstance(each, str) else id(each) for each in rest)

    def result(self) -> Any:
        """Call the function and return its result."""
        return self._work(intent_of(self._meta, self._spec), *self._rest)

    def __hash__(self) -> int:
        return hash((id(self._spec), self._meta.uid, self._meta.name, self._marks))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CallKey)
            and self._spec is other._spec
            and self._marks == other._marks
            and _is_same_intent(self._meta, other._meta)
        )


def _is_same_intent(left: ObjectMeta, right: ObjectMeta) -> bool:
    return left is right or (
        left.name == right.name
        and left.uid == right.uid
        and left.namespace == right.namespace
        and left.annotations == right.annotations
        and left.labels == right.labels
    )

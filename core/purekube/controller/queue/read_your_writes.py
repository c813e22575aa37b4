"""Read your writes: keys that may not be decided yet, because the cache has not seen their writes (RUN-3)."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeAlias, TypeVar

import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.backoff import Backoff

K = TypeVar("K", bound=Hashable)

ObjectVersion: TypeAlias = tuple[ObjectRef, str]
"""An object and the resourceVersion that the server answered to a write of it."""

HasSeen: TypeAlias = Callable[[ObjectRef, str], bool]
"""A function that reports whether the cache holds an object at that resourceVersion or a later one."""

_CHECKS = Backoff(base=0.05, cap=1.6)
"""Backoff between two checks of the cache, at half of the ceiling: 50 to 800 ms. It needs no jitter, since only one

process reads the cache.
"""


@attrs.frozen
class _Unseen:
    versions: dict[ObjectRef, str]
    until: float
    checks: int = 0


class PendingWrites(Generic[K]):
    """The writes of each key that the cache has not shown yet.

    `timeout` is how many seconds after its last write a key waits for the cache; then its objects must be read live.
    Only the latest write of each object counts.
    """

    def __init__(self, seen: HasSeen, *, timeout: float = 5.0) -> None:
        self._seen = seen
        self._timeout = timeout
        self._unseen: dict[K, _Unseen] = {}

    def record(self, key: K, now: float, written: Iterable[ObjectVersion]) -> None:
        """Record writes made for a key."""
        versions = dict(written)
        if versions:
            before = self._unseen.get(key)
            self._unseen[key] = _Unseen({**(before.versions if before else {}), **versions}, now + self._timeout)

    def unseen(self, key: K) -> tuple[ObjectRef, ...]:
        """Return the objects that the cache must still see before the key may be decided; empty if it may."""
        pending = self._unseen.get(key)
        if pending is None:
            return ()
        versions = {ref: version for ref, version in pending.versions.items() if not self._seen(ref, version)}
        if not versions:
            del self._unseen[key]
            return ()
        self._unseen[key] = attrs.evolve(pending, versions=versions)
        return tuple(versions)

    def next_check(self, key: K, now: float) -> float | None:
        """Return the seconds until the next check of the cache, None if the timeout is over and a live read is due."""
        pending = self._unseen[key]
        if now >= pending.until:
            return None
        self._unseen[key] = attrs.evolve(pending, checks=pending.checks + 1)
        return _CHECKS.delay(pending.checks + 1, jitter=0.0)

    def is_waiting(self, key: K) -> bool:
        """Report whether the key's turn has come and it waits for the cache."""
        pending = self._unseen.get(key)
        return pending is not None and pending.checks > 0

    def forget(self, key: K) -> None:
        """Forget the key's writes, since its objects were read live."""
        self._unseen.pop(key, None)

"""Which changes a key need not be woken by: those that show it what it wrote itself (RUN-3).

A pass takes the server's answer to each of its writes into what it decides on. So when it ends settled, the watch
events of those very resourceVersions tell it nothing. Everything else does, also a later version of the same object.

Guarantees
    A change that is not an answer to one of the key's own writes always wakes the key, whether it comes before,
    during or after the pass.
    An echo may come before the answer to its write: what comes during a pass is judged when the pass ends.
    What is remembered of a key is at most what its last pass wrote and what came meanwhile.
"""

from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

import attrs

from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.controller.queue.read_your_writes import ObjectVersion
from vworkspace_core.controller.queue.workqueue import Priority

K = TypeVar("K", bound=Hashable)


class EventOrigin(Enum):
    """What a change means for a key."""

    NEWS = "look at the key"
    ECHO = "the key wrote this itself"
    LATER = "the key is in hand: told when the pass ends"


@attrs.frozen
class ObjectEvent:
    """One change for one key: an object's version (None for a deletion), and how soon it is to be looked at."""

    ref: ObjectRef
    version: str | None
    priority: Priority = Priority.LIVE
    after: float = 0.0


class OwnWrites(Generic[K]):
    """The writes of each key's last pass, and the news that came during a pass in hand."""

    def __init__(self) -> None:
        self._own: dict[K, set[tuple[ObjectRef, str | None]]] = {}
        self._held: dict[K, list[ObjectEvent]] = {}

    def __len__(self) -> int:
        """Keys of which something is remembered."""
        return len(self._own.keys() | self._held.keys())

    def begin(self, key: K) -> None:
        """A pass begins, on caches that have seen every write of the one before."""
        self._own.pop(key, None)
        self._held[key] = []

    def wrote(self, key: K, written: ObjectVersion) -> None:
        """The pass in hand was answered a write."""
        if key in self._held:
            self._own.setdefault(key, set()).add(written)

    def meaning(self, key: K, news: ObjectEvent) -> EventOrigin:
        """What a change means for `key`; it is kept while the key is in hand."""
        if (held := self._held.get(key)) is not None:
            held.append(news)
            return EventOrigin.LATER
        return EventOrigin.ECHO if self._is_own(key, news) else EventOrigin.NEWS

    def end(self, key: K, *, settled: bool) -> tuple[ObjectEvent, ...]:
        """The pass is over: what came meanwhile and wakes the key. A pass that is not `settled` has no echoes."""
        held = self._held.pop(key)
        if not settled:
            self._own.pop(key, None)
        return tuple(news for news in held if not self._is_own(key, news))

    def _is_own(self, key: K, news: ObjectEvent) -> bool:
        own, one = self._own.get(key), (news.ref, news.version)
        if own is None or one not in own:
            return False
        own.remove(one)
        if not own:
            del self._own[key]
        return True

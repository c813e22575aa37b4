"""Records of a controller's own writes: which the cache does not show yet, which watch events they cause, and which
form hot loops, which are reconcile passes that repeat without end (RUN-3).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, content_hash, get_path
from purekube.controller.backoff import Backoff
from purekube.controller.queue.workqueue import Priority

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class HotLoopEvidence:
    """The evidence of a hot loop, which is a series of reconcile passes that repeats without end.

    It has the number of status writes in the last `window` seconds, and how many of them repeat an earlier status. A
    repeat shows that the status alternates, or that another writer keeps changing it back.
    """

    writes: int
    repeats: int
    window: float


def fingerprint(status: Manifest) -> str:
    """Return a hash of the conditions in a manifest's status, without their times and messages, to recognize a repeated
    status.
    """
    conditions = get_path(status, "status", "conditions") or ()
    return content_hash([[condition["type"], condition["status"], condition["reason"]] for condition in conditions])


class HotLoopDetector(Generic[K]):
    """A detector of hot loops (reconcile passes that repeat without end), which remembers the status writes of the last
    `window` seconds.

    A key (reconciled object) is in a hot loop after `repeats` writes of a status that was already written within the
    window, or after `writes` writes of any status. Each loop is reported once, then the count restarts. A new
    `generation` restarts the count too, because then people or another controller are changing the object.
    """

    def __init__(self, *, window: float = 60.0, repeats: int = 5, writes: int = 30) -> None:
        self._window = window
        self._repeats = repeats
        self._writes = writes
        self._history: OrderedDict[K, deque[tuple[float, str, int]]] = OrderedDict()

    def record(self, key: K, now: float, fingerprint: str, generation: int = 0) -> HotLoopEvidence | None:
        """Record one status write for `key`, an object of this `generation`. `fingerprint` is a hash of the written
        conditions.

        Return the evidence if the key is now in a hot loop, None otherwise.
        """
        history = self._recent(key, now)
        if history and history[-1][2] != generation:
            history.clear()
        history.append((now, fingerprint, generation))
        repeats = len(history) - len({written for _, written, _ in history})
        if repeats < self._repeats and len(history) < self._writes:
            return None
        del self._history[key]
        return HotLoopEvidence(len(history), repeats, self._window)

    def _recent(self, key: K, now: float) -> deque[tuple[float, str, int]]:
        """Return the key's writes within the window, and drop older writes of all keys."""
        horizon = now - self._window
        while self._history and next(iter(self._history.values()))[-1][0] < horizon:
            self._history.popitem(last=False)
        history = self._history.setdefault(key, deque())
        self._history.move_to_end(key)
        while history and history[0][0] < horizon:
            history.popleft()
        return history


ObjectVersion: TypeAlias = tuple[ObjectRef, str]
"""An object, and the resourceVersion that the server returned when it was written."""

HasSeen: TypeAlias = Callable[[ObjectRef, str], bool]
"""A function that reports whether the cache holds an object at that resourceVersion or a later one."""

_CHECKS = Backoff(base=0.05, cap=1.6)
"""The backoff between two checks of the cache: 50 ms at first, at last 800 ms (half of `cap`, as the jitter is 0).

It needs no jitter, since only one process reads the cache.
"""


@attrs.frozen
class _Unseen:
    versions: dict[ObjectRef, str]
    until: float
    checks: int = 0


class PendingWrites(Generic[K]):
    """The writes that the cache has not shown yet, by the key (reconciled object) for which they were made.

    A key waits for the cache for `timeout` seconds after its last write. After that its objects must be read live. Of
    several writes to an object, only the latest counts.
    """

    def __init__(self, seen: HasSeen, *, timeout: float = 5.0) -> None:
        self._seen = seen
        self._timeout = timeout
        self._unseen: dict[K, _Unseen] = {}

    def record(self, key: K, now: float, written: Iterable[ObjectVersion]) -> None:
        """Record the objects `written` for `key`, each with the resourceVersion that the cache has yet to show."""
        versions = dict(written)
        if versions:
            before = self._unseen.get(key)
            self._unseen[key] = _Unseen({**(before.versions if before else {}), **versions}, now + self._timeout)

    def unseen(self, key: K) -> tuple[ObjectRef, ...]:
        """Return the objects whose last writes the cache has not seen yet.

        If there are none, the key may be reconciled.
        """
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
        """Return the seconds until the next check whether the cache shows the key's writes.

        Return None once the timeout has passed and a live read is needed.
        """
        pending = self._unseen[key]
        if now >= pending.until:
            return None
        self._unseen[key] = attrs.evolve(pending, checks=pending.checks + 1)
        return _CHECKS.delay(pending.checks + 1, jitter=0.0)

    def is_waiting(self, key: K) -> bool:
        """Report whether the key is due but waits for the cache to show its writes."""
        pending = self._unseen.get(key)
        return pending is not None and pending.checks > 0

    def forget(self, key: K) -> None:
        """Forget the key's writes, after its objects were read live."""
        self._unseen.pop(key, None)


class EventOrigin(Enum):
    """The origin of a watch event that concerns a key (reconciled object): the key's own last reconcile pass, others,
    or not known yet.
    """

    FOREIGN = "somebody else's: look at the key"
    OWN = "that of the key's last pass: it knows the answer already"
    DEFERRED = "the key is being processed: decided when the pass ends"


@attrs.frozen
class ObjectEvent:
    """A watch event that concerns one key (object to reconcile): the changed object, its version (None for a deletion),
    the key's priority, and the longest delay in seconds before the key is reconciled.
    """

    ref: ObjectRef
    version: str | None
    priority: Priority = Priority.LIVE
    after: float = 0.0


class OwnWrites(Generic[K]):
    """A record of the writes that the last reconcile pass of each key (reconciled object) made, and of watch events
    that arrive during a pass.

    The record distinguishes watch events caused by the key's own writes from changes by others.
    """

    def __init__(self) -> None:
        self._own: dict[K, set[tuple[ObjectRef, str | None]]] = {}
        self._deferred: dict[K, list[ObjectEvent]] = {}

    def __len__(self) -> int:
        """Return the number of remembered keys."""
        return len(self._own.keys() | self._deferred.keys())

    def begin(self, key: K) -> None:
        """Record the start of a reconcile pass over the key. The caches must have seen every write of the previous
        pass.
        """
        self._own.pop(key, None)
        self._deferred[key] = []

    def record(self, key: K, written: ObjectVersion) -> None:
        """Record a write made while `key` is reconciled, so that the write's watch event does not count as a change by
        others.

        Outside `begin` and `end` the call has no effect.
        """
        if key in self._deferred:
            self._own.setdefault(key, set()).add(written)

    def origin_of(self, key: K, event: ObjectEvent) -> EventOrigin:
        """Return whether the change in `event` was made by the key's own last pass or by others. During a pass over the
        key this is not known yet: the event is stored until the pass ends.
        """
        if (deferred := self._deferred.get(key)) is not None:
            deferred.append(event)
            return EventOrigin.DEFERRED
        return EventOrigin.OWN if self._is_own(key, event) else EventOrigin.FOREIGN

    def disown(self, key: K) -> None:
        """Let the watch events of the writes that the pass has made until now count as changes by others.

        This is for a pass that is not at a fixed point: another pass would write more, and these events requeue the
        key.
        """
        self._own.pop(key, None)

    def end(self, key: K) -> tuple[ObjectEvent, ...]:
        """End the pass over the key and return the stored events that must requeue the key.

        Watch events of the pass's own writes do not requeue the key, neither now nor later.
        """
        deferred = self._deferred.pop(key)
        return tuple(event for event in deferred if not self._is_own(key, event))

    def _is_own(self, key: K, event: ObjectEvent) -> bool:
        own, written = self._own.get(key), (event.ref, event.version)
        if own is None or written not in own:
            return False
        own.remove(written)
        if not own:
            del self._own[key]
        return True

"""Detection of objects whose status keeps changing without progress (RUN-3)."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import attrs

from purekube.apimachinery.manifest import Manifest, content_hash, get_path

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class HotLoopEvidence:
    """Evidence of a hot loop: status writes in the last `window` seconds, and how many repeat an earlier status.

    A repeat is a flap, or a fight with another writer.
    """

    writes: int
    repeats: int
    window: float


def fingerprint(status: Manifest) -> str:
    """Return a hash of the conditions in a manifest's status, without their times and messages."""
    conditions = get_path(status, "status", "conditions") or ()
    return content_hash([[condition["type"], condition["status"], condition["reason"]] for condition in conditions])


class HotLoopDetector(Generic[K]):
    """Detector of hot loops that remembers the status writes of the last `window` seconds.

    A key is hot at `repeats` writes of a status that was written before within the window, or at `writes` of any kind
    (a status that contains a clock). It is reported once, then counted again from zero. Another `generation` restarts
    the count too: then people, or another controller, keep the object changing.
    """

    def __init__(self, *, window: float = 60.0, repeats: int = 5, writes: int = 30) -> None:
        self._window = window
        self._repeats = repeats
        self._writes = writes
        self._history: OrderedDict[K, deque[tuple[float, str, int]]] = OrderedDict()

    def record(self, key: K, now: float, fingerprint: str, generation: int = 0) -> HotLoopEvidence | None:
        """Record one write of a status with this fingerprint; return the finding if it makes the key hot."""
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
        """Return the key's writes within the window, and forget older ones of every key."""
        horizon = now - self._window
        while self._history and next(iter(self._history.values()))[-1][0] < horizon:
            self._history.popitem(last=False)
        history = self._history.setdefault(key, deque())
        self._history.move_to_end(key)
        while history and history[0][0] < horizon:
            history.popleft()
        return history

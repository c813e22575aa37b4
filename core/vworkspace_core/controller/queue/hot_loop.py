"""Names objects whose status keeps changing without getting anywhere (RUN-3)."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, content_hash, get_path

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class HotLoop:
    """What was seen: so many status writes in the last `window` seconds, `repeats` of them of a status that had been
    written before in that time (a flap, or a fight with another writer)."""

    writes: int
    repeats: int
    window: float


def fingerprint(status: Manifest) -> str:
    """What a manifest's status says, its times and messages left out."""
    conditions = get_path(status, "status", "conditions") or ()
    return content_hash([[condition["type"], condition["status"], condition["reason"]] for condition in conditions])


class HotLoopDetector(Generic[K]):
    """Remembers the status writes of the last `window` seconds.

    A key is hot at `repeats` writes of a status that was written before within the window, or at `writes`
    of any kind (a status that holds a clock). It is named once, then counted anew. What somebody asks for anew (another
    `generation`) begins the count again: it is people, or another controller, who keep an object moving then.
    """

    def __init__(self, *, window: float = 60.0, repeats: int = 5, writes: int = 30) -> None:
        self._window = window
        self._repeats = repeats
        self._writes = writes
        self._history: OrderedDict[K, deque[tuple[float, str, int]]] = OrderedDict()

    def record(self, key: K, now: float, fingerprint: str, generation: int = 0) -> HotLoop | None:
        """Note one write of a status with this fingerprint; the finding when it makes the key hot."""
        history = self._recent(key, now)
        if history and history[-1][2] != generation:
            history.clear()
        history.append((now, fingerprint, generation))
        repeats = len(history) - len({written for _, written, _ in history})
        if repeats < self._repeats and len(history) < self._writes:
            return None
        del self._history[key]
        return HotLoop(len(history), repeats, self._window)

    def _recent(self, key: K, now: float) -> deque[tuple[float, str, int]]:
        """The key's writes within the window; whatever is older, of any key, is forgotten on the way."""
        horizon = now - self._window
        while self._history and next(iter(self._history.values()))[-1][0] < horizon:
            self._history.popitem(last=False)
        history = self._history.setdefault(key, deque())
        self._history.move_to_end(key)
        while history and history[0][0] < horizon:
            history.popleft()
        return history

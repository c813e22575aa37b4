"""One watch, as an object that can be polled or iterated.

The server adds changes to it. A handler, which serves the watch to a client in process or over HTTP, takes their
events.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kubelab.model.conversion import for_each
from kubelab.model.failure import ApiFailure
from kubelab.model.records import Record, StoredChange, decode, decode_shared, encode, seen
from purekube.ports import WatchEvent, WatchEventType

# apimachinery: apis/meta/v1/types.go, InitialEventsAnnotationKey (KEP-3157).
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Line = tuple[WatchEventType, bytes]
"""One event: its type and the object as JSON bytes."""


class WatchStream:
    """One open watch of a client, with the events that the client has not taken yet.

    The method `end` ends the watch as a server does at its timeout. The method `fail` ends it with an ERROR event.
    """

    def __init__(
        self,
        *,
        after: int,
        matches: Callable[[Record], bool],
        render: Callable[[Record], bytes],
        type_meta: Mapping[str, str],
        bookmarks: bool,
        later: bool = False,
    ) -> None:
        """Create a watch that shows the changes after resourceVersion `after` of objects that `matches` selects.

        `render` turns a stored object into bytes of the requested version; `type_meta` is the apiVersion and kind of
        bookmarks. With `later`, objects are matched and rendered only when the caller takes the lines. A write does not
        wait for this, even if a webhook has to convert the object.
        """
        self.failure: ApiFailure | None = None
        self.ended = False
        self.bookmarks = bookmarks
        self.on_ready: Callable[[], None] | None = None
        self._after = after
        self._matches = matches
        self._render = render
        self._type_meta = type_meta
        self._later = later
        self._pending: deque[Line | Callable[[], Line | None]] = deque()

    def offer(self, change: StoredChange) -> None:
        """Queue the watch event of `change`, if the watch selects the object before or after the change.

        Do nothing if the watch has ended, or if `change` is not later than the start of the watch.
        """
        # A watch from a version above the current one is silent until it is reached, as after a restore of etcd (W-15).
        if self.ended or change.version <= self._after:
            return
        # The state before and after is captured in the change, so a late rendering shows what was, not what is.
        self._queue(lambda: self._line_of(change))

    def start_with(self, record: Record) -> None:
        """Queue an ADDED event for an object that existed before the watch began (W-10).

        Nothing happens if the watch does not select the object.
        """
        self._queue(lambda: (WatchEventType.ADDED, self._render(record)) if self._matches(record) else None)

    def _queue(self, line_of: Callable[[], Line | None]) -> None:
        line = line_of if self._later else line_of()
        if line is not None:
            self._add(line)

    def _line_of(self, change: StoredChange) -> Line | None:
        was = change.before is not None and self._matches(change.before)
        now = change.after is not None and self._matches(change.after)
        event = seen(change, was, now)
        return None if event is None else (event[0], self._render(event[1]))

    def bookmark(self, version: int, *, initial_events_end: bool = False) -> None:
        """Queue a BOOKMARK event with the resourceVersion `version` (W-15).

        Do nothing if the watch did not request bookmarks, has ended, or began after `version`. With
        `initial_events_end` the bookmark has the annotation that marks the end of the initial events.
        """
        if not self.bookmarks or self.ended or version < self._after:
            return
        # The null is what Go's encoder writes for a zero time; typed clients have to accept it.
        meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_events_end:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        self._add((WatchEventType.BOOKMARK, encode({**self._type_meta, "metadata": meta})))

    def end(self) -> None:
        """End the watch cleanly. Pending lines can still be taken, and no further lines follow."""
        self.ended = True
        self._notify()

    def fail(self, failure: ApiFailure) -> None:
        """End the watch with an error, which is sent after the pending lines (W-11, W-14)."""
        self.failure = failure
        self.end()

    def take(self) -> list[Line]:
        """Remove and return all pending events, each as its type and its object's JSON bytes.

        Raises ConversionNeeded if a webhook has to convert some objects first, and ApiFailure if a conversion fails.
        The events stay then.
        """
        if self._later:
            made = for_each(self._pending, lambda line: line() if callable(line) else line)
            lines: list[Line] = [line for line in made if line is not None]
        else:
            lines = [line for line in self._pending if not callable(line)]
        self._pending.clear()
        return lines

    def drain(self) -> list[WatchEvent]:
        """Remove and return all pending events, decoded from JSON.

        The caller checks afterwards whether the watch is over (`ended`), and by which error (`failure`). All watches
        share the objects, which must not be changed.
        """
        # A bookmark is not shared: each would take the place of an object among those that are.
        return [
            WatchEvent(kind, decode(raw) if kind is WatchEventType.BOOKMARK else decode_shared(raw))
            for kind, raw in self.take()
        ]

    def _add(self, line: "Line | Callable[[], Line | None]") -> None:
        self._pending.append(line)
        self._notify()

    def _notify(self) -> None:
        if self.on_ready is not None:
            self.on_ready()


# apiserver: storage/cacher/cacher.go, defaultBookmarkFrequency.
BOOKMARK_SECONDS: Final = 60.0
"""The seconds between two bookmarks of a watch."""


@contextmanager
def timed(
    stream: WatchStream, seconds: float, bookmark: Callable[[], None], interval: float = BOOKMARK_SECONDS
) -> Iterator[None]:
    """Call `bookmark` every `interval` seconds while the `with` block runs, and end `stream` after the block (W-19).

    If the block still runs after `seconds`, call `bookmark` a last time and end the stream.
    """
    import asyncio  # here, so that importing the fake costs no event loop

    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def fire(left: float) -> None:
        nonlocal timer
        # apiserver: storage/cacher/cache_watcher.go, nextBookmarkTime: a bookmark comes shortly before the timeout,
        # too, so that the client resumes where it left off.
        bookmark()
        if left > 0:
            timer = loop.call_later(min(interval, left), fire, left - interval)
        else:
            stream.end()

    timer = loop.call_later(min(interval, seconds), fire, seconds - interval)
    try:
        yield
    finally:
        stream.end()
        timer.cancel()


async def follow(stream: WatchStream, seconds: float, version: Callable[[], int]) -> AsyncIterator[WatchEvent]:
    """Yield events of `stream` as they arrive, until it ends or `seconds` have passed on the running loop (W-19).

    If the watch requested bookmarks, one is sent every BOOKMARK_SECONDS and before the timeout ends the stream;
    `version` returns the resourceVersion to put in it. If the stream fails, its ApiFailure is raised after the earlier
    events.
    """
    import asyncio

    ready = asyncio.Event()
    stream.on_ready = ready.set
    with timed(stream, seconds, lambda: stream.bookmark(version())):
        if seconds <= 0:
            stream.end()
        while not stream.ended:
            ready.clear()
            for event in stream.drain():
                yield event
            if not stream.ended:
                await ready.wait()
        for event in stream.drain():
            yield event
    if stream.failure is not None:
        raise stream.failure

"""State of an informer, and its policy of times."""

from enum import StrEnum
from typing import Final

import attrs

from purekube.controller.backoff import Backoff

PAGE_SIZE = 150
"""Objects per page of a list. Decoded, a page takes many times its size, and a start reads several kinds at once."""


_AFTER_FAILURE = Backoff(base=0.8, cap=30.0)
_WHILE_MISSING = Backoff(base=0.8, cap=60.0)


class InformerPhase(StrEnum):
    """The current activity of an informer."""

    LISTING = "listing"
    """Reading pages, or waiting to read the next one."""
    WATCHING = "watching"
    """Reading a stream, or waiting to open the next one."""
    MISSING = "missing"
    """The kind is not served: wait for a request to wake, and check now and then."""


@attrs.frozen
class InformerPolicy:
    """The times of an informer in seconds; the defaults are those of client-go where it has them."""

    optional: bool = False
    """Readers can do without what may not be listed: a missing right counts as synced, and the list is retried."""

    backoff: Backoff = _AFTER_FAILURE
    missing_backoff: Backoff = _WHILE_MISSING
    quiet_reset: float = 120.0
    """After so long without a failure the backoff starts again at its base."""
    retry_after_cap: float = 300.0
    """The longest wait that a server may demand."""
    resume_within: float = 2.0
    """After a longer gap everything is listed again instead of resuming the watch; no restore of storage is as fast."""
    shortest_watch: float = 1.0
    """A watch that ends sooner without an event counts as failed."""
    watch_timeout: float = 300.0
    """The server ends a watch after this time, and up to twice this by jitter."""
    quiet_grace: float = 20.0
    """Silence after its timeout for which a stream is kept; above the adapter's own limit."""
    bookmark_silence: float = 85.0
    """The quiet limit while bookmarks are expected: a kube-apiserver sends them every 60 to 75 s."""
    believe_silence: int = 3
    """After so many silent streams without any bookmark, the server is taken for one that sends none."""
    relist_after: float = 3600.0
    """The age of the list at which the end of a watch leads to a new list; infinity for never."""


@attrs.frozen
class InformerState:
    """The state of an informer. `resource_version` is the position of the watch."""

    phase: InformerPhase = InformerPhase.LISTING
    has_synced: bool = False
    """The store holds the server's objects (or the kind is missing, or optional and refused): readers may start."""
    resource_version: str = ""
    continue_token: str = ""
    failures: int = 0
    failed_at: float = float("-inf")
    asked_at: float = float("-inf")
    """The time of the last list or watch request."""
    heard_at: float = float("-inf")
    """The time of the last usable answer of the server."""
    listed_at: float = float("-inf")
    wake_at: float = 0.0
    in_doubt: bool = False
    """The server may have lost the history of this position; a list must confirm it before the watch is resumed."""
    had_event: bool = False
    """The stream brought an event other than a bookmark."""
    bookmarks: bool = True
    """Bookmarks are expected, so their absence means something."""
    bookmarked: bool = False
    """A bookmark was seen: this server sends them."""
    silences: int = 0
    """The number of streams that went quiet before the first bookmark was seen."""
    misses: int = 0

    def after_event(self, resource_version: str, now: float, *, bookmark: bool) -> "InformerState":
        """Return the state after an event of the stream."""
        # Each field explicitly: `attrs.evolve` takes three times as long, and this runs for every event.
        return InformerState(
            phase=self.phase,
            has_synced=self.has_synced,
            resource_version=resource_version,
            continue_token=self.continue_token,
            failures=self.failures,
            failed_at=self.failed_at,
            asked_at=self.asked_at,
            heard_at=now,
            listed_at=self.listed_at,
            wake_at=self.wake_at,
            in_doubt=self.in_doubt,
            had_event=self.had_event or not bookmark,
            bookmarks=self.bookmarks or bookmark,
            bookmarked=self.bookmarked or bookmark,
            silences=self.silences,
            misses=self.misses,
        )


DEFAULT_POLICY: Final = InformerPolicy()
"""The times for real clusters."""

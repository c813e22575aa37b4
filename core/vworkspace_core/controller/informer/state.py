"""Where an informer stands, and the times it keeps to."""

from enum import StrEnum
from typing import Final

import attrs

from vworkspace_core.controller.backoff import Backoff

PAGE_SIZE = 150
"""Objects per page of a list. Decoded, a page takes many times its size, and a start reads several kinds at once."""


_AFTER_FAILURE = Backoff(base=0.8, cap=30.0)
_WHILE_MISSING = Backoff(base=0.8, cap=60.0)


class InformerPhase(StrEnum):
    """What the informer is doing."""

    LISTING = "listing"
    """Reading pages, or waiting to read the next one."""
    WATCHING = "watching"
    """Reading a stream, or waiting to open the next one."""
    MISSING = "missing"
    """The kind is not served: waiting for a request to wake, and looking now and then."""


@attrs.frozen
class InformerPolicy:
    """Times in seconds; the defaults are those of client-go where it has them."""

    optional: bool = False
    """Readers can do without what may not be listed: a missing right settles the informer, which goes on trying."""

    backoff: Backoff = _AFTER_FAILURE
    missing_backoff: Backoff = _WHILE_MISSING
    quiet_reset: float = 120.0
    """After so long without a failure the backoff starts anew."""
    retry_after_cap: float = 300.0
    """The longest wait a server may ask for."""
    resume_within: float = 2.0
    """After a longer gap a watch is not resumed, but everything listed again; no restore of storage is as fast."""
    shortest_watch: float = 1.0
    """A watch that ends sooner without an event failed."""
    watch_timeout: float = 300.0
    """The server ends a watch after this, and up to twice this by jitter."""
    quiet_grace: float = 20.0
    """How long after its timeout a silent stream is given up; above the adapter's own limit."""
    bookmark_silence: float = 85.0
    """The same while bookmarks are expected: a kube-apiserver sends them every 60 to 75 s."""
    believe_silence: int = 3
    """So many silent streams without ever a bookmark show a server that sends none."""
    relist_after: float = 3600.0
    """Age of the list at which the end of a watch leads to a new list; infinity for never."""


@attrs.frozen
class InformerState:
    """Where the informer stands. `resource_version` is the position of the watch."""

    phase: InformerPhase = InformerPhase.LISTING
    has_synced: bool = False
    """The store holds what the server had (or the kind is missing, or optional and refused): readers may start."""
    resource_version: str = ""
    continue_token: str = ""
    failures: int = 0
    failed_at: float = float("-inf")
    asked_at: float = float("-inf")
    """When the last list or watch was asked for."""
    heard_at: float = float("-inf")
    """When the server last said anything that could be used."""
    listed_at: float = float("-inf")
    wake_at: float = 0.0
    in_doubt: bool = False
    """Whether the server still has the history that the position belongs to: a list says so."""
    had_event: bool = False
    """The stream brought an event that is no bookmark."""
    bookmarks: bool = True
    """Bookmarks are expected, so their absence means something."""
    bookmarked: bool = False
    """A bookmark was seen: this server sends them."""
    silences: int = 0
    """Streams that went quiet before the first bookmark was seen."""
    misses: int = 0

    def heard(self, resource_version: str, now: float, *, bookmark: bool) -> "InformerState":
        """The state after an event of the stream."""
        # Each field by hand: `attrs.evolve` takes three times as long, and this is done for every event.
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

"""The types of the informer's state machine (`machine.step`): its state, events and effects.

An event is what happened, such as the arrival of a page. An effect is what the caller must do, such as read a page.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest
from purekube.controller.backoff import Backoff
from purekube.ports import WatchEvent

_AFTER_FAILURE = Backoff(base=0.8, cap=30.0)
_WHILE_MISSING = Backoff(base=0.8, cap=60.0)


class InformerPhase(StrEnum):
    """The current activity of an informer: listing, watching, or waiting because the API server does not serve the
    kind.
    """

    LISTING = "listing"
    """Reading pages, or waiting to read the next one."""
    WATCHING = "watching"
    """Reading a stream, or waiting to open the next one."""
    MISSING = "missing"
    """The kind is not served: waiting for a `WakeRequested`, or for the next check."""


@attrs.frozen
class InformerPolicy:
    """The time limits and intervals of an informer, in seconds. Defaults are client-go's where it has them."""

    optional: bool = False
    """True if readers can do without this kind. If the right to list it is missing, the informer counts as synced and
    keeps trying.
    """

    backoff: Backoff = _AFTER_FAILURE
    missing_backoff: Backoff = _WHILE_MISSING
    quiet_reset: float = 120.0
    """The time without a failure after which the backoff starts again at its base."""
    retry_after_cap: float = 300.0
    """The longest wait that a server can impose by `Retry-After`."""
    resume_within: float = 2.0
    """The longest interruption after which a watch is resumed without a new list: no restore of the storage is that
    fast.
    """
    shortest_watch: float = 1.0
    """The shortest duration of a watch; one that ends sooner without an event counts as failed."""
    watch_timeout: float = 300.0
    """The time after which the server is asked to end a watch; jitter makes it up to twice as long."""
    quiet_grace: float = 20.0
    """The time for which a silent stream is kept open beyond its timeout; longer than the HTTP adapter's own limit."""
    bookmark_silence: float = 85.0
    """The longest silence of a stream while bookmarks are expected: a kube-apiserver sends them every 60 to 75 s."""
    believe_silence: int = 3
    """The number of silent streams without any bookmark after which the server is assumed to send no bookmarks."""
    relist_after: float = 3600.0
    """The age of the last list above which the objects are listed again when a watch ends; infinity for never."""


@attrs.frozen
class InformerState:
    """The state of an informer's state machine between two events: phase, position, and recent failures.

    `resource_version` is the position from which the watch continues.
    """

    phase: InformerPhase = InformerPhase.LISTING
    has_synced: bool = False
    """True once the store was listed (or the kind is missing, or optional and refused), so that readers may start."""
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
    doubted_since: float | None = None
    """The time since which the server's storage may have been restored to an earlier state; None if that is ruled out.

    While it is set, a list of one object must confirm `resource_version` before the watch is resumed.
    """
    had_event: bool = False
    """True if the present stream has brought an event other than a bookmark."""
    bookmarks: bool = True
    """True while bookmarks are expected, so that a stream without them counts as silent sooner."""
    bookmarked: bool = False
    """True once a bookmark was seen, which proves that this server sends them."""
    silences: int = 0
    """The number of streams that went quiet before the first bookmark was seen."""
    misses: int = 0

    def after_event(self, resource_version: str, now: float, *, bookmark: bool) -> "InformerState":
        """Return the state after an event of the watch at `resource_version`, received at `now` (monotonic seconds).

        `bookmark` is True for a BOOKMARK event, which only reports the position of the watch.
        """
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
            doubted_since=self.doubted_since,
            had_event=self.had_event or not bookmark,
            bookmarks=self.bookmarks or bookmark,
            bookmarked=self.bookmarked or bookmark,
            silences=self.silences,
            misses=self.misses,
        )


DEFAULT_POLICY: Final = InformerPolicy()
"""The default time limits and intervals of an informer, for real clusters."""


class RelistCause(StrEnum):
    """The reasons why an informer lists all objects of its kind again instead of resuming its watch."""

    EXPIRED = "expired"
    """410 Gone: the server no longer has the history since the watch's resourceVersion."""
    BACKWARDS = "backwards"
    """A resourceVersion smaller than one already seen: the server's storage was restored."""
    INTERRUPTED = "interrupted"
    """The server was unreachable for too long to resume the watch: its storage may have been restored meanwhile."""
    QUIET = "quiet"
    """The stream was silent: the connection is dead, or the watch's resourceVersion is in the server's future."""
    KIND_MISSING = "kind_missing"
    """The watch was refused because the kind is not served."""
    UNREADABLE = "unreadable"
    """The watch failed with another error, such as a refused resourceVersion, and would fail again if resumed."""
    PERIODIC = "periodic"
    """A regular relist, so that even an event that the server failed to send is noticed."""


@attrs.frozen
class Started:
    """The event that the informer has been started."""


@attrs.frozen
class PageRead:
    """The event that a page of the list has arrived."""

    items: Sequence[Manifest]
    resource_version: str
    continue_token: str = ""


@attrs.frozen
class ListFailed:
    """The event that a page of the list could not be read."""

    error: OperatorError


@attrs.frozen
class StreamEnded:
    """The event that the server ended the watch cleanly."""


@attrs.frozen
class StreamFailed:
    """The event that the watch could not be opened, or that it broke."""

    error: OperatorError


@attrs.frozen
class WentQuiet:
    """The event that the watch was silent for longer than its limit, so that the connection may be lost."""


@attrs.frozen
class WaitElapsed:
    """The event that the wait requested by `Wait` has ended."""


@attrs.frozen
class WakeRequested:
    """The event that the informer shall try again at once, because its missing kind may be served now."""


InformerEvent: TypeAlias = (
    WatchEvent | Started | PageRead | ListFailed | StreamEnded | StreamFailed | WentQuiet | WaitElapsed | WakeRequested
)


def is_answer(event: InformerEvent) -> bool:
    """Report whether the event shows that the API server answers requests, even if it answers with a refusal."""
    match event:
        case ListFailed(error) | StreamFailed(error):
            return not (isinstance(error, Unavailable) and error.status is None)
        case Started() | WaitElapsed() | WakeRequested() | WentQuiet():
            return False
        case _:
            return True


@attrs.frozen
class ReadPage:
    """A request for a page of at most `limit` objects (0 for no limit).

    `continue_token` is empty for the first page.
    """

    continue_token: str = ""
    limit: int = 0


@attrs.frozen
class OpenStream:
    """A request to watch from `resource_version`, after closing the open stream, if any.

    The server is asked to end the stream after `timeout_seconds`. A silence of `quiet_limit` seconds causes
    `WentQuiet`.
    """

    resource_version: str
    timeout_seconds: int
    quiet_limit: float


@attrs.frozen
class Wait:
    """A request to wait for `seconds`; a `WakeRequested` ends the wait early. An open stream is closed first."""

    seconds: float


@attrs.frozen
class BufferPage:
    """A request to buffer a page of the list, without changing the store's content yet."""

    items: Sequence[Manifest]


@attrs.frozen
class DiscardPages:
    """A request to discard the buffered pages of an unfinished list."""


@attrs.frozen
class Replace:
    """A request to make the buffered pages the content of the store, at the end of a list."""

    resource_version: str


@attrs.frozen
class PutObject:
    """A request to put an object into the store."""

    object: Manifest


@attrs.frozen
class RemoveObject:
    """A request to remove an object from the store. `object` is its last state."""

    object: Manifest


@attrs.frozen
class Advance:
    """A request to record that the store has received all changes up to this resourceVersion."""

    resource_version: str


@attrs.frozen
class Relist:
    """A note for the statistics that a relist has begun."""

    cause: RelistCause


@attrs.frozen
class ReportWatchError:
    """A report of a failure that will be retried, for the statistics and the log.

    `is_usual` marks a failure that also happens on a quiet, healthy cluster.
    """

    reason: str
    is_usual: bool = False


InformerCommand: TypeAlias = ReadPage | OpenStream | Wait
"""The effects that start a request or a wait. A step has at most one, as its last; without one, reading continues."""

InformerEffect: TypeAlias = (
    BufferPage
    | DiscardPages
    | Replace
    | PutObject
    | RemoveObject
    | Advance
    | Relist
    | ReportWatchError
    | InformerCommand
)

"""What happens to an informer, and what it wants done: the vocabulary of `informer.step`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

import attrs

from vworkspace_core.apimachinery.errors import OperatorError, Unavailable
from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.ports import WatchEvent


class RelistCause(StrEnum):
    """Why everything is listed again."""

    EXPIRED = "expired"
    """410: the position is older than the server's memory."""
    BACKWARDS = "backwards"
    """A resourceVersion smaller than one already seen: the server's storage was restored."""
    INTERRUPTED = "interrupted"
    """The server was away for too long to resume the watch: its storage may have been restored meanwhile."""
    QUIET = "quiet"
    """The stream brought neither events nor bookmarks: the peer is gone, or the position is in its future."""
    KIND_MISSING = "kind_missing"
    """The watch met a kind that is not served."""
    UNREADABLE = "unreadable"
    """The position itself was refused."""
    PERIODIC = "periodic"
    """So that even an event the server failed to send is noticed."""


@attrs.frozen
class Started:
    """The informer begins."""


@attrs.frozen
class PageRead:
    """A page of the list came."""

    items: Sequence[Manifest]
    resource_version: str
    continue_token: str = ""


@attrs.frozen
class ListFailed:
    """A page could not be read."""

    error: OperatorError


@attrs.frozen
class StreamEnded:
    """The server ended the watch cleanly."""


@attrs.frozen
class StreamFailed:
    """The watch could not be opened or broke."""

    error: OperatorError


@attrs.frozen
class WentQuiet:
    """Nothing was heard on the stream for its quiet limit: nobody may be there any more."""


@attrs.frozen
class WaitElapsed:
    """The wait asked for is over."""


@attrs.frozen
class WakeRequested:
    """Somebody believes that the kind is served now."""


InformerEvent: TypeAlias = (
    WatchEvent | Started | PageRead | ListFailed | StreamEnded | StreamFailed | WentQuiet | WaitElapsed | WakeRequested
)


def is_answer(event: InformerEvent) -> bool:
    """Whether the event shows that the server is there, be it with a refusal."""
    match event:
        case ListFailed(error) | StreamFailed(error):
            return not (isinstance(error, Unavailable) and error.status is None)
        case Started() | WaitElapsed() | WakeRequested() | WentQuiet():
            return False
        case _:
            return True


@attrs.frozen
class ReadPage:
    """Read a page, the first one with an empty token; `limit` objects, 0 for as many as fit."""

    continue_token: str = ""
    limit: int = 0


@attrs.frozen
class OpenStream:
    """Close the stream, if one is open, and watch from `resource_version`.

    The server is asked to end it after `timeout_seconds`; silence of `quiet_limit` seconds is `WentQuiet`.
    """

    resource_version: str
    timeout_seconds: int
    quiet_limit: float


@attrs.frozen
class Wait:
    """Close the stream, if one is open, and wait so many seconds or for a request to wake."""

    seconds: float


@attrs.frozen
class BufferPage:
    """Keep a page beside the store."""

    items: Sequence[Manifest]


@attrs.frozen
class DiscardPages:
    """Forget the buffered pages."""


@attrs.frozen
class Replace:
    """Make the buffered pages the content of the store."""

    resource_version: str


@attrs.frozen
class PutObject:
    """Take an object into the store."""

    object: Manifest


@attrs.frozen
class RemoveObject:
    """Drop an object from the store; this is its last state."""

    object: Manifest


@attrs.frozen
class Advance:
    """The store has seen everything up to here."""

    resource_version: str


@attrs.frozen
class Relist:
    """A relist begins; for the statistics."""

    cause: RelistCause


@attrs.frozen
class ReportWatchError:
    """Something failed and will be tried again; for the statistics and the log.

    `is_usual`: it happens on a cluster where nothing changes, and is no trouble of anything.
    """

    reason: str
    is_usual: bool = False


InformerCommand: TypeAlias = ReadPage | OpenStream | Wait
"""What to do next. At most one is among the effects of a step, as the last; without one: read on."""

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

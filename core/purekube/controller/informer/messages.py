"""Events and effects of an informer: the vocabulary of `informer.step`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

import attrs

from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest
from purekube.ports import WatchEvent


class RelistCause(StrEnum):
    """Reasons to list everything again."""

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
    """A regular relist, so that even an event that the server failed to send is noticed."""


@attrs.frozen
class Started:
    """The informer begins."""


@attrs.frozen
class PageRead:
    """A page of the list arrived."""

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
    """The stream was silent for its quiet limit: the server may be gone."""


@attrs.frozen
class WaitElapsed:
    """The requested wait is over."""


@attrs.frozen
class WakeRequested:
    """A caller believes that the kind is served now."""


InformerEvent: TypeAlias = (
    WatchEvent | Started | PageRead | ListFailed | StreamEnded | StreamFailed | WentQuiet | WaitElapsed | WakeRequested
)


def is_answer(event: InformerEvent) -> bool:
    """Report whether the event shows that the server answers, even with a refusal."""
    match event:
        case ListFailed(error) | StreamFailed(error):
            return not (isinstance(error, Unavailable) and error.status is None)
        case Started() | WaitElapsed() | WakeRequested() | WentQuiet():
            return False
        case _:
            return True


@attrs.frozen
class ReadPage:
    """A request for a page, the first one with an empty token; `limit` objects, 0 for as many as fit."""

    continue_token: str = ""
    limit: int = 0


@attrs.frozen
class OpenStream:
    """A request to close the stream, if one is open, and to watch from `resource_version`.

    The server is requested to end it after `timeout_seconds`; silence of `quiet_limit` seconds is `WentQuiet`.
    """

    resource_version: str
    timeout_seconds: int
    quiet_limit: float


@attrs.frozen
class Wait:
    """A wait of so many seconds or until a request to wake; an open stream is closed first."""

    seconds: float


@attrs.frozen
class BufferPage:
    """A page to buffer outside the store's content."""

    items: Sequence[Manifest]


@attrs.frozen
class DiscardPages:
    """The end of an unfinished list: the buffered pages are forgotten."""


@attrs.frozen
class Replace:
    """The end of a list: the buffered pages become the content of the store."""

    resource_version: str


@attrs.frozen
class PutObject:
    """An object to put into the store."""

    object: Manifest


@attrs.frozen
class RemoveObject:
    """An object to remove from the store, in its last state."""

    object: Manifest


@attrs.frozen
class Advance:
    """The version up to which the store has seen everything."""

    resource_version: str


@attrs.frozen
class Relist:
    """The start of a relist, for the statistics."""

    cause: RelistCause


@attrs.frozen
class ReportWatchError:
    """A failure that will be retried, for the statistics and the log.

    `is_usual`: it also happens on a cluster where nothing changes, and indicates no problem.
    """

    reason: str
    is_usual: bool = False


InformerCommand: TypeAlias = ReadPage | OpenStream | Wait
"""The next action. A step has at most one, as its last effect; without one, reading goes on."""

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

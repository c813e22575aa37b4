"""What is said to the queue about a key, and what the queue says about itself (RUN-2)."""

from enum import IntEnum, StrEnum
from typing import TypeAlias

import attrs

from vworkspace_core.apimachinery.errors import Forbidden, Invalid, OperatorError, Permanent, Stale, Unavailable
from vworkspace_core.apimachinery.manifest import ObjectRef


class Priority(IntEnum):
    """Higher goes first."""

    BACKGROUND = 0
    """Objects of the initial list, and resyncs: nobody is waiting."""
    LIVE = 1
    """A change that was just observed."""
    URGENT = 2
    """A person or a job asked for it."""


@attrs.frozen
class Succeeded:
    """Done; the count of failures starts anew. Look again after so many seconds, if at all."""

    look_again_after: float | None = None


@attrs.frozen
class Failed:
    """Try again after the key's backoff, of `at_most` so many seconds, and not before `retry_after` seconds."""

    retry_after: float = 0.0
    at_most: float = float("inf")


@attrs.frozen
class Outdated:
    """The decision was made on a copy that has been overtaken: look again at once, without backoff (REC-6).

    Only a second time in a row waits, from 50 ms on: the cache may need a moment.
    """


@attrs.frozen
class Postponed:
    """Nothing was decided: ask again in so many seconds. The count of failures stays as it is."""

    seconds: float


Outcome: TypeAlias = Succeeded | Failed | Outdated | Postponed


@attrs.frozen
class Running:
    """A key in hand: its priority, when it was taken, and the seconds it had been ready before."""

    priority: Priority
    taken_at: float
    waited: float


@attrs.frozen
class QueueStats:
    """Counts for metrics: keys ready per priority, delayed, in hand; adds and retries since the start."""

    ready: dict[Priority, int]
    delayed: int
    running: int
    adds: int
    retries: int


_REFUSED_SECONDS = 30.0
"""No watch tells that a role came: so long may pass until it is noticed."""


class Verdict(StrEnum):
    """The `result` label of controller_runtime_reconcile_total, plus the two that need naming apart."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    """The copy was overtaken; looked at again at once."""
    ERROR = "error"
    TERMINAL = "terminal"
    """Not retried: only another spec, or a person, can help."""


@attrs.frozen
class ReconcileResult:
    """What a reconcile did.

    `written` holds each object written and the resourceVersion the server answered: the key is not decided
    again from a cache that has not seen them. `look_again_after` is in seconds. `fingerprint` identifies
    the status that was written (any hash of it), for the hot-loop detector; empty when none was. `settled` says that
    another pass over what was written would write nothing: then its echoes do not wake the key.
    """

    written: tuple[tuple[ObjectRef, str], ...] = ()
    look_again_after: float | None = None
    error: OperatorError | None = None
    fingerprint: str = ""
    generation: int = 0
    """The generation that the status speaks of."""
    settled: bool = False
    told: bool = False
    """The object's own status says what `error` is about."""


def judge(result: ReconcileResult) -> tuple[Verdict, Outcome]:
    """What the error, if any, asks for. A terminal error counts as an end: `look_again_after` still holds."""
    again = Succeeded(result.look_again_after)
    match result.error:
        case None:
            return (Verdict.SUCCESS if result.look_again_after is None else Verdict.REQUEUE_AFTER), again
        case Stale():
            return Verdict.REQUEUE, Outdated()
        case Invalid() | Permanent() | Forbidden(namespace_terminating=True):
            return Verdict.TERMINAL, again
        case Forbidden() if result.error.right is not None:
            return Verdict.ERROR, Failed(at_most=_REFUSED_SECONDS)
        case Unavailable(retry_after=seconds):
            return Verdict.ERROR, Failed(seconds or 0.0)
        case _:
            return Verdict.ERROR, Failed()

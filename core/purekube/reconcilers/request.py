"""The input and output of a reconciler's call for one object, and policies for retries after failures (PH-7)."""

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.backoff import Backoff

O = TypeVar("O")  # noqa: E741
S = TypeVar("S")

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
_LONGEST_REASON: Final = 128
"""The most characters of an Event's reason that an API server accepts."""


class Cause(StrEnum):
    """The reason why an object is reconciled. If several reasons apply, the first of these is given.

    CREATED: the object is new. SYNCED: it existed before this process started. CHANGED: it has changed, or is being
    deleted. WOKEN: an object that it owns or reads has changed. RETRIED: the last call failed. RESYNCED: the time for
    the next regular call has come.
    """

    CREATED = "created"
    """The object is new: no process has made a call for it before."""
    SYNCED = "synced"
    """The object existed before this process started; earlier changes are visible only in the object itself."""
    CHANGED = "changed"
    """A part of the object that the filters select has changed, or the object is being deleted."""
    WOKEN = "woken"
    """An object that this object owns or reads has changed (`Request.woken_by`)."""
    RETRIED = "retried"
    """The last call failed."""
    RESYNCED = "resynced"
    """The time of `Result.requeue_after`, or the interval `resync`, has elapsed."""


@attrs.frozen
class Request(Generic[O, S]):
    """A request to reconcile one object. `object` is its current state, even on a retry.

    If `deleting` is True, the controller must clean up; the finalizer is removed once a call returns a Result that has
    neither `requeue_after` nor `waiting`. `state` is the `Result.state` of the last call for this object in this
    process; None if there was none. `attempt` counts the failures in a row before this call.

    `settled` says that the object was Ready at this generation before this process began, and that nothing that is
    watched has changed. A controller that uses `requeue_after` must return it for a settled object, too, since the
    timer of the earlier process is lost.
    """

    object: O
    cause: Cause
    deleting: bool = False
    settled: bool = False
    state: S | None = None
    attempt: int = 0
    woken_by: tuple[ObjectRef, ...] = ()


def _is_text(_: Any, field: "attrs.Attribute[Any]", value: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{field.name} must be text, not {value!r}")


def _is_reason(_: Any, field: "attrs.Attribute[Any]", value: str) -> None:
    if _REASON.fullmatch(value) is None or len(value) > _LONGEST_REASON:
        raise ValueError(f"the {field.name} of an Event must be in CamelCase, such as Upgraded, not {value!r}")


@attrs.frozen
class Event:
    """A Kubernetes Event about the reconciled object: a reason for programs, and a note for people.

    Equal Events become one series. The note is redacted, and cut at 1,024 bytes. `warning` makes the type `Warning`: a
    person should look. Raises ValueError for a reason that an API server refuses, and TypeError for a note that is no
    text.
    """

    reason: str = attrs.field(validator=_is_reason)
    note: str = attrs.field(validator=_is_text)
    warning: bool = False


def is_delay(_: Any, field: "attrs.Attribute[Any]", value: float | None) -> None:
    """Raise ValueError unless `value` is None, or a finite number of seconds that is not negative.

    This is a validator for fields of attrs classes. Any other value would fail only in the work queue, where it stops
    the process.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{field.name} must be seconds, 0 or more, not {value!r}")


def is_interval(value: Any) -> bool:
    """Report whether a value is a finite number of seconds that is more than 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _to_events(events: Iterable[Event]) -> tuple[Event, ...]:
    given = tuple(events)
    if strange := [one for one in given if not isinstance(one, Event)]:
        raise TypeError(f"events must be Events, not {strange[0]!r}")
    return given


def _to_conditions(desired_conditions: Iterable[DesiredCondition]) -> tuple[DesiredCondition, ...]:
    given = tuple(desired_conditions)
    if strange := [one for one in given if not isinstance(one, DesiredCondition)]:
        raise TypeError(f"conditions must be DesiredConditions, not {strange[0]!r}")
    return given


@attrs.frozen
class Result(Generic[S]):
    """The result of a successful reconcile.

    `status` is the whole status as an instance of the kind's class; None leaves the fields as they are. `conditions`
    are of the types that the reconciler declares, in addition to Ready, Reconciling and Stalled. `events` are written
    after the status; one may be lost when the process ends.

    `requeue_after` is the number of seconds after which the object is reconciled again at the latest. `waiting` is a
    text about what is not done yet; with it the object is not Ready, and is reconciled again after a minute unless
    `requeue_after` is set. `state` is passed to the next call, in memory only.
    """

    status: Any = None
    requeue_after: float | None = attrs.field(default=None, validator=is_delay)
    state: S | None = None
    waiting: str = attrs.field(default="", validator=_is_text)
    conditions: tuple[DesiredCondition, ...] = attrs.field(default=(), converter=_to_conditions)
    events: tuple[Event, ...] = attrs.field(default=(), converter=_to_events)

    @property
    def is_complete(self) -> bool:
        """Report whether nothing is left to do: neither `requeue_after` nor `waiting` is set. For a deletion, the
        finalizer may then be removed.
        """
        return self.requeue_after is None and not self.waiting


class Terminal(Exception):
    """An error that a reconciler or watcher raises if only another spec, or a person, can help. The object is Stalled.

    The call is not retried. The object is reconciled again after a restart, or after a change of the object, of objects
    it owns, or of objects it reads.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        if _REASON.fullmatch(reason) is None:
            raise ValueError(f"the reason must be in CamelCase, such as SpecTooLarge, not {reason!r}")
        self.reason = reason
        self.message = str(message)


class RetryPolicy(Protocol):
    """A policy that gives the delay before a retry after a failed call."""

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Return the seconds to wait after failure number `attempt`, counted from 1; None for no retry.

        `jitter` is in [0, 1).
        """
        ...


@attrs.frozen
class Constant:
    """A retry policy with the same delay after each failure."""

    seconds: float = 10.0

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Return the constant number of seconds, whatever the arguments."""
        return self.seconds


@attrs.frozen
class Never:
    """A retry policy without retries: only the next change, resync or restart reconciles the object again."""

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Return None, for no retry."""
        return None


EXPONENTIAL: Final = Backoff()
"""The default retry policy: delays from one second to five minutes, doubling, with jitter."""


def delay_of(policy: RetryPolicy, attempt: int, jitter: float) -> float | None:
    """Return the policy's delay in seconds, or the delay of `EXPONENTIAL` if the policy raises or its delay
    is invalid.
    """
    try:
        seconds = policy.delay(attempt, jitter)
    except Exception:
        return EXPONENTIAL.delay(attempt, jitter)
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        return EXPONENTIAL.delay(attempt, jitter)
    return float(seconds)

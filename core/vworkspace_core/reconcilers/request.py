"""What a reconciler is given for one object, and what it answers (PH-7)."""

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import attrs

from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.manifest import ObjectRef

O = TypeVar("O")  # noqa: E741
S = TypeVar("S")

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")


class Cause(StrEnum):
    """Why an object is looked at. Of several causes at once, the first of these."""

    CREATED = "created"
    """It is new: no pass has begun with it in any process."""
    SYNCED = "synced"
    """It was there before this process began to work; whatever happened to it meanwhile shows in the object alone."""
    CHANGED = "changed"
    """Something of it changed that the filters ask for, or it is to be deleted."""
    WOKEN = "woken"
    """An object that it owns or reads changed: `Request.woken_by`."""
    RETRIED = "retried"
    """The last call failed."""
    RESYNCED = "resynced"
    """Its time has come: `Result.requeue_after`, or the interval of `resync`."""


@attrs.frozen
class Request(Generic[O, S]):
    """One object to be reconciled: `object` is the current one, also on a retry.

    `deleting`: clean up; the finalizer goes when the call returns a Result without `requeue_after` and `waiting`.
    `settled`: it was Ready at this generation before this process began, and nothing has changed that is watched. Who
    looks again at intervals says so there too: an earlier process's `requeue_after` went with it.
    `state` is what the last call for this object returned in this process; None where there was none.
    `attempt` counts the failures in a row before this call.
    """

    object: O
    cause: Cause
    deleting: bool = False
    settled: bool = False
    state: S | None = None
    attempt: int = 0
    woken_by: tuple[ObjectRef, ...] = ()


def _is_delay(_: Any, field: "attrs.Attribute[Any]", value: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{field.name} must be seconds, 0 or more, not {value!r}")


def _listed(given: Iterable[Wanted]) -> tuple[Wanted, ...]:
    return tuple(given)


@attrs.frozen
class Result(Generic[S]):
    """What a call came to.

    `status` is the whole status as an instance of the kind's class; None leaves the fields as they are.
    `requeue_after`: look again in so many seconds at the latest. `waiting` says what is not done yet: the object is not
    Ready then, and is looked at again in a minute where `requeue_after` does not say when. `state` is handed to the
    next call, in memory only. `conditions` are those of the types that the reconciler declares, beside Ready,
    Reconciling and Stalled.
    """

    status: Any = None
    requeue_after: float | None = attrs.field(default=None, validator=_is_delay)
    state: S | None = None
    waiting: str = ""
    conditions: tuple[Wanted, ...] = attrs.field(default=(), converter=_listed)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do: of a deletion, that the finalizer may go."""
        return self.requeue_after is None and not self.waiting


class Terminal(Exception):
    """Raised by a reconciler or watcher: only another spec, or a person, can help. The object is Stalled.

    It is not retried; a change of the object, of what it reads or owns, and a restart come back to it.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        if _REASON.fullmatch(reason) is None:
            raise ValueError(f"the reason must be in CamelCase, such as SpecTooLarge, not {reason!r}")
        self.reason = reason
        self.message = message

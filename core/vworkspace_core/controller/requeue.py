"""When an object is looked at again, watch events aside: decided with the Decision, read by the work queue (REC-13)."""

from enum import Enum
from typing import ClassVar, Final

import attrs

from vworkspace_core.apimachinery.errors import Forbidden, Invalid, OperatorError, Permanent, Stale, Unavailable

SLOW_SECONDS: Final = 60.0
"""How soon to look again at what only outside help can cure, beside the watch event that will tell of it."""

REFUSED_SECONDS: Final = 30.0
"""No watch tells that a role came: so long may pass until it is noticed."""


class RequeuePace(Enum):
    """How the work queue paces the next look, and what becomes of its count of failures for the key."""

    NONE = "no failure that a retry can cure; the count starts anew"
    IMMEDIATE = "the copy was overtaken: at once; only from the second time in a row, after 50 ms or more"
    BACKOFF = "a transient failure: after the key's exponential backoff"
    SLOW = "only outside help can cure it: after a minute; the count starts anew"
    REFUSED = "a right is missing: backoff of half a minute at most, so that it goes on soon after the role came"
    TOLD = "a failure: after the seconds that are told, or not at all; the count goes on"
    UNDECIDED = "nothing was decided; the count stays as it is"


@attrs.frozen
class Requeue:
    """When an object is looked at again. Watch events come beside it.

    `after`: in so many seconds at the latest, whatever a backoff has come to (OPS-12); None for no such limit. Where
    the copy was overtaken it does not count. `not_before`: the server asked to be left alone for so many seconds.
    """

    pace: RequeuePace = RequeuePace.NONE
    after: float | None = None
    not_before: float = 0.0

    NO: ClassVar["Requeue"]
    IMMEDIATE: ClassVar["Requeue"]
    BACKOFF: ClassVar["Requeue"]
    SLOW: ClassVar["Requeue"]
    REFUSED: ClassVar["Requeue"]

    @classmethod
    def at_latest(cls, seconds: float | None) -> "Requeue":
        """In so many seconds, without a failure; None for never."""
        return cls.NO if seconds is None else cls(after=seconds)

    def no_later_than(self, seconds: float | None) -> "Requeue":
        """The same, in so many seconds at the latest; None changes nothing."""
        if seconds is None or (self.after is not None and self.after <= seconds):
            return self
        return attrs.evolve(self, after=seconds)


Requeue.NO = Requeue()
Requeue.IMMEDIATE = Requeue(RequeuePace.IMMEDIATE)
Requeue.BACKOFF = Requeue(RequeuePace.BACKOFF)
Requeue.SLOW = Requeue(RequeuePace.SLOW)
Requeue.REFUSED = Requeue(RequeuePace.REFUSED)


def requeue_for(error: OperatorError | None) -> Requeue:
    """What an error of the port asks for. What only another content can cure is not retried."""
    match error:
        case None | Invalid() | Permanent() | Forbidden(namespace_terminating=True):
            return Requeue.NO
        case Stale():
            return Requeue.IMMEDIATE
        case Forbidden() if error.right is not None:
            return Requeue.REFUSED
        case Unavailable(retry_after=seconds) if seconds:
            return Requeue(RequeuePace.BACKOFF, not_before=seconds)
        case _:
            return Requeue.BACKOFF

"""The time of an object's next reconcile, watch events aside: part of the Decision, read by the work queue (REC-13)."""

from enum import Enum
from typing import ClassVar, Final

import attrs

from purekube.apimachinery.errors import Forbidden, Invalid, OperatorError, Permanent, Stale, Unavailable

SLOW_SECONDS: Final = 60.0
"""The delay before another try of what only outside help can cure, in case its watch event does not come."""

REFUSED_SECONDS: Final = 30.0
"""No watch reports a new role, so this long may pass until it is noticed."""


class RequeuePace(Enum):
    """The delay before the next pass, and what happens to the key's failure count in the work queue."""

    NONE = "no failure that a retry can cure; the count starts anew"
    IMMEDIATE = "the copy was overtaken: at once; only from the second time in a row, after 50 ms or more"
    BACKOFF = "a transient failure: after the key's exponential backoff"
    SLOW = "only outside help can cure it: after a minute; the count starts anew"
    REFUSED = "a right is missing: backoff of half a minute at most, so that it goes on soon after the role came"
    TOLD = "a failure: after the seconds that are told, or not at all; the count goes on"
    UNDECIDED = "nothing was decided; the count stays as it is"


@attrs.frozen
class Requeue:
    """The time of an object's next reconcile, in addition to watch events.

    `after`: at the latest in this many seconds, whatever the backoff is (OPS-12); None for no such limit. It is ignored
    where the copy was overtaken. `not_before`: the server demanded this many seconds without a request.
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
        """Return a requeue within `seconds`, without a failure; no requeue for None."""
        return cls.NO if seconds is None else cls(after=seconds)

    def no_later_than(self, seconds: float | None) -> "Requeue":
        """Return the same requeue, but within `seconds` at the latest; None changes nothing."""
        if seconds is None or (self.after is not None and self.after <= seconds):
            return self
        return attrs.evolve(self, after=seconds)


Requeue.NO = Requeue()
Requeue.IMMEDIATE = Requeue(RequeuePace.IMMEDIATE)
Requeue.BACKOFF = Requeue(RequeuePace.BACKOFF)
Requeue.SLOW = Requeue(RequeuePace.SLOW)
Requeue.REFUSED = Requeue(RequeuePace.REFUSED)


def requeue_for(error: OperatorError | None) -> Requeue:
    """Return the requeue for an error of the port. What only changed content can cure is not retried."""
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

"""When each object is due: the work queue of simulated controllers, and its backoff."""

from datetime import datetime
from typing import Final

import attrs

from vworkspace_core.apimachinery.manifest import ObjectRef

_LARGEST_EXPONENT: Final = 64


@attrs.frozen
class FailureBackoff:
    """The delay of client-go's exponential failure rate limiter: `base * 2**(failures - 1)` seconds, at most `cap`.

    There is no jitter, unlike in `vworkspace_core.controller.backoff`: real controllers have none here.
    """

    base: float
    cap: float

    def delay(self, failures: int) -> float:
        """Seconds after that many failures in a row, counted from 1."""
        return min(self.base * 2.0 ** min(failures - 1, _LARGEST_EXPONENT), self.cap)


class DueTimes:
    """The moment at which each object is due. One that is due at a regular interval only has no work left."""

    def __init__(self) -> None:
        self._due: dict[ObjectRef, datetime] = {}
        self._intervals: set[ObjectRef] = set()
        self._not_before: dict[ObjectRef, datetime] = {}

    def add(self, ref: ObjectRef, when: datetime, *, interval: bool = False) -> None:
        """Have the object due at `when`, or before if it is already; never while it is held."""
        when = max(when, self._not_before.get(ref, when))
        self._due[ref] = min(when, self._due.get(ref, when))
        (self._intervals.add if interval else self._intervals.discard)(ref)

    def hold(self, ref: ObjectRef, until: datetime) -> None:
        """Have the object due no sooner than `until`."""
        self._not_before[ref] = until

    def take(self, ref: ObjectRef) -> bool:
        """Begin with the object; whether it was due at any time."""
        self._not_before.pop(ref, None)
        self._intervals.discard(ref)
        return self._due.pop(ref, None) is not None

    drop = take

    def at(self, now: datetime) -> list[ObjectRef]:
        """The objects that are due, in the order of their names."""
        return sorted(ref for ref, when in self._due.items() if when <= now)

    def first(self) -> datetime | None:
        """When the first object is due."""
        return min(self._due.values(), default=None)

    def first_work(self) -> datetime | None:
        """When the first object is due that has work left."""
        return min((when for ref, when in self._due.items() if ref not in self._intervals), default=None)

    def clear(self) -> None:
        """Forget everything."""
        self._due.clear()
        self._intervals.clear()
        self._not_before.clear()

"""One priority of the queue: ready keys, served in turn between groups, and in order within a group."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Lane"]

K = TypeVar("K", bound=Hashable)


class Lane(Generic[K]):
    """Ready keys of one priority. A group is whatever must not starve another: a namespace.

    Kept in two orders: by group for whose turn it is, and by age to see what has waited too long. All
    calls take constant time.
    """

    def __init__(self) -> None:
        self._since: OrderedDict[K, float] = OrderedDict()
        self._turns: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._since)

    def push(self, key: K, group: Hashable, now: float) -> None:
        """Put a key that is not in the lane at the end of its group."""
        self._since[key] = now
        self._turns.setdefault(group, OrderedDict())[key] = None

    def remove(self, key: K, group: Hashable) -> float:
        """Take a key out; returns when it came in."""
        keys = self._turns[group]
        del keys[key]
        if not keys:
            del self._turns[group]
        return self._since.pop(key)

    @property
    def oldest_since(self) -> float:
        """When the oldest key came in. Raises StopIteration when the lane is empty."""
        return next(iter(self._since.values()))

    @property
    def next_in_turn(self) -> K:
        """The first key of the group whose turn it is."""
        return next(iter(next(iter(self._turns.values()))))

    def pass_turn(self, group: Hashable) -> None:
        """Put a group that was just served behind all others."""
        if group in self._turns:
            self._turns.move_to_end(group)

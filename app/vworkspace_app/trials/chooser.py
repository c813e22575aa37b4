"""What decides which example is drawn: a seed for `box test`, Hypothesis for a property."""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol, TypeVar

import attrs

T = TypeVar("T")

_SEEDS: Final = 9_999


class Chooser(Protocol):
    """Answers every question that drawing an example asks."""

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included. The simplest is `low`."""
        ...

    def odds(self, chance: float) -> bool:
        """Yes, with about this chance. The simplest is no."""
        ...


@attrs.frozen
class Seeded:
    """A `Chooser`: equal seeds choose equally."""

    random: Random

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self.random.randint(low, high)

    def odds(self, chance: float) -> bool:
        """Yes, with this chance."""
        return self.random.random() < chance


@attrs.frozen
class Simplest:
    """A `Chooser`: the simplest answer each time."""

    def whole(self, low: int, high: int) -> int:
        """The least."""
        return low

    def odds(self, chance: float) -> bool:
        """No."""
        return False


def apart(choose: Chooser) -> Chooser:
    """A chooser of its own that follows from one choice: for what would ask for hundreds."""
    seed = choose.whole(0, _SEEDS)
    return Seeded(Random(seed)) if seed else Simplest()


def one_of(choose: Chooser, options: Sequence[T]) -> T:
    """One of several; the simplest is the first."""
    return options[choose.whole(0, len(options) - 1)]


def some_of(choose: Chooser, options: Sequence[T], count: int) -> list[T]:
    """So many different ones."""
    left = list(options)
    return [left.pop(choose.whole(0, len(left) - 1)) for _ in range(count)]

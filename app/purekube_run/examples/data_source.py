"""Sources of the choices by which an example is drawn: a seed for `box test`, Hypothesis for a property."""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol, TypeVar

import attrs

T = TypeVar("T")

_SEEDS: Final = 9_999


class DataSource(Protocol):
    """A source of choices for drawing examples: random, fixed by a seed, or driven by a test library."""

    def integer(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, inclusive. The simplest choice is `low`."""
        ...

    def chance(self, chance: float) -> bool:
        """Return True with about this probability. The simplest choice is False."""
        ...


@attrs.frozen
class Seeded:
    """A `DataSource` whose choices depend only on the seed."""

    random: Random

    def integer(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`."""
        return self.random.randint(low, high)

    def chance(self, chance: float) -> bool:
        """Return True with this chance."""
        return self.random.random() < chance


@attrs.frozen
class SimplestData:
    """A `DataSource` that makes the simplest choice each time."""

    def integer(self, low: int, high: int) -> int:
        """Return `low`."""
        return low

    def chance(self, chance: float) -> bool:
        """Return False."""
        return False


def apart(choose: DataSource) -> DataSource:
    """Return a source that is seeded by one choice of `choose`, for examples that would otherwise need hundreds of
    choices.
    """
    seed = choose.integer(0, _SEEDS)
    return Seeded(Random(seed)) if seed else SimplestData()


def one_of(choose: DataSource, options: Sequence[T]) -> T:
    """Return one of several options; the simplest is the first."""
    return options[choose.integer(0, len(options) - 1)]


def some_of(choose: DataSource, options: Sequence[T], count: int) -> list[T]:
    """Return `count` distinct options."""
    left = list(options)
    return [left.pop(choose.integer(0, len(left) - 1)) for _ in range(count)]

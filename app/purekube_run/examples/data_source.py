"""Sources of the random choices from which an example object is built.

The source is a seed in the command `box test`, and Hypothesis in a property-based test.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol, TypeVar

import attrs

T = TypeVar("T")

_SEEDS: Final = 9_999


class DataSource(Protocol):
    """A source of the random choices from which examples are built: a generator with a seed, or a test library."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, inclusive. Failing examples shrink towards `low`."""
        ...

    def chance(self, chance: float) -> bool:
        """Return True with about the probability `chance`. Failing examples shrink towards False."""
        ...


@attrs.frozen
class Seeded:
    """A source of random choices, made by the generator `random`. The same seed gives the same choices."""

    random: Random

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, inclusive."""
        return self.random.randint(low, high)

    def chance(self, chance: float) -> bool:
        """Return True with the probability `chance`."""
        return self.random.random() < chance


@attrs.frozen
class SimplestData:
    """A source of choices that are always the simplest: the lowest integer, and False."""

    def integer(self, low: int, high: int) -> int:
        """Return `low`."""
        return low

    def chance(self, chance: float) -> bool:
        """Return False, the simplest result, for every `chance`."""
        return False


def apart(choose: DataSource) -> DataSource:
    """Return a new source of random choices, whose seed is one choice of `choose`.

    A test library that provides `choose` thus records only the choice of the seed, and not the hundreds of choices for
    an example.
    """
    seed = choose.integer(0, _SEEDS)
    return Seeded(Random(seed)) if seed else SimplestData()


def one_of(choose: DataSource, options: Sequence[T]) -> T:
    """Return one of `options`, which `choose` selects. Failing examples shrink towards the first option."""
    return options[choose.integer(0, len(options) - 1)]


def some_of(choose: DataSource, options: Sequence[T], count: int) -> list[T]:
    """Return `count` of the options, each at most once, in random order. `choose` makes the random choices."""
    left = list(options)
    return [left.pop(choose.integer(0, len(left) - 1)) for _ in range(count)]

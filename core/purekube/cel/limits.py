"""The cost limits of expressions. Steps are counted, not seconds, so that limits are the same on every machine.

A step is a node that is evaluated repeatedly (the body of a macro), an item that is compared, or sixteen characters
that are read. A node that cannot repeat costs nothing: the length of the text limits their number.
"""

from typing import Final

import attrs

from purekube.cel.errors import LimitExceeded


@attrs.frozen
class Limits:
    """Limits of one expression (`text` characters, `depth` levels) and of one evaluation of it.

    `steps` limits the work, `built_text` the characters and `built_items` the items of all values created on the way.
    """

    text: int = 4096
    depth: int = 64
    chain: int = 200
    """The most operators of one level in a row: `a + b + c`."""
    steps: int = 100_000
    built_text: int = 1_000_000
    built_items: int = 10_000


LIMITS: Final = Limits()
"""The default limits."""


@attrs.define
class Budget:
    """The remaining steps, characters and items. Several evaluations may share one budget."""

    steps: int = LIMITS.steps
    text: int = LIMITS.built_text
    items: int = LIMITS.built_items

    @classmethod
    def of(cls, limits: Limits) -> "Budget":
        """Return a full budget."""
        return cls(limits.steps, limits.built_text, limits.built_items)

    def spend(self, steps: int) -> None:
        """Spend steps. Raises LimitExceeded if none are left."""
        self.steps -= steps
        if self.steps < 0:
            raise LimitExceeded("the expression takes too many steps")

    def build_text(self, characters: int) -> None:
        """Account for text that is created. Raises LimitExceeded."""
        self.text -= characters
        if self.text < 0:
            raise LimitExceeded("the expression builds too much text")

    def build_items(self, count: int) -> None:
        """Account for items of lists and maps that are created. Raises LimitExceeded."""
        self.items -= count
        if self.items < 0:
            raise LimitExceeded("the expression builds too many items")

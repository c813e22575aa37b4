"""How much an expression may cost. Steps are counted, not seconds: the same everywhere.

A step is a node of the tree that is evaluated again and again (the body of a macro), an item that is compared, or
sixteen characters that are read. What cannot repeat costs nothing: its size is bounded by the length of the text.
"""

from typing import Final

import attrs

from vworkspace_core.cel.errors import LimitExceeded


@attrs.frozen
class Limits:
    """Bounds of one expression (`text` characters, `depth` levels) and of one evaluation of it.

    `steps` bounds the work, `built_text` the characters and `built_items` the items of all that is made on the way.
    """

    text: int = 4096
    depth: int = 64
    chain: int = 200
    """How many operators of one level may stand in a row: `a + b + c`."""
    steps: int = 100_000
    built_text: int = 1_000_000
    built_items: int = 10_000


LIMITS: Final = Limits()
"""What holds unless others are given."""


@attrs.define
class Budget:
    """What is left to spend. One budget may serve several evaluations, which then share it."""

    steps: int = LIMITS.steps
    text: int = LIMITS.built_text
    items: int = LIMITS.built_items

    @classmethod
    def of(cls, limits: Limits) -> "Budget":
        """A whole budget."""
        return cls(limits.steps, limits.built_text, limits.built_items)

    def spend(self, steps: int) -> None:
        """Raises LimitExceeded when nothing is left."""
        self.steps -= steps
        if self.steps < 0:
            raise LimitExceeded("the expression takes too many steps")

    def build_text(self, characters: int) -> None:
        """Account for text that comes into being. Raises LimitExceeded."""
        self.text -= characters
        if self.text < 0:
            raise LimitExceeded("the expression builds too much text")

    def build_items(self, count: int) -> None:
        """Account for items of lists and maps that come into being. Raises LimitExceeded."""
        self.items -= count
        if self.items < 0:
            raise LimitExceeded("the expression builds too many items")

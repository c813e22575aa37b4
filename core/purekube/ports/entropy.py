"""The source of random text."""

from typing import Protocol


class Entropy(Protocol):
    """A source of random text, good enough for passwords."""

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` characters, each drawn from `alphabet` with equal chance. It raises nothing."""
        ...

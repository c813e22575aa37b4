"""Text that looks random and is the same in every run."""

import random


class SeededEntropy:
    """An `Entropy` that depends on `seed` only; its texts differ from each other, except by chance."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` characters of `alphabet`."""
        return "".join(self._random.choice(alphabet) for _ in range(length))

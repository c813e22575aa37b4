"""Text that looks random and is the same in every run."""

import random


class SeededEntropy:
    """`Entropy` that follows from `seed`; no two texts of one of them are the same, but by chance."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def text(self, length: int, alphabet: str) -> str:
        """So many characters of `alphabet`."""
        return "".join(self._random.choice(alphabet) for _ in range(length))

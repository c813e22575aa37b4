"""Reproducible pseudo-random texts for uids and for suffixes of generated names. They depend only on a seed."""

import random
from random import Random
from uuid import UUID


class SeededEntropy:
    """An `Entropy` (a source of random text) whose texts depend only on `seed`."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` characters of `alphabet`."""
        return "".join(self._random.choice(alphabet) for _ in range(length))


# apimachinery: util/rand/rand.go, alphanums: without vowels no word can arise.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters and digits of a generated name: no vowels and no look-alikes, as in Kubernetes."""


class Identities:
    """A reproducible sequence of uids and name suffixes: two servers with the same seed get the same sequence."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def uid(self) -> str:
        """Return a new version 4 UUID."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def name(self, prefix: str) -> str:
        """Return `prefix`, cut to 58 characters, with five random characters (W-35)."""
        # apiserver: storage/names/generate.go, MaxGeneratedNameLength: 63 less the five characters, so that the name is
        # a label value.
        return prefix[:58] + "".join(self._random.choices(SUFFIX_ALPHABET, k=5))

"""Where uids and the suffixes of generated names come from: one seeded source per server."""

from random import Random
from uuid import UUID

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters and digits of a generated name: no vowels and no look-alikes, as in Kubernetes."""


class Identities:
    """Uids and name suffixes as a function of `seed`: two servers with one seed give the same ones in order."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def uid(self) -> str:
        """A fresh version 4 UUID."""
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def name(self, prefix: str) -> str:
        """`prefix` cut to 58 characters and five random ones (W-35)."""
        return prefix[:58] + "".join(self._random.choices(SUFFIX_ALPHABET, k=5))

"""Which part of the cluster one process is in charge of: a share of the namespaces, by hash (RUN-13)."""

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final

import attrs

MOST_SHARDS: Final = 64
_TEXT: Final = re.compile(r"(0|[1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


@lru_cache(maxsize=65536)
def shard_of(namespace: str, count: int) -> int:
    """The shard of a namespace among `count`: the same in every process, release and language.

    The first eight bytes of its SHA-256, as a number with the highest byte first, modulo `count`.
    """
    return int.from_bytes(sha256(namespace.encode("utf-8", "surrogatepass")).digest()[:8], "big") % count


@attrs.frozen
class Shard:
    """Shard `index` of `count`, from 0; by default the only one."""

    index: int = 0
    count: int = 1

    @classmethod
    def of(cls, text: str) -> "Shard":
        """`1/4`. Raises ValueError that says what would be right."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError("give I/N, such as 0/4 for the first of four")
        index, count = int(match[1]), int(match[2])
        if count > MOST_SHARDS:
            raise ValueError(f"at most {MOST_SHARDS} shards")
        if index >= count:
            raise ValueError(f"the shards of {count} are 0/{count} to {count - 1}/{count}")
        return cls(index, count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def is_first(self) -> bool:
        """Whether it does what is done once in a cluster: agent, Cluster status, credential."""
        return self.index == 0

    def owns(self, namespace: str | None) -> bool:
        """Whether what lies in the namespace is this shard's; what lies in none is the first one's."""
        if not namespace:
            return self.is_first
        return self.count == 1 or shard_of(namespace, self.count) == self.index


WHOLE: Final = Shard()
"""All there is."""

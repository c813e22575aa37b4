"""The part of the cluster that one process reconciles: a share of the namespaces, by hash (RUN-13)."""

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final

import attrs

MOST_SHARDS: Final = 64
_TEXT: Final = re.compile(r"(0|[1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


@lru_cache(maxsize=65536)
def shard_of(namespace: str, count: int) -> int:
    """Return the index of a namespace's shard among `count` shards, which is the same in every process and release.

    The index is the first eight bytes of the name's SHA-256, as a big-endian number, modulo `count`.
    """
    return int.from_bytes(sha256(namespace.encode("utf-8", "surrogatepass")).digest()[:8], "big") % count


@attrs.frozen
class Shard:
    """The shard with number `index` (from 0) among `count` shards. The default is a single shard for everything."""

    index: int = 0
    count: int = 1

    @classmethod
    def of(cls, text: str) -> "Shard":
        """Parse a string such as `1/4`, the shard with index 1 of four. Raises ValueError with the required form."""
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
        """True for the first shard. It also does the work needed once per cluster: it pulls jobs (units of work that
        a server sends), writes the status of the Cluster object, and keeps the credential for that server.
        """
        return self.index == 0

    def owns(self, namespace: str | None) -> bool:
        """Report whether this shard reconciles the namespace. Cluster-scoped objects (None) belong to the
        first shard.
        """
        if not namespace:
            return self.is_first
        return self.count == 1 or shard_of(namespace, self.count) == self.index


WHOLE: Final = Shard()
"""The shard of a process that has no other shards: it owns every namespace."""

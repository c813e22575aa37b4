"""A byte stream cut into lines, without I/O."""

LINE_LIMIT = 32 * 1024 * 1024
"""Bytes one watch line may hold: far above what an API server stores (1.5 MiB), far below our memory."""


class LineTooLong(Exception):
    """A line exceeds the limit: the peer is not speaking the watch protocol."""


class LineSplitter:
    r"""Collects chunks and gives back whole lines without their `\n`; blank lines are skipped."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. Raises LineTooLong."""
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._keep(chunk)
            return []
        first = b"".join((*self._parts, head))
        *lines, tail = rest.split(b"\n")
        self._parts, self._pending = [], 0
        self._keep(tail)
        return [line for line in (first, *lines) if line.strip()]

    @property
    def rest(self) -> bytes:
        """What has come after the last newline."""
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._pending += len(part)
        if self._pending > self._limit:
            raise LineTooLong(f"a line is longer than {self._limit} bytes")

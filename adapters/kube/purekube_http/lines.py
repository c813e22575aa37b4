"""A splitter of a byte stream into lines, without I/O."""

LINE_LIMIT = 32 * 1024 * 1024
"""The most bytes of a watch line: far more than an API server stores (1.5 MiB), far less than our memory."""


class LineTooLong(Exception):
    """The error of a line with more bytes than the limit of the `LineSplitter`.

    A server that speaks the watch protocol sends no such line.
    """


class LineSplitter:
    r"""A buffer that takes chunks of bytes and returns whole lines without their `\n`; blank lines are skipped."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes. Raises LineTooLong if the unfinished line exceeds the limit."""
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
        """The bytes after the last newline, which belong to an unfinished line."""
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._pending += len(part)
        if self._pending > LINE_LIMIT:
            raise LineTooLong(f"a line is longer than {LINE_LIMIT} bytes")

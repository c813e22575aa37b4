"""An operator whose event loop is timed: how much processor time the longest of its turns took.

    python -m bench.turns FILE SCRIPT [WORD ...]

runs the console script with these words. FILE holds the seconds of the longest turn so far, as a double; the measuring
process resets it to zero. Other load on a shared machine stretches the times that a probe sees, and not this.
"""

import asyncio
import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

import attrs

_SECONDS = struct.Struct("d")


@attrs.frozen(eq=False)
class LongestTurn:
    """The seconds in the file, which both processes map."""

    _cell: mmap.mmap

    @classmethod
    def at(cls, file: Path) -> "LongestTurn":
        """Open an existing file. Raises FileNotFoundError if it is missing."""
        with file.open("r+b") as opened:
            return cls(mmap.mmap(opened.fileno(), _SECONDS.size))

    @classmethod
    def new(cls, file: Path) -> "LongestTurn":
        file.write_bytes(_SECONDS.pack(0.0))
        return cls.at(file)

    @property
    def seconds(self) -> float:
        return float(_SECONDS.unpack_from(self._cell)[0])

    def reset(self) -> None:
        _SECONDS.pack_into(self._cell, 0, 0.0)

    def saw(self, seconds: float) -> None:
        if seconds > self.seconds:
            _SECONDS.pack_into(self._cell, 0, seconds)


def clock(longest: LongestTurn) -> None:
    """Time every turn of an event loop of this process from now on: the work in it, without waiting."""
    turn = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def timed(loop: asyncio.BaseEventLoop) -> None:
        began = time.thread_time()
        turn(loop)
        longest.saw(time.thread_time() - began)

    asyncio.BaseEventLoop._run_once = timed  # type: ignore[attr-defined]


def main() -> None:
    file, script, *words = sys.argv[1:]
    clock(LongestTurn.at(Path(file)))
    sys.argv = [script, *words]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

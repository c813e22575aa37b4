"""An operator whose event loop is timed: how much processor time the longest of its turns took.

    python -m bench.turns FILE SCRIPT [WORD ...]

runs the console script with these words. The seconds of the longest turn so far stand in FILE, as a double; who
measures writes zero there. Neighbours on a shared machine stretch what a probe sees, and not this.
"""

import asyncio
import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

import attrs

__all__ = ["LongestTurn"]

_SECONDS = struct.Struct("d")


@attrs.frozen(eq=False)
class LongestTurn:
    """What stands in the file, which both processes see."""

    _cell: mmap.mmap

    @classmethod
    def at(cls, file: Path) -> "LongestTurn":
        """Raises FileNotFoundError where nobody made it."""
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
    """From now on every turn of an event loop of this process is timed: what it runs, and nothing that it waits for."""
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

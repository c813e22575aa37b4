"""An end for every process that this one has started, directly or not, also after Ctrl-C.

It works on Linux; elsewhere no process is found. A process whose parent has died becomes a child of this one, so that
none escapes. Each is ended by its id.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_BECOME_SUBREAPER: Final = 36
_GRACE: Final = 15.0
"""The seconds that processes get to end after SIGTERM."""


def adopt() -> None:
    """Become the parent of every descendant whose own parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0)


def descendants(of: int) -> list[int]:
    """Return the ids of all processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [of]
    for each in found:
        found += children.get(each, ())
    return found[1:]


def end(ids: Collection[int], grace: float = _GRACE) -> None:
    """End processes: SIGTERM to each, and SIGKILL for those that are still there after the grace period."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in ids:
            with suppress(ProcessLookupError):
                os.kill(each, number)
        limit = time.monotonic() + grace
        while _any_runs(ids) and time.monotonic() < limit:
            time.sleep(0.1)


def _any_runs(ids: Collection[int]) -> bool:
    """Report whether one of the processes runs; collect the exit statuses of children that have ended."""
    for each in ids:
        with suppress(ChildProcessError):
            os.waitpid(each, os.WNOHANG)
    return not dict(_parents()).keys().isdisjoint(ids)


def _parents() -> Iterator[tuple[int, int]]:
    """Yield each process that runs, with its parent."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z":
                yield int(stat.parent.name), int(parent)

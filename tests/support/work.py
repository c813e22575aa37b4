"""How much work something takes, in what is the same on every machine: calls and bytes, not seconds (RUN-11).

C code that loops inside one call is not seen by `calls_of`: bytes tell of what it builds (`peak_of`), and regular
expressions have a counter of their own (`tests/support/regex_steps.py`).
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
KIB = 1024
MIB = 1024 * KIB
_BEGINNINGS = ("call", "c_call")


def calls_of(compute: Callable[[], Any], limit: int | None = None, *, but: str = "") -> int:
    """How many calls of Python and C functions `compute` makes, those left out that the package `but` makes.

    With a `limit` it is ended by an AssertionError as soon as it makes more: what has no bound need not be waited for.
    """
    count = elsewhere = 0

    def look(frame: FrameType, what: str, arg: Any) -> None:
        nonlocal count, elsewhere
        if but and what in ("call", "return") and frame.f_globals.get("__name__", "").startswith(but):
            elsewhere += 1 if what == "call" else -1
        elif what in _BEGINNINGS and not elsewhere:
            count += 1
            if limit is not None and count > limit:
                sys.setprofile(None)
                raise AssertionError(f"more than {limit} calls, now in {frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        compute()
    finally:
        sys.setprofile(before)
    return count


def peak_of(compute: Callable[[], Any]) -> int:
    """How many bytes more than before `compute` holds at its worst moment, by Python's own allocator."""
    gc.collect()
    tracemalloc.start()
    try:
        compute()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

"""JSON values that must not travel further: too deep, or with texts and numbers that JSON cannot hold (PULL-7).

Looked for without recursion, so that a hostile payload cannot exhaust the stack that looks for it.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from vworkspace_core.kinds.problems import Problem, index, join

__all__ = ["DEEPEST", "flaws"]

DEEPEST: Final = 100
"""Levels of objects and lists a job may have. Values of real charts nest ten to twenty levels."""

_NAMED: Final = 12
"""Levels that a path names; deeper ones are told by the path of that level."""
_MOST: Final = 10
_INTEGERS: Final = range(-(2**63), 2**64)


def flaws(value: Any) -> tuple[Problem, ...]:
    """The first ten things in `value` that no JSON reader need accept, sorted by path."""
    return tuple(sorted(set(islice(_flaws(value), _MOST))))


def _flaws(value: Any) -> Iterator[Problem]:
    pending: list[tuple[str, Any, int]] = [("", value, 1)]
    while pending:
        path, found, level = pending.pop()
        if isinstance(found, Mapping | list | tuple):
            if level > DEEPEST:
                yield Problem(path, f"is nested more than {DEEPEST} levels deep")
                continue
            pending += [(step, item, level + 1) for step, item in _children(path, found, level <= _NAMED)]
            yield from (Problem(path, "has a name that is not text") for name in _names(found) if not _is_text(name))
        elif (wrong := _scalar_flaw(found)) is not None:
            yield Problem(path, wrong)


def _children(path: str, value: Any, named: bool) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield (join(path, str(name)) if named and _is_text(name) else path), item
    else:
        for at, item in enumerate(value):
            yield (index(path, at) if named else path), item


def _names(value: Any) -> Iterator[Any]:
    return iter(value) if isinstance(value, Mapping) else iter(())


def _scalar_flaw(value: Any) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            return None if _is_text(value) else "is not text: it has half of a surrogate pair"
        case int():
            return None if value in _INTEGERS else "is an integer of more than 64 bits"
        case float():
            return None if math.isfinite(value) else "is not a finite number"
        case _:
            return f"is not JSON: {type(value).__name__}"


def _is_text(value: Any) -> bool:
    # isascii is a flag look-up: nearly all texts end there.
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))

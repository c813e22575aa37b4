"""The check of untrusted JSON for values that must not be passed on (PULL-7).

Such values are nested too deeply, or are texts or numbers that some JSON parsers refuse. The search is not recursive,
so that a hostile payload cannot exhaust the stack.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from purekube.apimachinery.problems import Problem, index, join

DEEPEST: Final = 100
"""The most levels of objects and lists in a job. Values of real charts nest ten to twenty levels."""

_NAMED: Final = 12
"""The most levels in the path of a problem; a deeper value is reported with the path of its ancestor at that level."""
_MOST: Final = 10
# Parsers round or refuse integers beyond 64 bits (RFC 8259, section 6).
_INTEGERS: Final = range(-(2**63), 2**64)
_PLAIN: Final = (bool, type(None))
_NESTED: Final = (dict, list, tuple, Mapping)

_Place: TypeAlias = tuple["_Place", Any] | None
"""The place of a value: the place of its container, and its own name or position there. None is the whole value."""


def flaws(value: Any) -> tuple[Problem, ...]:
    """Return a problem for each part of `value` that some JSON parsers refuse.

    At most ten problems are returned, sorted by path.
    """
    return tuple(sorted(set(islice(_flaws(value), _MOST))))


def _flaws(value: Any) -> Iterator[Problem]:
    if not isinstance(value, _NESTED):
        yield from _scalar_flaws(None, value)
        return
    pending: list[tuple[_Place, Any, int]] = [(None, value, 1)]
    while pending:
        place, container, level = pending.pop()
        if level > DEEPEST:
            yield Problem(_path(place), f"is nested more than {DEEPEST} levels deep")
            continue
        named = isinstance(container, Mapping)
        for step, item in container.items() if named else enumerate(container):
            is_step = not named or _is_text(step)
            if not is_step:
                yield Problem(_path(place), "has a name that is not text")
            # A job may contain a hundred thousand of them: only a flawed or nested one costs more than this check.
            kind = type(item)
            if kind in _PLAIN or (kind is str and item.isascii()) or (kind is int and item in _INTEGERS):
                continue
            beneath = (place, step) if level <= _NAMED and is_step else place
            if isinstance(item, _NESTED):
                pending.append((beneath, item, level + 1))
            else:
                yield from _scalar_flaws(beneath, item)


def _scalar_flaws(place: _Place, value: Any) -> Iterator[Problem]:
    if (wrong := _scalar_flaw(value)) is not None:
        yield Problem(_path(place), wrong)


def _path(place: _Place) -> str:
    steps: list[Any] = []
    while place is not None:
        place, step = place
        steps.append(step)
    path = ""
    for step in reversed(steps):
        path = join(path, step) if isinstance(step, str) else index(path, step)
    return path


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
    # isascii only reads a flag: nearly all texts end here.
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))

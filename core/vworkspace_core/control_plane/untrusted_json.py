"""JSON values that must not travel further: too deep, or with texts and numbers that JSON cannot hold (PULL-7).

Looked for without recursion, so that a hostile payload cannot exhaust the stack that looks for it.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from vworkspace_core.apimachinery.problems import Problem, index, join

DEEPEST: Final = 100
"""Levels of objects and lists a job may have. Values of real charts nest ten to twenty levels."""

_NAMED: Final = 12
"""Levels that a path names; deeper ones are told by the path of that level."""
_MOST: Final = 10
_INTEGERS: Final = range(-(2**63), 2**64)
_PLAIN: Final = (bool, type(None))
_NESTED: Final = (dict, list, tuple, Mapping)

_Place: TypeAlias = tuple["_Place", Any] | None
"""Where something stands: the place above it and the step from there, a name or a position."""


def flaws(value: Any) -> tuple[Problem, ...]:
    """The first ten things in `value` that no JSON reader need accept, sorted by path."""
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
            # A job may hold a hundred thousand of them: only what is wrong or goes deeper costs more than a look.
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
    # isascii is a flag look-up: nearly all texts end there.
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))

"""Functions of lists, some of strings too."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

from vworkspace_fake.apiserver.cel.arguments import items_of, text_of
from vworkspace_fake.apiserver.cel.values import CelError, cel_equal, compare_values, is_number, no_overload

__all__ = ["distinct", "extreme", "index_of", "is_sorted", "last_index_of", "subset", "total"]


def index_of(where: Any, what: Any, start: int = 0) -> int:
    """First position of a part of a text or an item of a list, -1 when there is none."""
    if isinstance(where, list):
        return next((i for i, item in enumerate(where) if cel_equal(item, what)), -1)
    return text_of(where).find(text_of(what), start)


def last_index_of(where: Any, what: Any) -> int:
    """Last position of a part of a text or an item of a list, -1 when there is none."""
    if isinstance(where, list):
        return max((i for i, item in enumerate(where) if cel_equal(item, what)), default=-1)
    return text_of(where).rfind(text_of(what))


def is_sorted(items: Any) -> bool:
    """Whether no item is less than the one before it."""
    items = items_of(items)
    return all(compare_values(a, b) <= 0 for a, b in pairwise(items))


def extreme(items: Any, sign: int) -> Any:
    """The least (sign -1) or greatest (sign 1) item."""
    items = items_of(items)
    if not items:
        raise CelError("min or max of an empty list")
    best = items[0]
    for item in items[1:]:
        if compare_values(item, best) == sign:
            best = item
    return best


def total(items: Any) -> Any:
    """Sum of numbers or durations."""
    items = items_of(items)
    if not all(is_number(item) for item in items) and not all(isinstance(item, timedelta) for item in items):
        raise no_overload()
    return sum(items[1:], items[0]) if items else 0


def distinct(items: Any) -> list[Any]:
    """Items without repetitions."""
    out: list[Any] = []
    for item in items_of(items):
        if not any(cel_equal(item, one) for one in out):
            out.append(item)
    return out


def subset(items: Any, part: Any) -> bool:
    """Whether every item of `part` is one of `items`."""
    return all(any(cel_equal(one, item) for item in items_of(items)) for one in items_of(part))

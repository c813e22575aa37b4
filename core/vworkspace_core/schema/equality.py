"""Equality of JSON values as server-side apply and validation see it."""

from typing import Any


def equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same. `1` and `1.0` are; `1` and `true` are not (S-29)."""
    if left is right:
        return True
    return bool(left == right) and _same_shape(left, right)


def _same_shape(left: Any, right: Any) -> bool:
    """For values that Python calls equal: is no boolean opposite a number?"""
    if left is right:
        return True
    if isinstance(left, dict):
        return all(_same_shape(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return all(_same_shape(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool)

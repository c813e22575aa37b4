"""The equality of JSON values as server-side apply and validation define it."""

from typing import Any


def equal(left: Any, right: Any) -> bool:
    """Report whether two JSON values are equal. `1` and `1.0` are; `1` and `true` are not (S-29)."""
    if left is right:
        return True
    return bool(left == right) and _same_shape(left, right)


def _same_shape(left: Any, right: Any) -> bool:
    """Report, for values that Python calls equal, whether booleans equal only booleans."""
    if left is right:
        return True
    if isinstance(left, dict):
        return all(_same_shape(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return all(_same_shape(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool)

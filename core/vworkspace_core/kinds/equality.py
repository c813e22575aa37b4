"""Equality of JSON values as the API server has it: 1 and 1.0 are one number, and true is not 1."""

from collections.abc import Mapping

from vworkspace_core.manifest import Json

__all__ = ["same_json"]


def same_json(left: Json, right: Json) -> bool:
    """Whether two JSON values say the same, whatever the order of keys and the spelling of numbers."""
    # A stack instead of recursion: free objects may be nested as deep as the API server lets them be.
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if one.keys() != other.keys():
                return False
            pairs.extend((item, other[key]) for key, item in one.items())
        elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif isinstance(one, bool) is not isinstance(other, bool) or one != other:
            return False
    return True

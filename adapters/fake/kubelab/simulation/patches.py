"""JSON merge patches (RFC 7386)."""

from collections.abc import Mapping
from typing import Any


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that turns `before` into `after`; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        known = before.get(key)
        if key in before and known == value:
            continue
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            patch[key] = merge_diff(known, value)
        else:
            patch[key] = value
    return patch

"""The equality of scalars in objects."""

from typing import Any


def equal_scalars(live: Any, desired: Any) -> bool:
    """Compare scalars as the API server does: 1 equals 1.0 (S-29), but True does not equal 1."""
    return bool(live == desired) and isinstance(live, bool) == isinstance(desired, bool)

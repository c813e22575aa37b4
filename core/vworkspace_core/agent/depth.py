"""How deeply a JSON value nests, measured without recursion: hostile payloads must not exhaust the stack (PULL-7)."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.kinds.problems import index, join

__all__ = ["DEEPEST", "too_deep"]

DEEPEST: Final = 100
"""Levels of objects and lists a job may have. Values of real charts nest ten to twenty levels."""


def too_deep(value: Any, limit: int = DEEPEST) -> str | None:
    """Path, at most ten steps of it, of something nested deeper than `limit`; None where all is well."""
    pending: list[tuple[str, Any, int]] = [("", value, 1)]
    while pending:
        path, found, level = pending.pop()
        if not isinstance(found, Mapping | list | tuple):
            continue
        if level > limit:
            return path
        named = level <= 10
        if isinstance(found, Mapping):
            pending += [(join(path, str(name)) if named else path, item, level + 1) for name, item in found.items()]
        else:
            pending += [(index(path, at) if named else path, item, level + 1) for at, item in enumerate(found)]
    return None

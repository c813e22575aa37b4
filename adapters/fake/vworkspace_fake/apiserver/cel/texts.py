"""Functions of strings."""

from typing import Any

from vworkspace_fake.apiserver.cel.arguments import text_of
from vworkspace_fake.apiserver.cel.values import CelError
from vworkspace_fake.apiserver.schema.gopattern import go_pattern

__all__ = ["char_at", "contains", "matches", "split", "substring"]


def matches(text: Any, pattern: Any) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return go_pattern(text_of(pattern)).search(text_of(text)) is not None


def contains(text: Any, part: Any) -> bool:
    """Substring, or subset of a `sets` argument."""
    return text_of(part) in text_of(text)


def substring(text: Any, start: Any, end: Any = None) -> str:
    """Characters from `start` up to `end`."""
    text = text_of(text)
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"index out of range: {start}")
    return str(text[start:stop])


def char_at(text: Any, index: Any) -> str:
    """One character; the empty string right behind the last."""
    text = text_of(text)
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return str(text[index : index + 1])


def split(text: Any, separator: Any, limit: int = -1) -> list[Any]:
    """Parts between separators, at most `limit` of them."""
    if limit == 0:
        return []
    if limit == 1:
        return [text_of(text)]
    if not separator:
        return list(text_of(text))
    return list(text_of(text).split(text_of(separator), limit - 1 if limit > 0 else -1))

"""Python source text of literals and calls, laid out in the same way as ruff's formatter lays it out."""

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

WIDTH: Final = 120
_INDENT: Final = 4
_DOC_WIDTH: Final = 100
"""The width of docstrings, in characters before escapes."""
_QUOTES: Final = '"""'


@attrs.frozen
class Text:
    """A string literal in source text, continued on the next line if it is too long for one line."""

    value: str


@attrs.frozen
class Group:
    """Source text of a call, collection or subscript: parts in brackets, each with its prefix (`name=`, `"key": `)."""

    head: str
    parts: "Sequence[tuple[str, Node]]"
    tail: str


Node: TypeAlias = str | Text | Group
"""A part of an expression in Python source: a str is source text that is never broken across lines."""


def literal(value: Any) -> Node:
    """Return the Python source of a JSON value."""
    match value:
        case str():
            return Text(value)
        case Mapping():
            return Group("{", [(f"{quoted(str(key))}: ", literal(item)) for key, item in value.items()], "}")
        case list() | tuple():
            return Group("[", [("", literal(item)) for item in value], "]")
        case _:
            return repr(value)


def call(function: str, *arguments: Node, **named: Node) -> Group:
    """Return the Python source of a call of `function`; the positional and named arguments are source text, too."""
    parts = [("", argument) for argument in arguments]
    return Group(f"{function}(", [*parts, *((f"{name}=", node) for name, node in named.items())], ")")


def laid_out(prefix: str, node: Node, suffix: str = "", indent: int = 0) -> Iterator[str]:
    """Yield the lines of `prefix`, `node`, `suffix`. A Group too long for one line has one part on each line."""
    margin = " " * indent
    line = f"{margin}{prefix}{_flat(node)}{suffix}"
    if len(line) <= WIDTH or isinstance(node, str) or (isinstance(node, Group) and not node.parts):
        yield line
    elif isinstance(node, Text):
        *first, last = _pieces(node.value, WIDTH - len(margin) - len(prefix) - len(suffix))
        heads = [margin + prefix, *([margin] * len(first))]
        yield from (head + piece for head, piece in zip(heads, (*first, last + suffix), strict=True))
    else:
        yield f"{margin}{prefix}{node.head}"
        for name, part in node.parts:
            yield from laid_out(name, part, ",", indent + _INDENT)
        yield f"{margin}{node.tail}{suffix}"


def imported(module: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the lines of `from module import names`: constants first, then classes, then functions."""
    ordered = sorted(names, key=lambda name: (len(name) == 1 or not name.isupper(), not name[0].isupper(), name))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        yield line
    else:
        yield from (f"from {module} import (", *(f"    {name}," for name in ordered), ")")


def docstring(text: str, indent: int = 0) -> Iterator[str]:
    """Yield the lines of a docstring; lines that are too long are wrapped."""
    margin = " " * indent
    wrapped = [line for each in text.expandtabs().strip().split("\n") for line in _wrapped(each)]
    first, *others = [_escaped(line).replace(_QUOTES, '\\"\\"\\"') for line in wrapped]
    first = f"\\{first}" if first.startswith('"') else first
    if not others and not first.endswith(('"', "\\")):
        yield f"{margin}{_QUOTES}{first}{_QUOTES}"
    else:
        yield f"{margin}{_QUOTES}{first}"
        yield from (f"{margin}{line}" if line else "" for line in (*others, _QUOTES))


def quoted(text: str) -> str:
    """Return `text` as a Python string literal in double quotes, or in single quotes if these need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    body = _escaped(text).replace(quote, f"\\{quote}")
    return f"{quote}{body}{quote}"


def _escaped(text: str) -> str:
    """Return the content of a string literal for `text`, with escapes for characters that are not one column wide on a
    screen.
    """
    return "".join(character if _is_plain(character) else _escape(character) for character in text)


def _is_plain(character: str) -> bool:
    if " " <= character <= "~":
        return character != "\\"
    narrow = unicodedata.east_asian_width(character) not in ("W", "F") and unicodedata.category(character)[0] != "M"
    return character.isprintable() and narrow


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _flat(node: Node) -> str:
    match node:
        case str():
            return node
        case Text():
            return quoted(node.value)
        case Group():
            comma = "," if node.head == "(" and len(node.parts) == 1 else ""  # without it, no tuple
            return f"{node.head}{', '.join(f'{name}{_flat(part)}' for name, part in node.parts)}{comma}{node.tail}"


def _pieces(text: str, room: int) -> Iterator[str]:
    """Yield string literals whose concatenation is the text, each at most `room` characters wide.

    A literal ends after a line break, otherwise between words.
    """
    piece = ""
    for word in re.findall(r"\n+|[^\S\n]*\S+[ \n]*|[^\S\n]+", text):
        for part in (word,) if len(quoted(word)) <= room else word:
            if piece and (piece.endswith("\n") or len(quoted(piece + part)) > room):
                yield quoted(piece)
                piece = ""
            piece += part
    yield quoted(piece)


def _wrapped(line: str) -> list[str]:
    margin = " " * (len(line) - len(line.lstrip(" ")))
    return textwrap.wrap(line, _DOC_WIDTH, subsequent_indent=margin, break_on_hyphens=False) or [""]

"""Tokens of a CEL expression."""

import re
from collections.abc import Iterator
from typing import Any, Final

import attrs

from vworkspace_fake.apiserver.cel.syntax import CelSyntaxError
from vworkspace_fake.apiserver.cel.values import Uint

__all__ = ["Token", "tokens"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<text>(?P<prefix>[rRbB]{0,2})(?:\"{3}.*?(?<!\\)\"{3}|'{3}.*?(?<!\\)'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
  | (?P<float>(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>(?:0x[0-9a-fA-F]+|\d+)[uU]?)
  | (?P<name>[_a-zA-Z]\w*)
  | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@attrs.frozen
class Token:
    """One token. `kind` is `literal`, `name`, `sign` or `end`; `value` is set for literals."""

    kind: str
    text: str
    position: int
    value: Any = None


def tokens(source: str) -> Iterator[Token]:
    """Every token of `source`, closed by one of kind `end`. Raises CelSyntaxError."""
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise CelSyntaxError(f"unexpected {source[position]!r} at {position}")
        if match["space"] is None:
            yield _token(match, position)
        position = match.end()
    yield Token("end", "", position)


def _token(match: re.Match[str], position: int) -> Token:
    text = match.group()
    if match["text"] is not None:
        return Token("literal", text, position, _string(match["prefix"].lower(), text[len(match["prefix"]) :]))
    if match["float"] is not None:
        return Token("literal", text, position, float(text))
    if match["int"] is not None:
        number = int(text.rstrip("uU"), 16 if text.startswith("0x") else 10)
        return Token("literal", text, position, Uint(number) if text[-1] in "uU" else number)
    if match["name"] is not None:
        return Token("name", text, position)
    return Token("sign", text, position)


def _string(prefix: str, text: str) -> str | bytes:
    quotes = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    inner = text[quotes:-quotes]
    if "r" not in prefix:
        inner = _ESCAPE.sub(_unescape, inner)
    return inner.encode() if "b" in prefix else inner


def _unescape(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    if match[4]:
        return chr(int(match[4], 8))
    if match[5] in _SIMPLE:
        return _SIMPLE[match[5]]
    if match[5] in "\\\"'`?":
        return match[5]
    raise CelSyntaxError(f"invalid escape \\{match[5]}")

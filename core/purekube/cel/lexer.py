"""The lexer of CEL expressions."""

import re
from collections.abc import Iterator
from typing import Any, Final

import attrs

from purekube.cel.limits import CelSyntaxError
from purekube.cel.values import INT_MAX, UINT_MAX, Uint

# The terminals of cel-go (parser/gen/CEL.g4); a name in backticks is its ESC_IDENTIFIER.
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*)
  | (?P<text>(?P<prefix>[rR][bB]|[bB][rR]|[rRbB])?(?P<quote>\"{3}|'{3}|"|'))
  | (?P<float>(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)
  | (?P<name>[_a-zA-Z]\w*)
  | (?P<field>`[\w.\-/ ]+`)
  | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))|(\\)\Z", re.DOTALL
)
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LONGEST_NUMBER: Final = 400


@attrs.frozen
class Token:
    """One token. `kind` is `literal`, `name`, `field` (a name in backticks), `sign` or `end`."""

    kind: str
    text: str
    position: int
    value: Any = None


def tokens(source: str) -> Iterator[Token]:
    """Yield every token of `source`, then a token of kind `end`. Raises CelSyntaxError at a character that begins no
    token.
    """
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise CelSyntaxError(f"unexpected {source[position]!r}", source, position)
        end = match.end()
        if match["text"] is not None:
            end = _end_of_text(source, match)
            yield Token("literal", source[position:end], position, _text(source, match, end))
        elif match["space"] is None:
            yield _token(source, match)
        position = end
    yield Token("end", "", position)


def _token(source: str, match: re.Match[str]) -> Token:
    text, position = match.group(), match.start()
    if match["float"] is not None:
        return Token("literal", text, position, float(text))
    if match["int"] is not None:
        return Token("literal", text, position, _integer(source, text, position))
    if match["name"] is not None:
        return Token("name", text, position)
    if match["field"] is not None:
        return Token("field", text[1:-1], position)
    return Token("sign", text, position)


def _integer(source: str, text: str, position: int) -> int:
    digits = text.rstrip("uU")
    if len(digits) > _LONGEST_NUMBER:
        raise CelSyntaxError("the number is too long", source, position)
    number = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    unsigned = text[-1] in "uU"
    # One more than the largest: `-9223372036854775808` is a sign before a number; the parser refuses other uses.
    if number > (UINT_MAX if unsigned else INT_MAX + 1):
        raise CelSyntaxError("the number does not fit into 64 bits", source, position)
    return Uint(number) if unsigned else number


def _end_of_text(source: str, match: re.Match[str]) -> int:
    quote, raw = match["quote"], "r" in (match["prefix"] or "").lower()
    at = match.end()
    while at < len(source):
        if source[at] == "\\" and not raw:
            at += 2
        elif source.startswith(quote, at):
            return at + len(quote)
        elif source[at] in "\r\n" and len(quote) == 1:
            break
        else:
            at += 1
    raise CelSyntaxError("a text without an end", source, match.start())


def _text(source: str, match: re.Match[str], end: int) -> str | bytes:
    prefix, width = (match["prefix"] or "").lower(), len(match["quote"])
    inner = source[match.end() : end - width]
    # cel-go normalizes line breaks in such texts (parser/unescape.go), as the grammar demands.
    if width == 3:
        inner = inner.replace("\r\n", "\n").replace("\r", "\n")
    if "b" in prefix:
        return _encoded(inner) if "r" in prefix else _bytes(source, inner, match.start())
    return inner if "r" in prefix else _string(source, inner, match.start())


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _string(source: str, inner: str, position: int) -> str:
    def unescape(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        number = int(code, 16) if code else int(match[4], 8) if match[4] else None
        if number is None:
            return _plain(source, match, position)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise CelSyntaxError(f"{match.group()} is no character", source, position)
        return chr(number)

    return _ESCAPE.sub(unescape, inner)


def _bytes(source: str, inner: str, position: int) -> bytes:
    """Return a bytes literal, in which `\\xff` and `\\377` are bytes, not characters."""
    out, at = bytearray(), 0
    for match in _ESCAPE.finditer(inner):
        out += _encoded(inner[at : match.start()])
        if match[2] or match[3]:
            raise CelSyntaxError(f"{match.group()} is no byte", source, position)
        number = int(match[1], 16) if match[1] else int(match[4], 8) if match[4] else None
        out += _encoded(_plain(source, match, position)) if number is None else bytes([number])
        at = match.end()
    return bytes(out + _encoded(inner[at:]))


def _plain(source: str, match: re.Match[str], position: int) -> str:
    sign = match[5]
    if sign in _SIMPLE:
        return _SIMPLE[sign]
    if sign is not None and sign in "\\\"'`?":
        return sign
    raise CelSyntaxError(f"invalid escape {match.group()}", source, position)

"""JSON that is nested deeper than the decoder can follow: what is too deep is cut out, the rest is read (RUN-11).

Linear, and without recursion: the API server stores objects some 10,000 levels deep, in any namespace, and one of them
must not keep its neighbours from being read.
"""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

LEVELS: Final = 150
"""More than the core admits, so that it is the core that names the path of what is too deep."""

TOO_DEEP: Final = f"is nested too deeply to be read: at most {LEVELS} levels"
"""What to say of a path that was cut out."""

UNREADABLE: Final = "vworkspace.io/unreadable"
"""A field beside `metadata` that no API server sends: the paths that were cut out of an object, as a list."""

_CUT: Final = "\x00cut: nested too deeply"
_CUT_JSON: Final = msgspec.json.encode(_CUT)

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
# What does not end is a string up to the end of the text: it is not looked for anew from each of its quotes (RUN-11).
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+(?:[\[\]{}]|\Z)', re.DOTALL)
"""One bracket, with everything before it; in the end what no bracket follows."""
_NO_BRACKET: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEP: Final = [1 if byte in b"[{" else -1 if byte in b"]}" else 0 for byte in range(256)]

_LARGE: Final = 64 * 1024
_HEADROOM: Final = 100
"""Frames of the interpreter's stack that are left to whoever reads the object later, where it stands deeper."""
_SHALLOW: Final = 4 * _HEADROOM
"""Brackets that a text may have, and so levels, which whoever reads it has room for in any case."""


def pruned(text: str, levels: int = LEVELS) -> str:
    """JSON text with null in place of every object or list nested deeper than `levels`. Linear, no recursion."""
    parts: list[str] = []
    depth, copied = 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == levels + 1:
                parts.append(text[copied : token.start()] + "null")
        elif token[0] in "]}":
            if depth == levels + 1:
                copied = token.end()
            depth -= 1
    return "".join(parts) + (text[copied:] if depth <= levels else "")


def decode_answer(raw: bytes, *path: str | tuple[str, ...]) -> Any:
    """What the API server answered. `path` leads to the object in it, or to a list of objects; empty: all of it.
    Its last step may name several.

    Of an object that is too deep, the values below its fields that make it so are left out, and their paths named in
    its field `UNREADABLE`. Raises msgspec.DecodeError and UnicodeDecodeError for what is no JSON.
    """
    return decode_with(msgspec.json.decode, raw, *path)


def decode_with(decode: Callable[[bytes], T], raw: bytes, *path: str | tuple[str, ...]) -> T:
    """`decode_answer` by a decoder of a type that has the objects of `path` as they are."""
    try:
        return _calmly(decode, raw)
    except RecursionError:
        cut = _cut(raw, len(path) + (2 if path[-1:] == ("items",) else 1))
    try:
        value = decode(cut)
    except RecursionError:
        raise msgspec.DecodeError("JSON is malformed: nested without end") from None
    for manifest in _objects(value, path):
        _mark(manifest)
    return value


def _calmly(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Half a million small lists are decoded in a quarter of the time where nobody looks for garbage meanwhile."""
    if len(raw) < _LARGE or not gc.isenabled():
        return _with_headroom(decode, raw)
    gc.disable()
    try:
        return _with_headroom(decode, raw)
    finally:
        gc.enable()


def _with_headroom(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Decode as somebody would whose stack is deeper, where that counts: what passes here can be read everywhere."""
    if raw.count(b"{") + raw.count(b"[") < _SHALLOW:
        return decode(raw)
    return _deeper(decode, raw, _HEADROOM)


def _deeper(decode: Callable[[bytes], T], raw: bytes, frames: int) -> T:
    return _deeper(decode, raw, frames - 1) if frames else decode(raw)


def too_deep(manifest: Any) -> tuple[str, ...]:
    """The paths that were cut out of an object; empty for one that was read whole."""
    mark = manifest.get(UNREADABLE) if isinstance(manifest, dict) else None
    return tuple(mark) if isinstance(mark, list) else ()


def _cut(raw: bytes, level: int) -> bytes:
    """`raw` without the values two levels below objects at `level` that are nested more than `LEVELS` deep."""
    depths = list(accumulate(map(_STEP.__getitem__, _STRING.sub(b"", raw).translate(None, _NO_BRACKET))))
    parts, copied = [], 0
    brackets, at = _BRACKET.finditer(raw), -1
    for first, last in _too_deep(depths, level + 2):
        begin = next(islice(brackets, first - at - 1, None)).end() - 1
        end = next(islice(brackets, last - first - 1, None)).end()
        at = last
        parts += [raw[copied:begin], _CUT_JSON]
        copied = end
    return b"".join((*parts, raw[copied:]))


def _too_deep(depths: Sequence[int], level: int) -> Iterator[tuple[int, int]]:
    """First and last bracket of each value that opens at `level` and is nested too deeply."""
    deepest = level + LEVELS
    at = 0
    while (over := _index(depths, deepest, at)) is not None:
        first = over
        while depths[first] != level or (first and depths[first - 1] > level):
            first -= 1
        last = _index(depths, level - 1, over)
        if last is None:
            return  # it ends within the value: no JSON, as the decoder will say
        yield first, last
        at = last + 1


def _index(depths: Sequence[int], wanted: int, start: int) -> int | None:
    try:
        return depths.index(wanted, start)
    except ValueError:
        return None


def _objects(value: Any, path: tuple[str | tuple[str, ...], ...]) -> Iterator[dict[str, Any]]:
    standing = [value]
    for step in path:
        names = (step,) if isinstance(step, str) else step
        standing = [_below(item, name) for item in standing for name in names]
    for item in standing:
        yield from (each for each in (item if isinstance(item, list) else [item]) if isinstance(each, dict))


def _below(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _mark(manifest: dict[str, Any]) -> None:
    """Take the cuts out of an object, and name them; who manages which field is nothing that anybody reads there."""
    paths = []
    for name, value in manifest.items():
        below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        cut = [key for key, item in below if item == _CUT]
        for key in cut:
            value[key] = None
        paths += [f"{name}.{key}" for key in cut if (name, key) != ("metadata", "managedFields")]
    if paths:
        manifest[UNREADABLE] = paths

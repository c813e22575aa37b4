"""Decoding of JSON that is nested too deeply for the decoder: values too deep are cut out, the rest is read (RUN-11).

It takes linear time and no recursion. The API server stores objects some 10,000 levels deep, in any namespace, and one
of them must not prevent the other objects of a list from being read.
"""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

LEVELS: Final = 150
"""The number of levels that are decoded. The core accepts fewer, so that it can name the path of a refused value."""

TOO_DEEP: Final = f"is nested too deeply to be read: at most {LEVELS} levels"
"""The message about a value that was cut out."""

UNREADABLE: Final = "vworkspace.io/unreadable"
"""The field of a decoded object, next to `metadata`, that lists the paths that were cut out. No API server sends it."""

_CUT: Final = "\x00cut: nested too deeply"
_CUT_JSON: Final = msgspec.json.encode(_CUT)

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
# An unterminated string extends to the end of the text: it is not searched again from each of its quotes (RUN-11).
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+(?:[\[\]{}]|\Z)', re.DOTALL)
"""The pattern of one bracket outside strings with all text before it, or of the text after the last bracket."""
_NO_BRACKET: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEP: Final = [1 if byte in b"[{" else -1 if byte in b"]}" else 0 for byte in range(256)]

_LARGE: Final = 64 * 1024
_HEADROOM: Final = 100
"""The number of stack frames that are added before deeply nested JSON is decoded.

A value that can be decoded at that depth can also be read by later functions with a deeper stack.
"""
_SHALLOW: Final = 4 * _HEADROOM
"""The number of opening brackets below which JSON cannot be nested too deeply, so that no stack frames are added."""


def pruned(text: str, levels: int = LEVELS) -> str:
    """Return the JSON text `text` with null for every object or list nested deeper than `levels`, in linear time."""
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
    """Decode an answer of the API server, even if it is nested too deeply for other decoders.

    `path` leads to the object in the answer, or to a list of objects. If it is empty, the answer itself is the object.
    The last step of `path` may be a tuple of field names, each of which holds an object. In an object that is nested
    too deeply, values that are too deep become null, and the object's field `UNREADABLE` lists their paths. Raises
    msgspec.DecodeError and UnicodeDecodeError for text that is not JSON.
    """
    return decode_with(msgspec.json.decode, raw, *path)


def decode_with(decode: Callable[[bytes], T], raw: bytes, *path: str | tuple[str, ...]) -> T:
    """Decode `raw` with the function `decode`. If `raw` is nested too deeply, leave values out as `decode_answer` does.

    `path` is the path that `decode_answer` takes. `decode` must return the objects at `path` as mappings.
    """
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
    """Return `decode(raw)`. If `raw` is large, garbage collection is off meanwhile, since it would take most of the
    time.
    """
    if len(raw) < _LARGE or not gc.isenabled():
        return _with_headroom(decode, raw)
    gc.disable()
    try:
        return _with_headroom(decode, raw)
    finally:
        gc.enable()


def _with_headroom(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Return `decode(raw)`. If `raw` may be deeply nested, call `decode` from deeper in the stack than necessary.

    A value nested so deeply that later functions could not read it thus fails already here, with RecursionError.
    """
    if raw.count(b"{") + raw.count(b"[") < _SHALLOW:
        return decode(raw)
    return _deeper(decode, raw, _HEADROOM)


def _deeper(decode: Callable[[bytes], T], raw: bytes, frames: int) -> T:
    return _deeper(decode, raw, frames - 1) if frames else decode(raw)


def too_deep(manifest: Any) -> tuple[str, ...]:
    """Return the paths of the values that were left out of an object; empty if the object was decoded completely."""
    mark = manifest.get(UNREADABLE) if isinstance(manifest, dict) else None
    return tuple(mark) if isinstance(mark, list) else ()


def _cut(raw: bytes, level: int) -> bytes:
    """Return the JSON text `raw` with a placeholder for each part of a Kubernetes object that is nested too deeply.

    A part is a value two levels below its object, such as `spec.template`, and is too deep with more than `LEVELS`
    levels. `level` is the level of the objects themselves: 1 if `raw` is one object, 3 for the items of a list.
    """
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
    """Yield, for each value that is nested too deeply, the indexes in `depths` of its first and its last bracket.

    Only values that open at nesting depth `level` are considered. `depths` has one number for each bracket of a JSON
    text: the nesting depth after that bracket.
    """
    deepest = level + LEVELS
    at = 0
    while (over := _index(depths, deepest, at)) is not None:
        first = over
        while depths[first] != level or (first and depths[first - 1] > level):
            first -= 1
        last = _index(depths, level - 1, over)
        if last is None:
            return  # the text ends within the value: not JSON, as the decoder will report
        yield first, last
        at = last + 1


def _index(depths: Sequence[int], desired: int, start: int) -> int | None:
    try:
        return depths.index(desired, start)
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
    """Replace the placeholders of values that were cut out of `manifest` by null.

    Their paths are listed in the field `UNREADABLE` of `manifest`, except the path `metadata.managedFields`.
    """
    paths = []
    for name, value in manifest.items():
        below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        cut = [key for key, item in below if item == _CUT]
        for key in cut:
            value[key] = None
        paths += [f"{name}.{key}" for key in cut if (name, key) != ("metadata", "managedFields")]
    if paths:
        manifest[UNREADABLE] = paths

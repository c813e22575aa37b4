"""Path elements: the names of fields, set items and map list items, and the printed form of paths.

`f:name` is a field or map key, `k:{…}` a list item by its keys, `v:…` a set item by its value, `i:0` a list index.
Numbers have one spelling only, so that equal items have equal names.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubelab.ssa.fieldset import FieldSet, is_member

_encoder: Final = msgspec.json.Encoder(order="sorted")
_decode: Final = msgspec.json.decode
_LONGEST_REMEMBERED: Final = 64
# SMD: fieldpath/element.go, PathElement.Compare: fields precede keys, keys precede values, values precede indexes.
_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


class PathError(ValueError):
    """The error of a malformed path element: a string in managedFields that names no field or list item."""


def field(name: str) -> str:
    """Return the path element of a struct field or map key."""
    return "f:" + name


def valued(value: Any) -> str:
    """Return the path element `v:…` of an item in a list that is a set. After the `v:` it has `value` as JSON."""
    return "v:" + _encoder.encode(_plain(value)).decode()


def keyed(keys: dict[str, Any]) -> str:
    """Return the path element `k:{…}` of an item in a map list.

    `keys` maps the names of its key fields to their values.
    """
    if all(type(value) is str and len(value) <= _LONGEST_REMEMBERED for value in keys.values()):
        return _named(*keys.items())
    return _keyed(keys)


@lru_cache(maxsize=1024)
def _named(*keys: tuple[str, str]) -> str:
    """Return the path element of a list item with these keys, whose values are short strings. Results are cached."""
    return _keyed(dict(keys))


def _keyed(keys: dict[str, Any]) -> str:
    return "k:" + _encoder.encode({name: _plain(value) for name, value in keys.items()}).decode()


def _plain(value: Any) -> Any:
    # SMD: value/value.go, EqualsUsing compares 1 and 1.0 as floats, and Go's encoder writes both as 1 (S-29).
    return int(value) if isinstance(value, float) and value.is_integer() else value


def parse_element(text: str) -> str:
    """Return the canonical form of `text`, one path element in managedFields that a client sent.

    Raises PathError if the text is not a path element.
    """
    kind, colon, rest = text.partition(":")
    if text == ".":
        return text
    try:
        match kind if colon else "":
            case "f":
                return text
            case "v":
                return valued(_decode(rest))
            case "k":
                keys = _decode(rest)
                if isinstance(keys, dict):
                    return keyed(keys)
            case "i":
                return f"i:{int(rest)}"
    except (msgspec.DecodeError, ValueError) as error:
        raise PathError(f"{text!r} is no path element: {error}") from error
    raise PathError(f"{text!r} is no path element")


def element_text(element: str) -> str:
    """Return a path element in the form of error messages: `.name`, `[key="value"]`, `[="value"]`, `[0]` (S-80)."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return "." + rest
    if kind == "k":
        keys = _decode(rest)
        return "[" + ",".join(f"{name}={_encoder.encode(keys[name]).decode()}" for name in sorted(keys)) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def path_text(path: tuple[str, ...]) -> str:
    """Return a path in the form of error messages.

    The names of fields are not quoted, so the text cannot be parsed back (S-80).
    """
    return "".join(map(element_text, path))


def iterate(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every path of the set `fields`, preceded by `prefix`.

    At each level, the elements in the set come first, and then the paths below them, both sorted.
    """
    # SMD: fieldpath/set.go, Set.iteratePrefix visits members before children, and so does the list of conflicts in an
    # error.
    elements = sorted((element for element in fields if element != "."), key=_rank)
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from iterate(fields[element], (*prefix, element))


def _rank(element: str) -> tuple[int, str]:
    return _ORDER.get(element[0], 9), element

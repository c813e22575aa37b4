"""The fields of the built-in kinds' Go types, by their messages, from the file `go_fields.txt`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import attrs

_FILE: Final = Path(__file__).with_suffix(".txt")


@attrs.frozen
class GoField:
    """A field of a Go type: its `number` in protobuf, its `name` in JSON, and the message or type of its values.

    A field that `is_list` is a list in JSON, and one that `is_map` a map from strings. JSON leaves out a field that is
    `left_out` if it is 0, false or empty. The members of a field with the name `-` are members of the message itself.
    """

    number: int
    name: str
    type: str
    is_list: bool
    is_map: bool
    left_out: bool


@cache
def fields(message: str) -> tuple[GoField, ...]:
    """Return the fields of a message. There are none if the file has no such message."""
    declared = _lines(": ").get(message, "")
    return tuple(_field(field) for field in declared.split(", ") if field)


def _field(declared: str) -> GoField:
    number, name, *given = declared.split()
    kind = given[0] if given else "text?"
    ends = (kind.endswith("*"), kind.endswith("{}"), kind.endswith("?"))
    return GoField(int(number), name, kind.rstrip("*{}?"), *ends)


@cache
def kinds() -> Mapping[tuple[str, str], str]:
    """Return the name of the message of each kind by apiVersion and kind."""
    declared = _lines(" = ").items()
    return {(version, name.rpartition(".")[2]): name for version, names in declared for name in names.split(", ")}


@cache
def members(message: str) -> Mapping[str, GoField]:
    """Return the fields of a message by their names in JSON, with those of the messages that it has without a name."""
    out: dict[str, GoField] = {}
    for field in fields(message):
        out |= members(field.type) if field.name == "-" else {field.name: field}
    return out


@cache
def _lines(sign: str) -> Mapping[str, str]:
    """Return what the lines of the file have after `sign`, by what they have before it."""
    lines = _text().splitlines()
    return dict(line.split(sign, 1) for line in lines if sign in line and not line.startswith("#"))


@cache
def _text() -> str:
    return _FILE.read_text(encoding="utf-8")

"""The fields of the built-in kinds' Go types, by their messages, from the file `http/protobuf_fields.txt`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_FIELDS: Final = Path(__file__).parent.with_name("http") / "protobuf_fields.txt"
"""The fields of each message: number, JSON name, and type, by default `text?`.

A type with `*` is that of a repeated field, which becomes a list in JSON; one with `{}` is that of the values of a map
from strings; one with `?` leaves the field out if it is 0, false or empty, as its JSON does. The members of a field
with the name `-` are members of the message itself in JSON.
"""


@cache
def messages() -> Mapping[str, str]:
    """Return the declared fields of each message by its name."""
    return dict(line.split(": ", 1) for line in _lines() if ": " in line)


@cache
def kinds() -> Mapping[tuple[str, str], str]:
    """Return the name of the message of each kind by apiVersion and kind."""
    declared = (line.split(" = ", 1) for line in _lines() if " = " in line)
    return {(version, name.rpartition(".")[2]): name for version, names in declared for name in names.split(", ")}


@cache
def members(message: str) -> Mapping[str, str]:
    """Return the fields of a message by their JSON names, each with the message or type of its values."""
    fields = (field.split() for field in messages().get(message, "").split(", ") if field)
    kinds_of = {name: given[0] if given else "text?" for _, name, *given in fields}
    inner = kinds_of.pop("-", "")
    return {**members(inner.rstrip("*{}?")), **kinds_of} if inner else kinds_of


@cache
def left_out(message: str) -> frozenset[str]:
    """Return the names of the fields that a message does not show if they are empty, 0 or false."""
    return frozenset(name for name, kind in members(message).items() if kind.endswith("?"))


def _lines() -> list[str]:
    return [line for line in _FIELDS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]

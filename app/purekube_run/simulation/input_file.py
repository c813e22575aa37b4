"""The reading of files that users pass to the command `simulate`, within limits.

Each problem is one line (SIM-3, RUN-11).
"""

from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from purekube.apimachinery.secret_material import visible

DEEPEST: Final = 100
"""The maximum nesting of JSON in a file, or in one line of a file with one value per line."""
_LONGEST: Final = 300
_BRACKETS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class BadFile(Exception):
    """The error for a file that cannot be used. The message is one line: the file, the place in it, and the problem."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{plain(str(path))}: {plain(problem)}")


@attrs.frozen
class Bounds:
    """The minimum and the maximum of a numeric field."""

    least: float
    most: float


def plain(text: str) -> str:
    """Return the text as one line of limited length, with control characters escaped, for messages."""
    line = visible(" ".join(text.split("\n"))).replace("\t", " ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a file. Raises BadFile if the file cannot be read or has more than `most` bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise BadFile(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > most:
        raise BadFile(path, f"is larger than {most:,} bytes")
    return content


def decoded(path: Path, raw: bytes, place: str = "") -> Any:
    """Return the decoded JSON `raw`, which was read from the file `path`.

    Raises BadFile for JSON that is invalid or nested too deeply. In the message, `place` (such as a line number)
    precedes the problem.
    """
    if _depth(raw) > DEEPEST:
        raise BadFile(path, f"{place}is nested deeper than {DEEPEST} levels")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile(path, f"{place}is no JSON: {error}") from error


def converted(path: Path, value: Any, into: type, place: str = "") -> Any:
    """Return `value`, decoded JSON of the file `path`, converted to the attrs class `into`.

    Raises BadFile if `value` does not fit the class. The message names the field, with `place` (such as a line number)
    before it.
    """
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at ")
        raise BadFile(path, f"{place}{where.strip('`') or '$'}: {problem}") from error


def check_known(path: Path, value: Any, into: type, place: str) -> None:
    """Raise BadFile if the JSON object `value` has a field that the attrs class `into` lacks.

    The message names the file `path` and the unknown field, and before the field the text `place`, such as
    `$.acts[3].`.
    """
    names = {field.name for field in attrs.fields(into)}
    if unknown := [name for name in value if name not in names]:
        raise BadFile(path, f"{place}{unknown[0]}: is unknown; there are {', '.join(sorted(names))}")


def check_bounds(path: Path, value: Any, bounds: dict[str, Bounds], place: str) -> None:
    """Raise BadFile if a field of the attrs object `value` is out of its bounds.

    `bounds` maps field names to bounds. The message names the file `path` and the field, and before the field the text
    `place`, such as `$.acts[3].`.
    """
    for name, bound in bounds.items():
        number = getattr(value, name, bound.least)
        if not bound.least <= number <= bound.most:
            text = f"{number:.12g}" if isinstance(number, float) else str(number)[:40]
            raise BadFile(path, f"{place}{name}: {text} is not between {bound.least:,g} and {bound.most:,g}")


def _depth(raw: bytes) -> int:
    """Return the nesting depth of brackets in JSON, not counting brackets in strings, to refuse too deep JSON.

    Return 0 if the text has too few brackets to exceed the limit.
    """
    depth = deepest = 0
    in_string = escaped = False
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return 0
    for byte in raw:
        if in_string:
            in_string, escaped = byte != 0x22 or escaped, byte == 0x5C and not escaped
        elif byte == 0x22:
            in_string = True
        elif step := _BRACKETS.get(byte):
            depth += step
            deepest = max(deepest, depth)
    return deepest

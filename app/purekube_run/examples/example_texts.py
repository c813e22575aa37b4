"""Random strings for a schema's string field: words, formats, and strings that match a pattern and fit the length."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from purekube.regex import compile_pattern
from purekube.regex import regex_syntax as syntax
from purekube.regex.regex_syntax import PatternError
from purekube_run.examples.data_source import DataSource, apart, one_of

WORDS: Final = ("a", "web", "shop", "main", "blue", "db-1", "x7", "alpha", "core", "z9")
_MOST_REPEATS: Final = 3
_TRIES: Final = 20
_ENDLESS: Final = 1 << 20
"""The length that means no limit: it is greater than the length of every generated string."""
_PLAIN: Final = ((97, 122), (48, 57), (65, 90))
_WIDE: Final = ("", " ", "ü", "0", "null", "-", "a" * 64, "A.b_c/d", "$(x)", "${x}", "\n", "☃")
"""Strings that people seldom write, and that programs often handle wrongly."""

_FORMATS: Final[Mapping[str, Callable[[DataSource], str]]] = {
    "datetime": lambda choose: f"2026-0{choose.integer(1, 9)}-1{choose.integer(0, 9)}T12:00:00Z",
    "microtime": lambda choose: f"2026-0{choose.integer(1, 9)}-1{choose.integer(0, 9)}T12:00:00.000000Z",
    "date": lambda choose: f"2026-0{choose.integer(1, 9)}-1{choose.integer(0, 9)}",
    "duration": lambda choose: f"{choose.integer(1, 90)}s",
    "uri": lambda choose: f"https://{one_of(choose, WORDS)}.example.com/{one_of(choose, WORDS)}",
    "hostname": lambda choose: f"{one_of(choose, WORDS)}.example.com",
    "email": lambda choose: f"{one_of(choose, WORDS)}@example.com",
    "ipv4": lambda choose: f"192.0.2.{choose.integer(1, 254)}",
    "ipv6": lambda choose: f"2001:db8::{choose.integer(1, 9999):x}",
    "cidr": lambda choose: f"192.0.2.{choose.integer(0, 15) * 16}/28",
    "mac": lambda choose: f"02:00:00:00:00:{choose.integer(0, 255):02x}",
    "uuid": lambda choose: f"{choose.integer(0, 2**32 - 1):08x}-0000-4000-8000-{choose.integer(0, 2**48 - 1):012x}",
    "uuid3": lambda choose: f"00000000-0000-3000-8000-{choose.integer(0, 2**48 - 1):012x}",
    "uuid4": lambda choose: f"00000000-0000-4000-8000-{choose.integer(0, 2**48 - 1):012x}",
    "uuid5": lambda choose: f"00000000-0000-5000-8000-{choose.integer(0, 2**48 - 1):012x}",
    "byte": lambda choose: one_of(choose, ("", "YQ==", "c2hvcA==")),
    "password": lambda choose: f"pw-{choose.integer(1, 99)}",
    "bsonobjectid": lambda choose: f"{choose.integer(0, 2**48 - 1):024x}",
    "hexcolor": lambda choose: f"#{choose.integer(0, 2**24 - 1):06x}",
    "rgbcolor": lambda choose: f"rgb({choose.integer(0, 255)},{choose.integer(0, 255)},0)",
    "creditcard": lambda choose: "4111111111111111",
    "isbn": lambda choose: "9783161484100",
    "isbn10": lambda choose: "3161484100",
    "isbn13": lambda choose: "9783161484100",
    "ssn": lambda choose: "078-05-1120",
    "k8slongname": lambda choose: f"{one_of(choose, WORDS)}.{one_of(choose, WORDS)}",
    "k8sshortname": lambda choose: one_of(choose, WORDS),
}


def text_of_format(choose: DataSource, name: str) -> str | None:
    """Return a random string in the OpenAPI format `name`, or None for an unknown format, which restricts nothing.

    `choose` makes the random choices.
    """
    draw = _FORMATS.get(name.replace("-", ""))
    return None if draw is None else draw(choose)


def plain_text(choose: DataSource, least: int, most: int | None, *, wide: bool = False) -> str:
    """Return a word of `least` to `most` characters; None means no maximum. `choose` makes the random choices.

    With `wide`, the result is sometimes an unusual string.
    """
    if wide and choose.chance(0.3):
        drawn = one_of(choose, _WIDE)
    elif most is not None and most <= 253 and choose.chance(0.1):
        drawn = "x" * most
    else:
        drawn = one_of(choose, WORDS)
    drawn += "x" * (least - len(drawn))
    return drawn[: len(drawn) if most is None else most]


def matching_text(choose: DataSource, patterns: Sequence[str], least: int, most: int | None) -> str:
    """Return a random string of `least` to `most` characters that matches all patterns, if one is found.

    `choose` makes the random choices. Several strings are generated from the first pattern. If none of them matches all
    patterns, the last of them is returned.
    """
    try:
        tree, fits = _parsed(patterns[0]), [compile_pattern(pattern) for pattern in patterns]
    except PatternError:
        return one_of(choose, WORDS)
    drawn, matching = "", _Matching(apart(choose))
    for _ in range(_TRIES):
        drawn = matching.of(tree, least, _ENDLESS if most is None else most)
        drawn += "x" * (least - len(drawn))
        if (most is None or len(drawn) <= most) and all(pattern.matches_in(drawn) for pattern in fits):
            break
    return drawn


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> syntax.Node:
    return syntax.parse(pattern)


def _length(node: syntax.Node) -> tuple[int, int]:
    """Return the minimum and maximum length of the strings that `node`, a part of a pattern, matches."""
    match node:
        case syntax.Characters():
            return 1, 1
        case syntax.Assertion():
            return 0, 0
        case syntax.Sequence(parts):
            lengths = [_length(part) for part in parts]
            return sum(low for low, _ in lengths), min(_ENDLESS, sum(high for _, high in lengths))
        case syntax.Alternatives(branches):
            lengths = [_length(branch) for branch in branches]
            return min(low for low, _ in lengths), max(high for _, high in lengths)
        case syntax.Repeat(body, least, most, _):
            low, high = _length(body)
            return low * least, min(_ENDLESS, high * (_ENDLESS if most is None else most))


class _Matching:
    """A generator of strings that match a pattern, given as its parse tree.

    The length stays within given limits as far as the pattern allows.
    """

    def __init__(self, choose: DataSource) -> None:
        self.choose = choose

    def of(self, node: syntax.Node, low: int, high: int) -> str:
        match node:
            case syntax.Characters(ranges):
                return self._character(ranges)
            case syntax.Sequence(parts):
                return self._sequence(parts, low, high)
            case syntax.Alternatives(branches):
                fitting = [branch for branch in branches if _meets(_length(branch), low, high)]
                return self.of(one_of(self.choose, fitting or branches), low, high)
            case syntax.Repeat(body, least, most, _):
                return self._sequence((body,) * self._times(body, (least, most), low, high), low, high)
            case syntax.Assertion():
                return ""

    def _sequence(self, parts: Sequence[syntax.Node], low: int, high: int) -> str:
        """Return a string of `low` to `high` characters that matches the parts of a pattern, one after the other.

        Each part is given a length that leaves enough characters for the parts after it.
        """
        lengths = [_length(part) for part in parts]
        rest_least, rest_most = sum(least for least, _ in lengths), sum(most for _, most in lengths)
        drawn: list[str] = []
        for part, (least, most) in zip(parts, lengths, strict=True):
            rest_least, rest_most = rest_least - least, rest_most - most
            text = self.of(part, max(least, low - rest_most), min(most, high - rest_least))
            low, high = low - len(text), high - len(text)
            drawn.append(text)
        return "".join(drawn)

    def _times(self, body: syntax.Node, times: tuple[int, int | None], low: int, high: int) -> int:
        least, most = times
        shortest, longest = _length(body)
        fewest = max(least, -(-low // longest) if longest else 0)
        widest = fewest + _MOST_REPEATS
        if most is not None:
            widest = min(widest, most)
        if shortest:
            widest = min(widest, high // shortest)
        return self.choose.integer(fewest, max(fewest, widest))

    def _character(self, ranges: syntax.Ranges) -> str:
        usable = _usable(ranges)
        low, high = usable[0] if not self.choose.chance(0.2) else one_of(self.choose, usable)
        return chr(self.choose.integer(low, high))


def _meets(length: tuple[int, int], low: int, high: int) -> bool:
    return length[0] <= high and low <= length[1]


@lru_cache(maxsize=256)
def _usable(ranges: syntax.Ranges) -> syntax.Ranges:
    """Return the letters and digits within the character ranges, since strings often become names.

    If there are none, return the ranges unchanged.
    """
    plain = ((max(low, a), min(high, z)) for low, high in ranges for a, z in _PLAIN)
    return tuple((low, high) for low, high in plain if low <= high) or ranges

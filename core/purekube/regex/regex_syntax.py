"""The parser of patterns (regular expressions). The grammar is RE2's, except for Unicode classes (`\\p{…}`)."""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

_LAST: Final = 0x10FFFF
_LONGEST: Final = 2_000
_DEEPEST: Final = 100
# RE2's own limit.
_MOST_REPEATS: Final = 1_000

Ranges: TypeAlias = tuple[tuple[int, int], ...]


class PatternError(ValueError):
    """The error raised when a string is not a valid or not a supported pattern. `position` counts from 0."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(f"{problem} at {position}")
        self.position = position


@attrs.frozen
class Characters:
    """A node of a pattern's syntax tree that matches one character in the ranges of code points `ranges`."""

    ranges: Ranges


@attrs.frozen
class Assertion:
    """A node of a pattern's syntax tree that matches a position and no character.

    Its `kind` is `start` or `end` of the text, `line_start`, `line_end`, a word `boundary`, or `inside` (no boundary).
    """

    kind: str


@attrs.frozen
class Sequence:
    """A node of a pattern's syntax tree whose parts match one after the other.

    Without parts it matches the empty string.
    """

    parts: tuple["Node", ...]


@attrs.frozen
class Alternatives:
    """A node of a pattern's syntax tree that matches one of its branches: the first with which the whole pattern
    matches.
    """

    branches: tuple["Node", ...]


@attrs.frozen
class Repeat:
    """A node of a pattern's syntax tree that matches its `body` at least `least` times and at most `most` times (None:
    any number).

    It prefers as many as possible if `greedy`, otherwise as few as possible.
    """

    body: "Node"
    least: int
    most: int | None
    greedy: bool


Node: TypeAlias = Characters | Assertion | Sequence | Alternatives | Repeat

_POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CLASSES: Final[dict[str, Ranges]] = {
    "d": _POSIX["digit"],
    "w": _POSIX["word"],
    # Unlike in Python and Perl, a vertical tab is none (RE2: doc/syntax.txt).
    "s": ((9, 10), (12, 13), (32, 32)),
}
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_NAMES_OF_FLAGS: Final = {"i": "ignore_case", "m": "multiline", "s": "dot_all", "U": "swap_greed"}
_FLAGS_ALONE: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?\)")
_FLAGS_OF_GROUP: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?:")
_NAME_OF_GROUP: Final = re.compile(r"\?P?<[A-Za-z0-9_]+>")
_NAME_OF_CLASS: Final = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)
# Without leading zeros: Go reads `{01}` as characters (regexp/syntax: parse.go, parseInt).
_BRACES: Final = re.compile(r"\{(0|[1-9][0-9]*)(,)?((?<=,)(?:0|[1-9][0-9]*))?\}")
# A dash before the bracket at the end is a character (parse.go, parseClass).
_DASH: Final = re.compile(r"-(?!\])")
_HEXADECIMAL: Final = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})")
# One digit from 1 to 7 alone would be a reference to a group, which RE2 has not (parse.go, parseEscape).
_OCTAL: Final = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
# RE2 has no `\Z`; Python would also take it.
_PLACES: Final = {"A": "start", "z": "end", "b": "boundary", "B": "inside"}


def parse(text: str) -> Node:
    """Return the syntax tree of a regular expression. Raises PatternError if the text is invalid or too long."""
    if len(text) > _LONGEST:
        raise PatternError(f"a pattern has at most {_LONGEST} characters", _LONGEST)
    parser = _Parser(text)
    node = parser.alternatives(_Flags(), 0)
    if parser.at < len(text):
        raise PatternError("unexpected )", parser.at)
    return node


@attrs.frozen
class _Flags:
    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    swap_greed: bool = False


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def alternatives(self, flags: _Flags, depth: int) -> Node:
        if depth > _DEEPEST:
            raise PatternError(f"groups are nested deeper than {_DEEPEST}", self.at)
        branches: list[Node] = []
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self._take("|"):
                branches.append(Sequence(tuple(parts)))
                parts = []
            elif alone := self._read(_FLAGS_ALONE):
                flags = _changed(flags, alone)
            else:
                parts += self._repeated(flags, depth)
        branches.append(Sequence(tuple(parts)))
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def _take(self, sign: str) -> bool:
        taken = self.text.startswith(sign, self.at)
        if taken:
            self.at += len(sign)
        return taken

    def _read(self, form: re.Pattern[str]) -> re.Match[str] | None:
        """Match `form` at the current position. If it matches, move past the match and return it."""
        match = form.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def _next(self, what: str) -> str:
        if self.at >= len(self.text):
            raise PatternError(f"{what} is not complete", self.at)
        self.at += 1
        return self.text[self.at - 1]

    def _group(self, flags: _Flags, depth: int) -> Node:
        begin = self.at
        if changed := self._read(_FLAGS_OF_GROUP):
            flags = _changed(flags, changed)
        elif not self._read(_NAME_OF_GROUP) and self._take("?"):
            raise PatternError("unknown kind of group", begin)
        node = self.alternatives(flags, depth + 1)
        if not self._take(")"):
            raise PatternError("missing )", self.at)
        return node

    # --- one item and how often ---------------------------------------------------------------------------------------

    def _repeated(self, flags: _Flags, depth: int) -> list[Node]:
        begin = self.at
        if self._bounds() is not None:
            raise PatternError("nothing to repeat", begin)
        atoms = self._atoms(flags, depth)
        if atoms and (bounds := self._bounds()) is not None:
            greedy = not self._take("?")
            # Operators do not stack: Go refuses `a**` (parse.go, repeat).
            atoms[-1] = Repeat(atoms[-1], *bounds, greedy is not flags.swap_greed)
            if self._bounds() is not None:
                raise PatternError("nothing to repeat", begin)
        return atoms

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        return self._braces()

    def _braces(self) -> tuple[int, int | None] | None:
        begin, match = self.at, self._read(_BRACES)
        if match is None:
            return None  # as in RE2, braces that are no bounds are characters
        least, comma, most = match.groups()
        upper = int(most) if most else None if comma else int(least)
        if int(least) > _MOST_REPEATS or (upper is not None and not int(least) <= upper <= _MOST_REPEATS):
            raise PatternError(f"bad repetition {match[0]!r}", begin)
        return int(least), upper

    def _atoms(self, flags: _Flags, depth: int) -> list[Node]:
        match self._next("a pattern"):
            case "(":
                return [self._group(flags, depth)]
            case "[":
                return [Characters(self._class(flags))]
            case ".":
                return [Characters(((0, _LAST),) if flags.dot_all else ((0, 9), (11, _LAST)))]
            case "^":
                return [Assertion("line_start" if flags.multiline else "start")]
            case "$":
                return [Assertion("line_end" if flags.multiline else "end")]
            case "\\":
                return self._escaped(flags)
            case sign:
                return [_single(sign, flags)]

    def _escaped(self, flags: _Flags) -> list[Node]:
        sign = self._next("an escape")
        if sign in _PLACES:
            return [Assertion(_PLACES[sign])]
        if sign == "Q":
            quoted, end, _ = self.text[self.at :].partition("\\E")
            self.at += len(quoted) + len(end)
            return [_single(character, flags) for character in quoted]
        return [Characters(_cased(self._escape(sign), flags))]

    def _escape(self, sign: str) -> Ranges:
        r"""Return the characters that an escape such as `\d` or `\x41` matches, inside or outside of brackets."""
        begin = self.at - 2
        if sign.lower() in _CLASSES:
            return _CLASSES[sign] if sign.islower() else _negated(_CLASSES[sign.lower()])
        if sign in _CONTROLS:
            return ((_CONTROLS[sign], _CONTROLS[sign]),)
        if sign == "x":
            digits = self._read(_HEXADECIMAL)
            if digits is None or int(digits[1] or digits[2], 16) > _LAST:
                raise PatternError("an escape names no character", begin)
            return _of_point(int(digits[1] or digits[2], 16))
        if octal := _OCTAL.match(self.text, self.at - 1):
            self.at = octal.end()
            return _of_point(int(octal[0], 8))
        if sign.isascii() and not sign.isalnum():
            return _of_point(ord(sign))
        raise PatternError(f"\\{sign} is not supported", begin)

    # --- brackets -----------------------------------------------------------------------------------------------------

    def _class(self, flags: _Flags) -> Ranges:
        # A `]` right after `[` or `[^` is a character (parse.go, parseClass).
        negated = self._take("^")
        ranges = self._range()
        while not self._take("]"):
            ranges += self._range()
        cased = _cased(ranges, flags)
        return _negated(cased) if negated else cased

    def _range(self) -> Ranges:
        """Read one member of brackets, or two with `-` between them."""
        begin, low = self.at, self._member()
        start = _point_of(low)
        if start is None or not self._read(_DASH):
            return low
        end = _point_of(self._member())
        if end is None or end < start:
            raise PatternError("bad range of characters", begin)
        return ((start, end),)

    def _member(self) -> Ranges:
        begin = self.at
        if named := self._read(_NAME_OF_CLASS):
            ranges = _POSIX.get(named[2])
            if ranges is None:
                raise PatternError(f"unknown class {named[0]}", begin)
            return _negated(ranges) if named[1] else ranges
        sign = self._next("a class")
        return self._escape(self._next("an escape")) if sign == "\\" else _of_point(ord(sign))


def _changed(flags: _Flags, match: re.Match[str]) -> _Flags:
    on, off = dict.fromkeys(match[1], True), dict.fromkeys(match[2] or "", False)
    return attrs.evolve(flags, **{_NAMES_OF_FLAGS[letter]: value for letter, value in (on | off).items()})


def _of_point(point: int) -> Ranges:
    return ((point, point),)


def _point_of(ranges: Ranges) -> int | None:
    match ranges:
        case ((low, high),) if low == high:
            return low
        case _:
            return None


def _single(character: str, flags: _Flags) -> Characters:
    return Characters(_cased(_of_point(ord(character)), flags))


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def _negated(ranges: Ranges) -> Ranges:
    """Return the ranges of all other characters. `ranges` must be sorted and must not overlap."""
    out, begin = [], 0
    for low, high in ranges:
        if begin < low:
            out.append((begin, low - 1))
        begin = high + 1
    if begin <= _LAST:
        out.append((begin, _LAST))
    return tuple(out)


def _cased(ranges: Ranges, flags: _Flags) -> Ranges:
    """Return the ranges in order and merged; with the flag `(?i)`, letters match in both cases.

    Letters other than ASCII letters match in both cases only if they are given singly, not in a range.
    """
    more = list(ranges)
    for low, high in ranges if flags.ignore_case else ():
        for first, other in ((65, 97), (97, 65)):
            begin, end = max(low, first), min(high, first + 25)
            if begin <= end:
                more.append((begin - first + other, end - first + other))
        if low == high:
            more += [(ord(folded), ord(folded)) for folded in (chr(low).lower(), chr(low).upper()) if len(folded) == 1]
    return _merged(more)

"""The parser of patterns. The grammar is RE2's, except for Unicode classes (`\\p{…}`)."""

from typing import Final, TypeAlias

import attrs

_LAST: Final = 0x10FFFF
_LONGEST: Final = 2_000
_DEEPEST: Final = 100
# RE2's own limit.
_MOST_REPEATS: Final = 1_000

Ranges: TypeAlias = tuple[tuple[int, int], ...]


class PatternError(ValueError):
    """The error that a text is not a valid or not a supported pattern. `position` counts from 0."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(f"{problem} at {position}")
        self.position = position


@attrs.frozen
class Characters:
    """A node that matches one character in these ranges."""

    ranges: Ranges


@attrs.frozen
class Assertion:
    """A node that matches a position: `start`, `end`, `line_start`, `line_end`, a word `boundary`, or `inside` (no
    boundary).
    """

    kind: str


@attrs.frozen
class Sequence:
    """A node whose parts match one after the other. Without parts it matches the empty text."""

    parts: tuple["Node", ...]


@attrs.frozen
class Alternatives:
    """A node that matches one of its branches: the first branch with which the whole pattern matches."""

    branches: tuple["Node", ...]


@attrs.frozen
class Repeat:
    """A node that matches its `body` at least `least` times and at most `most` times (None: any number).

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
    "s": ((9, 10), (12, 13), (32, 32)),
}
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
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
                continue
            changed = self._flags_alone(flags)
            if changed is not None:
                flags = changed
                continue
            parts += self._repeated(flags, depth)
        branches.append(Sequence(tuple(parts)))
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def _take(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def _next(self, what: str) -> str:
        if self.at >= len(self.text):
            raise PatternError(f"{what} is not complete", self.at)
        self.at += 1
        return self.text[self.at - 1]

    # --- groups and flags ---------------------------------------------------------------------------------------------

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        """Read flags such as `(?i)`, which apply up to the end of the enclosing group; return None if there are no
        flags.
        """
        end = self.text.find(")", self.at)
        if not self.text.startswith("(?", self.at) or end < 0:
            return None
        letters = self.text[self.at + 2 : end]
        if not letters or letters.strip("imsU-"):
            return None
        self.at = end + 1
        return self._changed(flags, letters)

    def _changed(self, flags: _Flags, letters: str) -> _Flags:
        names = {"i": "ignore_case", "m": "multiline", "s": "dot_all", "U": "swap_greed"}
        on = True
        for letter in letters:
            if letter == "-":
                on = False
            elif letter in names:
                flags = attrs.evolve(flags, **{names[letter]: on})
            else:
                raise PatternError(f"unknown flag {letter!r}", self.at)
        return flags

    def _group(self, flags: _Flags, depth: int) -> Node:
        if self._take("?"):
            if self._take("P<") or (not self.text.startswith(("<=", "<!"), self.at) and self._take("<")):
                self._until(">", "the name of a group")
            elif not self._take(":"):
                flags = self._changed(flags, self._until(":", "a group"))
        node = self.alternatives(flags, depth + 1)
        if not self._take(")"):
            raise PatternError("missing )", self.at)
        return node

    def _until(self, sign: str, what: str) -> str:
        end = self.text.find(sign, self.at)
        if end < 0:
            raise PatternError(f"{what} is not complete", self.at)
        content, self.at = self.text[self.at : end], end + len(sign)
        return content

    # --- one item and how often ---------------------------------------------------------------------------------------

    def _repeated(self, flags: _Flags, depth: int) -> list[Node]:
        begin = self.at
        atoms = self._atoms(flags, depth)
        times = 0
        while atoms and (bounds := self._bounds()) is not None:
            times += 1
            if times > 1 or isinstance(atoms[-1], Assertion):
                raise PatternError("nothing to repeat", begin)
            greedy = not self._take("?")
            atoms[-1] = Repeat(atoms[-1], *bounds, greedy is not flags.swap_greed)
        return atoms

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        return self._braces()

    def _braces(self) -> tuple[int, int | None] | None:
        end = self.text.find("}", self.at)
        if not self.text.startswith("{", self.at) or end < 0:
            return None
        least, comma, most = self.text[self.at + 1 : end].partition(",")
        if not least.isascii() or not least.isdigit() or (most and not (most.isascii() and most.isdigit())):
            return None  # as in RE2, braces that are no bounds are characters
        numbers = int(least[:5]), int(most[:5]) if most else None if comma else int(least[:5])
        if max(numbers[0], numbers[1] or 0) > _MOST_REPEATS or (numbers[1] is not None and numbers[1] < numbers[0]):
            raise PatternError(f"bad repetition {self.text[self.at : end + 1]!r}", self.at)
        self.at = end + 1
        return numbers

    def _atoms(self, flags: _Flags, depth: int) -> list[Node]:
        begin, sign = self.at, self._next("a pattern")
        match sign:
            case "(":
                return [self._group(flags, depth)]
            case "[":
                return [_cased(self._class(), flags)]
            case ".":
                return [Characters(((0, _LAST),) if flags.dot_all else ((0, 9), (11, _LAST)))]
            case "^":
                return [Assertion("line_start" if flags.multiline else "start")]
            case "$":
                return [Assertion("line_end" if flags.multiline else "end")]
            case "*" | "+" | "?":
                raise PatternError("nothing to repeat", begin)
            case "\\":
                return self._escaped(flags)
            case _:
                return [_cased(((ord(sign), ord(sign)),), flags)]

    def _escaped(self, flags: _Flags) -> list[Node]:
        begin, sign = self.at, self._next("an escape")
        if sign in _PLACES:
            return [Assertion(_PLACES[sign])]
        if sign == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at : end if end >= 0 else len(self.text)]
            self.at = len(self.text) if end < 0 else end + 2
            return [_cased(((ord(character), ord(character)),), flags) for character in quoted]
        return [_cased(self._escape(sign, begin), flags)]

    def _escape(self, sign: str, begin: int) -> Ranges:
        r"""Return the characters that an escape such as `\d` or `\x41` matches, inside or outside of brackets."""
        if sign.lower() in _CLASSES:
            return _CLASSES[sign.lower()] if sign.islower() else _negated(_CLASSES[sign.lower()])
        if sign in _CONTROLS:
            return ((_CONTROLS[sign], _CONTROLS[sign]),)
        if sign == "x":
            digits = self._until("}", "an escape") if self._take("{") else self._next("\\x") + self._next("\\x")
            return self._numbered(digits, 16, begin)
        if sign in "01234567" and (sign == "0" or self.text[self.at : self.at + 1] in tuple("01234567")):
            digits = sign
            while len(digits) < 3 and self.at < len(self.text) and self.text[self.at] in "01234567":
                digits += self._next("an escape")
            return self._numbered(digits, 8, begin)
        if sign.isascii() and not sign.isalnum():
            return ((ord(sign), ord(sign)),)
        raise PatternError(f"\\{sign} is not supported", begin - 1)

    def _numbered(self, digits: str, base: int, begin: int) -> Ranges:
        try:
            number = int(digits, base) if digits.isalnum() else -1
        except ValueError:
            number = -1
        if not 0 <= number <= _LAST:
            raise PatternError("an escape names no character", begin)
        return ((number, number),)

    # --- brackets -----------------------------------------------------------------------------------------------------

    def _class(self) -> Ranges:
        begin = self.at
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self._take("]"):
            first = False
            low = self._member()
            if len(low) == 1 and low[0][0] == low[0][1] and self._is_range():
                self.at += 1
                high = self._member()
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise PatternError("bad range of characters", begin)
                low = ((low[0][0], high[0][0]),)
            ranges += low
        return _negated(tuple(ranges)) if negated else _merged(ranges)

    def _is_range(self) -> bool:
        return self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at)

    def _member(self) -> Ranges:
        begin = self.at
        if self._take("[:"):
            name = self._until(":]", "a class")
            ranges = _POSIX.get(name.removeprefix("^"))
            if ranges is None:
                raise PatternError(f"unknown class [:{name}:]", begin)
            return _negated(ranges) if name.startswith("^") else ranges
        sign = self._next("a class")
        return self._escape(self._next("an escape"), begin + 1) if sign == "\\" else ((ord(sign), ord(sign)),)


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def _negated(ranges: Ranges) -> Ranges:
    out, begin = [], 0
    for low, high in _merged(list(ranges)):
        if begin < low:
            out.append((begin, low - 1))
        begin = high + 1
    if begin <= _LAST:
        out.append((begin, _LAST))
    return tuple(out)


def _cased(ranges: Ranges, flags: _Flags) -> Characters:
    """Return a node that matches `ranges`; with the flag `(?i)`, letters match in both cases.

    Letters other than ASCII letters match in both cases only if they are given singly, not in a range.
    """
    if not flags.ignore_case:
        return Characters(ranges)
    more = list(ranges)
    for low, high in ranges:
        for first, other in ((65, 97), (97, 65)):
            begin, end = max(low, first), min(high, first + 25)
            if begin <= end:
                more.append((begin - first + other, end - first + other))
        if low == high and low > 127:
            more += [(ord(folded), ord(folded)) for folded in (chr(low).lower(), chr(low).upper()) if len(folded) == 1]
    return Characters(_merged(more))

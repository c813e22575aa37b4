"""Regular expressions, matched step by step: what a text costs, without a clock (RUN-11).

Python's own matcher does not count. This one walks the same parse tree by the same rules (backtracking, leftmost,
greedy or lazy as written) and counts the characters it compares and the ways it tries. It finds what `re` finds
(`test_linear_patterns.py` compares them), only slowly.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from re import _constants as names  # type: ignore[attr-defined]  # isort: skip
from re import _parser as parser  # type: ignore[attr-defined]  # isort: skip

Groups = dict[int, tuple[int, int]]
Then = Callable[[int, Groups], int | None]
"""What is to match after this: from a position, with the groups so far, to the end of the match."""

_ONE: Final = (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN)
_REPEATS: Final = (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT)


Part = Callable[[int, Groups, Then], int | None]
"""A piece of a pattern, ready to be tried at a position."""


class Matcher:
    """One pattern. `steps` grows with every text that is searched; OverflowError ends what takes too many."""

    def __init__(self, pattern: re.Pattern[str], most: int = 5_000_000) -> None:
        self.steps = 0
        self._most = most
        self._text = ""
        self._whole = self._all(list(parser.parse(pattern.pattern, pattern.flags)), pattern.flags)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where `pattern.finditer(text)` finds something."""
        self._text = text
        with _deep():
            return self._found(text)

    def _found(self, text: str) -> list[tuple[int, int]]:
        found, at = [], 0
        while at <= len(text):
            end = self._whole(at, {}, _stop)
            if end is None:
                at += 1
            else:
                found.append((at, end))
                at = max(end, at + 1)
        return found

    def cost(self, text: str) -> int:
        """Steps of one search for everything in `text`."""
        before = self.steps
        self.spans(text)
        return self.steps - before

    def _count(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise OverflowError("too many steps")

    def _all(self, items: list[Any], flags: int) -> Part:
        """These one after the other."""
        part: Part = _nothing
        for code, given in reversed(items):
            part = self._before(self._part(code, given, flags), part)
        return part

    def _before(self, first: Part, second: Part) -> Part:
        if second is _nothing:
            return first
        return lambda at, groups, then: first(at, groups, lambda here, known: second(here, known, then))

    def _part(self, code: Any, given: Any, flags: int) -> Part:
        if code in _ONE:
            return self._one(self._test(code, given, flags))
        if code in _REPEATS:
            return self._repeat(code, given, flags)
        match code:
            case names.SUBPATTERN:
                number, added, removed, inner = given
                return self._group(number, self._all(list(inner), (flags | added) & ~removed))
            case names.BRANCH:
                return self._branch([self._all(list(way), flags) for way in given[1]])
            case names.ASSERT | names.ASSERT_NOT:
                return self._look(given[0], given[1], code is names.ASSERT, flags)
            case names.AT:
                return self._place(given)
            case names.GROUPREF:
                return self._reference(given)
            case _:
                raise NotImplementedError(str(code))

    def _one(self, test: Callable[[str], bool]) -> Part:
        def one(at: int, groups: Groups, then: Then) -> int | None:
            self._count()
            return then(at + 1, groups) if at < len(self._text) and test(self._text[at]) else None

        return one

    def _group(self, number: int | None, inner: Part) -> Part:
        if number is None:
            return inner
        own: int = number

        def group(at: int, groups: Groups, then: Then) -> int | None:
            return inner(at, groups, lambda here, known: then(here, {**known, own: (at, here)}))

        return group

    def _branch(self, ways: list[Part]) -> Part:
        def branch(at: int, groups: Groups, then: Then) -> int | None:
            self._count()
            for way in ways:
                if (end := way(at, groups, then)) is not None:
                    return end
            return None

        return branch

    def _look(self, direction: int, inner: Any, wanted: bool, flags: int) -> Part:
        part, back = self._all(list(inner), flags), 0 if direction > 0 else inner.getwidth()[0]

        def look(at: int, groups: Groups, then: Then) -> int | None:
            self._count()
            there = at >= back and part(at - back, groups, _stop) is not None
            return then(at, groups) if there == wanted else None

        return look

    def _place(self, place: Any) -> Part:
        def here(at: int, groups: Groups, then: Then) -> int | None:
            self._count()
            return then(at, groups) if _is_at(place, self._text, at) else None

        return here

    def _reference(self, number: int) -> Part:
        def reference(at: int, groups: Groups, then: Then) -> int | None:
            if number not in groups:
                return None
            for offset, desired in enumerate(self._text[slice(*groups[number])]):
                self._count()
                if self._text[at + offset : at + offset + 1].lower() != desired.lower():
                    return None
            return then(at + groups[number][1] - groups[number][0], groups)

        return reference

    def _repeat(self, code: Any, given: Any, flags: int) -> Part:
        least, most, inner = given
        items, lazy = list(inner), code is names.MIN_REPEAT
        if code is names.POSSESSIVE_REPEAT:
            return self._atomic(self._repeat(names.MAX_REPEAT, given, flags))
        if len(items) == 1 and items[0][0] in _ONE:
            (kind, what), *_ = items
            test = self._test(kind, what, flags)
            return self._few(test, least, most) if lazy else self._many(test, least, most)
        return self._rounds(self._all(items, flags), least, most, lazy)

    def _atomic(self, inner: Part) -> Part:
        """Of what matches, the first way only, whatever comes after."""

        def atomic(at: int, groups: Groups, then: Then) -> int | None:
            end = inner(at, groups, _stop)
            return None if end is None else then(end, groups)

        return atomic

    def _many(self, test: Callable[[str], bool], least: int, most: Any) -> Part:
        def many(at: int, groups: Groups, then: Then) -> int | None:
            here, end_of_text = at, len(self._text)
            while here < end_of_text and (most is names.MAXREPEAT or here - at < most):
                self._count()
                if not test(self._text[here]):
                    break
                here += 1
            for end in range(here, at + least - 1, -1):
                self._count()
                if (found := then(end, groups)) is not None:
                    return found
            return None

        return many

    def _few(self, test: Callable[[str], bool], least: int, most: Any) -> Part:
        def few(at: int, groups: Groups, then: Then) -> int | None:
            here = at
            while True:
                self._count()
                if here - at >= least and (end := then(here, groups)) is not None:
                    return end
                if here - at == most or here == len(self._text) or not test(self._text[here]):
                    return None
                here += 1

        return few

    def _rounds(self, inner: Part, least: int, most: Any, lazy: bool) -> Part:
        def rounds(done: int, at: int, groups: Groups, then: Then) -> int | None:
            def next_round(end: int, found: Groups) -> int | None:
                return None if end == at and done >= least else rounds(done + 1, end, found, then)

            self._count()
            may_go_on = most is names.MAXREPEAT or done < most
            if done < least:
                return inner(at, groups, next_round)
            if lazy and (end := then(at, groups)) is not None:
                return end
            if may_go_on and (end := inner(at, groups, next_round)) is not None:
                return end
            return None if lazy else then(at, groups)

        return lambda at, groups, then: rounds(0, at, groups, then)

    def _test(self, code: Any, given: Any, flags: int) -> Callable[[str], bool]:
        return cache(lambda char: _fits(code, given, char, flags))


@contextmanager
def _deep() -> Iterator[None]:
    """A repeated group is some calls for each of its rounds."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _stop(here: int, _: Groups) -> int:
    return here


def _nothing(at: int, groups: Groups, then: Then) -> int | None:
    return then(at, groups)


def _fits(code: Any, given: Any, char: str, flags: int) -> bool:
    if code is names.ANY:
        return char != "\n" or bool(flags & re.DOTALL)
    forms = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
    if code is names.LITERAL:
        return any(_is_in((code, given), form, flags) for form in forms)
    if code is names.NOT_LITERAL:
        return not any(_is_in((names.LITERAL, given), form, flags) for form in forms)
    negated = given[0][0] is names.NEGATE
    return bool(negated != any(_is_in(item, form, flags) for item in given[negated:] for form in forms))


def _is_in(item: Any, char: str, flags: int) -> bool:
    code, given = item
    if code is names.LITERAL:
        return ord(char[0]) == given and len(char) == 1
    if code is names.RANGE:
        return len(char) == 1 and given[0] <= ord(char) <= given[1]
    letter = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[str(given).rsplit("_", 1)[-1]]
    found = re.fullmatch(letter, char, re.ASCII if flags & re.ASCII else 0) is not None
    return found != ("_NOT_" in str(given))


def _is_at(place: Any, text: str, at: int) -> bool:
    match str(place):
        case "AT_BEGINNING" | "AT_BEGINNING_STRING":
            return at == 0
        case "AT_END":
            return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        case "AT_END_STRING":
            return at == len(text)
        case "AT_BOUNDARY":
            return _is_word(text, at - 1) != _is_word(text, at)
        case _:
            raise NotImplementedError(str(place))


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and re.fullmatch(r"\w", text[at]) is not None


def pieces_of(pattern: re.Pattern[str]) -> list[str]:
    """What texts that this pattern nearly matches are made of: its literal words, and a letter of each of its sets."""
    found = set(_pieces(parser.parse(pattern.pattern, pattern.flags)))
    return sorted(found | {" ", "a", "-", "\n"})


def _pieces(items: Any) -> Iterator[str]:
    word = ""
    for code, given in [*items, (None, None)]:
        if code is names.LITERAL:
            word += chr(given)
            continue
        if word:
            yield word
            word = ""
        match code:
            case names.IN:
                yield from (chr(one) for kind, one in given if kind is names.LITERAL)
                yield from (chr(one[0]) for kind, one in given if kind is names.RANGE)
            case names.BRANCH:
                for way in given[1]:
                    yield from _pieces(way)
            case names.SUBPATTERN:
                yield from _pieces(given[3])
            case names.ASSERT | names.ASSERT_NOT:
                yield from _pieces(given[1])
            case names.MAX_REPEAT | names.MIN_REPEAT | names.POSSESSIVE_REPEAT:
                yield from _pieces(given[2])
            case _:
                pass


_SIZE: Final = 300
"""Letters of the smaller text: more than the longest bounded repetition of a rule, so that its bound does not show."""


def growth(pattern: re.Pattern[str], before: str, pumped: str, after: str) -> float:
    """How many times dearer a text gets that is made twice as long."""
    matcher = Matcher(pattern)
    times = max(1, _SIZE // len(pumped))
    small, large = (matcher.cost(before + pumped * count + after) for count in (times, 2 * times))
    return large / small


def patterns_in(modules: Iterable[ModuleType]) -> Iterator[re.Pattern[str]]:
    """The compiled patterns among the names of these modules, also those in tuples and lists.

    One that its module only asks whether a text begins with it, or is it, costs nothing anywhere else in the text.
    """
    for module in modules:
        for name, value in vars(module).items():
            if patterns := list(_patterns_of(value)):
                source = Path(module.__file__ or "").read_text(encoding="utf-8")
                asked = set(re.findall(rf"\b{name}\.(\w+)\(", source))
                yield from map(_at_start, patterns) if asked and asked <= {"match", "fullmatch"} else patterns


def _patterns_of(value: Any) -> Iterator[re.Pattern[str]]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, re.Pattern):
            yield one if isinstance(one.pattern, str) else re.compile(one.pattern.decode("latin-1"), one.flags)
        elif isinstance(one, tuple | list):
            stack.extend(one)


def _at_start(pattern: re.Pattern[str]) -> re.Pattern[str]:
    end = "\n)" if pattern.flags & re.VERBOSE else ")"
    return re.compile(rf"\A(?:{pattern.pattern}{end}", pattern.flags)

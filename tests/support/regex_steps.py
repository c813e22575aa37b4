"""How many steps a backtracking matcher takes for a pattern and a text: the same number on every machine (RUN-11).

Python's own matcher cannot be asked. This one walks the same parse tree in the same order, so that what is quadratic
there is quadratic here; it only counts.
"""

import re
from collections.abc import Callable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Next = Callable[[int], bool]


class TooManySteps(AssertionError):
    """The limit was reached."""


class _Matcher:
    def __init__(self, pattern: re.Pattern[str], text: str, limit: int) -> None:
        self.tree = parser.parse(pattern.pattern, pattern.flags)
        flags = pattern.flags
        self.ascii = flags & re.A
        self.fold, self.dotall, self.multiline = flags & re.I, flags & re.S, flags & re.M
        self.text = "".join(map(self._fold, text))
        self.limit, self.steps = limit, 0
        self.groups: dict[int, tuple[int, int]] = {}

    def search(self, start: int) -> tuple[int, int] | None:
        for at in range(start, len(self.text) + 1):
            found: list[int] = []
            if self.match(list(self.tree), 0, at, lambda end, found=found: found.append(end) or True):  # type: ignore[misc]
                return at, found[0]
        return None

    def match(self, items: list[Any], i: int, at: int, then: Next) -> bool:
        self.steps += 1
        if self.steps > self.limit:
            raise TooManySteps(f"more than {self.limit} steps")
        if i == len(items):
            return then(at)
        op, args = items[i]
        rest: Next = lambda end: self.match(items, i + 1, end, then)  # noqa: E731
        return self._one(op, args, at, rest)

    def _one(self, op: Any, args: Any, at: int, then: Next) -> bool:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, items = args
            return self._repeat(op, least, most, items, at, then)
        if op is sre.SUBPATTERN:
            return self._group(args[0], list(args[3]), at, then)
        if op is sre.BRANCH:
            return any(self.match(list(branch), 0, at, then) for branch in args[1])
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self._look(args[0], list(args[1]), at) is (op is sre.ASSERT) and then(at)
        if op is sre.ATOMIC_GROUP:
            end = self._atomic(list(args), at)
            return end is not None and then(end)
        if op is sre.AT:
            return self._is_at(args, at) and then(at)
        if op is sre.GROUPREF:
            start, end = self.groups.get(args, (0, -1))
            said = self.text[start:end] if end >= 0 else None
            return said is not None and self.text.startswith(said, at) and then(at + len(said))
        return at < len(self.text) and self._is(op, args, self.text[at]) and then(at + 1)

    def _group(self, number: int | None, items: list[Any], at: int, then: Next) -> bool:
        def end(found: int) -> bool:
            before = self.groups.get(number) if number is not None else None
            if number is not None:
                self.groups[number] = (at, found)
            if then(found):
                return True
            if number is not None and before is not None:
                self.groups[number] = before
            return False

        return self.match(items, 0, at, end)

    def _atomic(self, items: list[Any], at: int) -> int | None:
        found: list[int] = []
        self.match(items, 0, at, lambda end: found.append(end) or True)  # type: ignore[func-returns-value]
        return found[0] if found else None

    def _repeat(self, op: Any, least: int, most: Any, items: Any, at: int, then: Next) -> bool:
        body = list(items)
        most = len(self.text) + 1 if most is sre.MAXREPEAT else most
        if len(body) == 1 and self._is_single(body[0]):
            return self._run(op, least, most, body[0], at, then)
        if op is sre.POSSESSIVE_REPEAT:
            count, end = 0, at
            while count < most and (next_ := self._atomic(body, end)) is not None and next_ != end:
                count, end = count + 1, next_
            return count >= least and then(end)
        return self._again(op, least, most, body, 0, at, then)

    def _again(self, op: Any, least: int, most: int, body: list[Any], count: int, at: int, then: Next) -> bool:
        def more() -> bool:
            def end(found: int) -> bool:
                return (found != at or count < least) and self._again(op, least, most, body, count + 1, found, then)

            return count < most and self.match(body, 0, at, end)

        if count < least:
            return more()
        return (then(at) or more()) if op is sre.MIN_REPEAT else (more() or then(at))

    def _run(self, op: Any, least: int, most: int, item: Any, at: int, then: Next) -> bool:
        """A repeated single character, without recursion."""
        reach = 0
        if op is sre.MIN_REPEAT:
            while True:
                if reach >= least and then(at + reach):
                    return True
                if reach >= most or not self._fits(item, at + reach):
                    return False
                reach += 1
        while reach < most and self._fits(item, at + reach):
            reach += 1
        if op is sre.POSSESSIVE_REPEAT:
            return reach >= least and then(at + reach)
        return any(then(at + back) for back in range(reach, least - 1, -1))

    def _fits(self, item: Any, at: int) -> bool:
        self.steps += 1
        if self.steps > self.limit:
            raise TooManySteps(f"more than {self.limit} steps")
        return at < len(self.text) and self._is(item[0], item[1], self.text[at])

    def _look(self, direction: int, items: list[Any], at: int) -> bool:
        if direction > 0:
            return self.match(items, 0, at, lambda end: True)
        low, high = parser.SubPattern(self.tree.state, items).getwidth()
        assert low == high, "a look behind has one width"
        return at >= low and self.match(items, 0, at - low, lambda end: end == at)

    @staticmethod
    def _is_single(item: Any) -> bool:
        return item[0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)

    def _is(self, op: Any, args: Any, char: str) -> bool:
        if op is sre.LITERAL:
            return char == self._folded(args)
        if op is sre.NOT_LITERAL:
            return char != self._folded(args)
        if op is sre.ANY:
            return bool(self.dotall) or char != "\n"
        assert op is sre.IN, op
        return self._is_in(args, char)

    def _folded(self, code: int) -> str:
        return self._fold(chr(code))

    def _fold(self, char: str) -> str:
        """Return one character for all that `re` takes as equal: with IGNORECASE alone U+017F is an s, U+0131 an i."""
        if not self.fold or (self.ascii and not char.isascii()):
            return char
        upper = char.lower()[0].upper()
        return upper.lower() if len(upper) == 1 else char

    def _is_in(self, parts: Any, char: str) -> bool:
        negated, found = False, False
        for kind, what in parts:
            if kind is sre.NEGATE:
                negated = True
            elif kind is sre.LITERAL:
                found = found or char == self._folded(what)
            elif kind is sre.RANGE:
                chars = (char, char.upper()) if self.fold else (char,)
                found = found or any(what[0] <= ord(one[0]) <= what[1] for one in chars)
            else:
                assert kind is sre.CATEGORY, kind
                found = found or self._is_of(what, char)
        return found is not negated

    def _is_of(self, category: Any, char: str) -> bool:
        name = str(category).removeprefix("CATEGORY_")
        plain = name.removeprefix("NOT_")
        char = char if char.isascii() or not self.ascii else "\0"
        fits = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}[plain]
        return fits is not name.startswith("NOT_")

    def _is_at(self, where: Any, at: int) -> bool:
        text = self.text
        before, after = at > 0 and self._is_word(text[at - 1]), at < len(text) and self._is_word(text[at])
        match where:
            case sre.AT_BEGINNING_STRING:
                return at == 0
            case sre.AT_BEGINNING:
                return at == 0 or bool(self.multiline and text[at - 1] == "\n")
            case sre.AT_END_STRING:
                return at == len(text)
            case sre.AT_END:
                return at == len(text) or text[at:] == "\n" or bool(self.multiline and text[at] == "\n")
            case sre.AT_BOUNDARY:
                return before is not after
            case sre.AT_NON_BOUNDARY:
                return before is after
        raise AssertionError(where)

    def _is_word(self, char: str) -> bool:
        return (char.isascii() or not self.ascii) and (char.isalnum() or char == "_")


def _ends(matcher: _Matcher) -> Iterator[tuple[int, int]]:
    at = 0
    while at <= len(matcher.text) and (match := matcher.search(at)) is not None:
        yield match
        at = match[1] if match[1] > match[0] else match[1] + 1


def steps_of_search(
    pattern: re.Pattern[str], text: str, limit: int = 10**7, *, anchored: bool = False
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Steps to find every match in `text`, and the matches. Raises TooManySteps beyond `limit`.

    `anchored`: only from the beginning of the text, and no match is told.
    """
    matcher = _Matcher(pattern, text, limit)
    if anchored:
        matcher.match(list(matcher.tree), 0, 0, lambda end: end == len(text))
        return matcher.steps, ()
    found = tuple(_ends(matcher))
    return matcher.steps, found

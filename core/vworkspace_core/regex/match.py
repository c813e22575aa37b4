"""Running a pattern: all states at once, so that the time is linear in the text.

Whether there is a match is asked of an automaton whose states are made as the text calls for them and kept up to a
bound. Where a match lies is asked of the same instructions, with the place where each began.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from vworkspace_core.regex.program import Accept, Assert, Consume, Instruction, Split, instructions
from vworkspace_core.regex.syntax import parse

_MOST_TRANSITIONS: Final = 2_000
"""How much of its automaton a pattern keeps; then it begins anew."""
_EDGE: Final = ""
"""What stands before the first character and behind the last."""

_Kernel = tuple[tuple[int, ...], bool, bool, bool]
"""Places in the program; whether nothing, a line break, or a letter of a word stands before."""


class _State:
    __slots__ = ("ends", "kernel", "next")

    def __init__(self, kernel: _Kernel) -> None:
        self.kernel = kernel
        self.next: dict[str, _State | None] = {}
        self.ends: bool | None = None


class Pattern:
    """A compiled pattern. It takes steps in proportion to `size` for each character of a text, at the most."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code: tuple[Instruction, ...] = instructions(parse(text))
        self._states: dict[_Kernel, _State] = {}
        self._transitions = 0

    @property
    def size(self) -> int:
        """How many instructions it has."""
        return len(self._code)

    @property
    def kept(self) -> int:
        """How many steps of its automaton it has worked out and not forgotten."""
        return self._transitions

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in a text."""
        state = self._start()
        for character in text:
            try:
                following = state.next[character]
            except KeyError:
                following = self._step(state, character)
            if following is None:
                return True
            state = following
        if state.ends is None:
            state.ends = self._closed(state.kernel, _EDGE) is None
        return state.ends

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Where the first match from `start` on begins and ends, by the preferences of the pattern."""
        threads: list[tuple[int, int]] = []
        best: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            before = text[at - 1] if at else _EDGE
            after = text[at] if at < len(text) else _EDGE
            if best is None:
                threads.append((0, at))
            elif not threads:
                break
            threads, accepted = self._advance(threads, before, after)
            if accepted is not None:
                best = (accepted, at)
        return best

    def find_all(self, text: str, most: int = -1) -> Iterator[str]:
        """Every match that begins where the one before it ended or later, at most so many (-1: all)."""
        at, last = 0, -1
        while most and at <= len(text):
            match = self.find(text, at)
            if match is None:
                return
            begin, end = match
            if begin < end or begin != last:
                yield text[begin:end]
                most -= 1
                last = end
            at = end if end > begin else end + 1

    # --- states -------------------------------------------------------------------------------------------------------

    def _start(self) -> _State:
        return self._state(((0,), True, False, False))

    def _state(self, kernel: _Kernel) -> _State:
        state = self._states.get(kernel)
        if state is None:
            state = self._states[kernel] = _State(kernel)
        return state

    def _forget(self) -> None:
        for state in self._states.values():
            state.next.clear()
        self._states.clear()
        self._transitions = 0

    def _step(self, state: _State, character: str) -> "_State | None":
        """The state behind a character; None when the pattern has matched before it."""
        self._transitions += 1
        if self._transitions > _MOST_TRANSITIONS:
            self._forget()
        places = self._closed(state.kernel, character)
        following = None
        if places is not None:
            reached = {0}
            for place in places:
                instruction = self._code[place]
                if isinstance(instruction, Consume) and _within(instruction, character):
                    reached.add(place + 1)
            following = self._state((tuple(sorted(reached)), False, character == "\n", _is_word(character)))
        state.next[character] = following
        return following

    def _closed(self, kernel: _Kernel, after: str) -> set[int] | None:
        """All places that can be reached without a character; None when the end of the pattern is one of them."""
        starting, first, newline, word = kernel
        pending, seen = list(starting), set[int]()
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            match self._code[place]:
                case Accept():
                    return None
                case Split(preferred, otherwise):
                    pending += (preferred, otherwise)
                case Assert(kind) if _holds(kind, first=first, newline=newline, word=word, after=after):
                    pending.append(place + 1)
        return seen

    def _advance(
        self, threads: Iterable[tuple[int, int]], before: str, after: str
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Threads behind the character `after`, in their order, and where the accepted one began."""
        first, newline, word = before == _EDGE, before == "\n", _is_word(before)
        seen, following = set[int](), list[tuple[int, int]]()
        for origin, began in threads:
            pending = [origin]
            while pending:
                place = pending.pop()
                if place in seen:
                    continue
                seen.add(place)
                match self._code[place]:
                    case Accept():
                        return following, began
                    case Split(preferred, otherwise):
                        pending += (otherwise, preferred)
                    case Assert(kind):
                        if _holds(kind, first=first, newline=newline, word=word, after=after):
                            pending.append(place + 1)
                    case Consume() as instruction:
                        if after != _EDGE and _within(instruction, after):
                            following.append((place + 1, began))
        return following, None


def _within(instruction: Consume, character: str) -> bool:
    point = ord(character)
    return any(low <= point <= high for low, high in instruction.ranges)


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _holds(kind: str, *, first: bool, newline: bool, word: bool, after: str) -> bool:
    match kind:
        case "start":
            return first
        case "end":
            return after == _EDGE
        case "line_start":
            return first or newline
        case "line_end":
            return after in (_EDGE, "\n")
        case "boundary":
            return word != _is_word(after)
        case _:
            return word == _is_word(after)


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """The pattern of a text. Raises PatternError."""
    return Pattern(text)

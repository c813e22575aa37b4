"""The execution of a pattern (regular expression): its states are all followed at once, in time linear in the text.

`matches_in` only decides whether there is a match: it runs an automaton whose states are created on demand and cached
up to a limit. `find` also locates the match: it runs the instructions as threads that remember where they began.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from purekube.regex.regex_program import Accept, Assert, Consume, Instruction, Split, instructions
from purekube.regex.regex_syntax import parse

_MOST_TRANSITIONS: Final = 2_000
"""The most transitions that a pattern's automaton keeps; beyond that all are discarded."""
_EDGE: Final = ""
"""The stand-in for the character before the start or after the end of a string."""

_Kernel = tuple[tuple[int, ...], bool, bool, bool]
"""The identity of an automaton's state: positions in the program, and three flags about the current place in the text.

The flags say that the text begins there, that a line begins there, and that a word character comes before.
"""


class _State:
    __slots__ = ("ends", "kernel", "next")

    def __init__(self, kernel: _Kernel) -> None:
        self.kernel = kernel
        self.next: dict[str, _State | None] = {}
        self.ends: bool | None = None


class Pattern:
    """A compiled regular expression. Matching takes time proportional to `size` times the length of the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code: tuple[Instruction, ...] = instructions(parse(text))
        self._states: dict[_Kernel, _State] = {}
        self._transitions = 0

    @property
    def size(self) -> int:
        """The number of instructions of the compiled pattern."""
        return len(self._code)

    @property
    def kept(self) -> int:
        """The number of automaton transitions that are currently cached."""
        return self._transitions

    def matches_in(self, text: str) -> bool:
        """Report whether the pattern matches anywhere in a string."""
        state = self._state(((0,), True, True, False))
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
        """Return start and end of the first match at or after `start`; None if there is no match.

        Among matches at one position, the pattern's order of preference decides.
        """
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
        """Yield the texts of all matches that do not overlap, at most `most` of them (-1: all)."""
        at, last = 0, None
        while most:
            match = self.find(text, at)
            if match is None:
                return
            begin, end = match
            if match != (last, last):  # as in Go, there is no empty match right after another
                yield text[begin:end]
                most -= 1
            at, last = max(end, begin + 1), end

    # --- states -------------------------------------------------------------------------------------------------------

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
        """Return the automaton's state after it has read `character`. Return None if a match is complete before that
        character.
        """
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
        """Return all program positions that can be reached from those in `kernel` without consuming a character.

        Return None if a match is complete at one of them. `after` is the next character of the text.
        """
        starting, first, new_line, word = kernel
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
                case Assert(kind) if _holds(kind, first=first, new_line=new_line, word=word, after=after):
                    pending.append(place + 1)
        return seen

    def _advance(
        self, threads: Iterable[tuple[int, int]], before: str, after: str
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Return the threads after the character `after`, in order of preference, and where a complete match began.

        A thread is a pair: a program position, and the text position where its match began. The second result is None
        if no thread completes a match before `after`.
        """
        first, new_line, word = before == _EDGE, before in (_EDGE, "\n"), _is_word(before)
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
                        if _holds(kind, first=first, new_line=new_line, word=word, after=after):
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


def _holds(kind: str, *, first: bool, new_line: bool, word: bool, after: str) -> bool:
    match kind:
        case "start":
            return first
        case "end":
            return after == _EDGE
        case "line_start":
            return new_line
        case "line_end":
            return after in (_EDGE, "\n")
        case "boundary":
            return word != _is_word(after)
        case _:
            return word == _is_word(after)


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Compile a regular expression. Raises PatternError if the expression is invalid or too large."""
    return Pattern(text)

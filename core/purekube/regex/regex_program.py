"""The compilation of a pattern's syntax tree to the instructions of an automaton (Thompson's construction)."""

from typing import Final, TypeAlias, assert_never

import attrs

from purekube.regex.regex_syntax import (
    Alternatives,
    Assertion,
    Characters,
    Node,
    PatternError,
    Ranges,
    Repeat,
    Sequence,
)

_MOST: Final = 5_000
"""The most instructions of a pattern once its repetitions are written out."""


@attrs.frozen
class Consume:
    """An instruction of a pattern's automaton that consumes one character in `ranges` and continues with the next
    instruction.
    """

    ranges: Ranges


@attrs.frozen
class Split:
    """An instruction of a pattern's automaton that continues at two other instructions. `first` is preferred to
    `second`.
    """

    first: int
    second: int


@attrs.frozen
class Assert:
    """An instruction of a pattern's automaton that continues only at a text position of a kind such as line start
    (`Assertion.kind`).
    """

    kind: str


@attrs.frozen
class Accept:
    """The instruction of a pattern's automaton that ends a match."""


_LATER: Final = Split(0, 0)
"""An instruction to be replaced as soon as it is known where it continues."""

Instruction: TypeAlias = Consume | Split | Assert | Accept


def instructions(node: Node) -> tuple[Instruction, ...]:
    """Return the instructions into which the syntax tree `node` compiles. Execution starts at index 0.

    Raises PatternError if there are too many instructions.
    """
    writer = _Writer()
    writer.write(node)
    writer.add(Accept())
    return tuple(writer.code)


class _Writer:
    def __init__(self) -> None:
        self.code: list[Instruction] = []

    def add(self, instruction: Instruction) -> int:
        if len(self.code) >= _MOST:
            raise PatternError("the pattern is too large once its repetitions are written out", 0)
        self.code.append(instruction)
        return len(self.code) - 1

    def write(self, node: Node) -> None:
        match node:
            case Characters(ranges):
                self.add(Consume(ranges))
            case Assertion(kind):
                self.add(Assert(kind))
            case Sequence(parts):
                for part in parts:
                    self.write(part)
            case Alternatives(branches):
                self._alternatives(branches)
            case Repeat():
                self._repeat(node)
            case _:
                assert_never(node)

    def _alternatives(self, branches: tuple[Node, ...]) -> None:
        exits = []
        for branch in branches[:-1]:
            split = self.add(_LATER)
            self.write(branch)
            exits.append(self.add(_LATER))
            self.code[split] = Split(split + 1, len(self.code))
        self.write(branches[-1])
        for place in exits:
            self.code[place] = Split(len(self.code), len(self.code))

    def _repeat(self, node: Repeat) -> None:
        """Write one copy of the body for each required and each optional match; without a limit, jump back to the last
        copy.

        `x*` is written as `(?:x+)?`: where x prefers the empty string, so does `x*` (https://go.dev/issue/46123).
        """
        copies = (node.least or 1) if node.most is None else node.most
        begin, exits = len(self.code), list[int]()
        for count in range(copies):
            if count >= node.least:
                exits.append(self.add(_LATER))
            begin = len(self.code)
            self.write(node.body)
        if node.most is None:
            again = self.add(_LATER)
            self.code[again] = self._choice(begin, again + 1, greedy=node.greedy)
        for place in exits:
            self.code[place] = self._choice(place + 1, len(self.code), greedy=node.greedy)

    @staticmethod
    def _choice(into: int, past: int, *, greedy: bool) -> Split:
        return Split(into, past) if greedy else Split(past, into)

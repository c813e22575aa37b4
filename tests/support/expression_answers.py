"""What an expression gives, written as a line: its value or its error, and what it spent of its budget."""

from collections.abc import Iterator
from typing import Any

from purekube.cel import DYN, Budget, CelError, Environment, compile_expression
from purekube.cel.values import (
    ABSENT,
    Duration,
    KeyedList,
    Network,
    OptionalValue,
    Semver,
    SetList,
    Timestamp,
    TypeValue,
    Uint,
)

VALUES = {
    "one": 1, "yes": True, "half": 0.5, "s": "abc", "nothing": None, "unsigned": Uint(1), "minus": -1, "bad": "(",
    "nan": float("nan"), "inf": float("inf"), "neginf": float("-inf"), "huge": 1e300, "aday": Duration(86_400 * 10**9),
    "m": {"k": 1, "x-y": 2, "in": 3, "namespace": 4}, "l": [10, 11, 12], "long": "1" * 257, "other": "1" * 256 + "2",
    "verylong": "a" * 1_600, "set": SetList([1, 2]), "keyed": KeyedList([{"k": 1}, {"k": 2}]), "gone": ABSENT,
    "opt": OptionalValue({"k": 1}, True), "optone": OptionalValue(1, True),
}  # fmt: skip
"""What the variable `x` of each expression has."""


def differing(table: str) -> Iterator[str]:
    """Yield the answers to those expressions of a table for which it has another one.

    A line is `expression => value`, and where the expression spends something, `[steps characters items]`.
    """
    for line in table.strip().splitlines():
        text, _, _ = line.partition(" => ")
        found = f"{text} => {answer(text)}"
        if found != line:
            yield found


def answer(text: str) -> str:
    """Evaluate an expression without a check of types."""
    budget = Budget()
    program = compile_expression(text, Environment({"x": DYN}), checked=False)
    try:
        found = _shown(program.evaluate({"x": VALUES}, budget))
    except CelError as error:
        found = f"{type(error).__name__}: {error}"
    spent = (Budget().steps - budget.steps, Budget().text - budget.text, Budget().items - budget.items)
    return f"{found} [{' '.join(map(str, spent))}]" if any(spent) else found


def _shown(value: Any) -> str:
    match value:
        case OptionalValue(inner, present):
            return f"optional({_shown(inner)})" if present else "none"
        case Timestamp(nanos) | Duration(nanos):
            return f"{type(value).__name__.lower()}({nanos})"
        case TypeValue(name):
            return f"type({name})"
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{_shown(key)}: {_shown(item)}' for key, item in value.items())}}}"
        case Uint():
            return f"{int(value)}u"
        case Network(address, prefix):
            return f"{address}/{prefix}"
        case Semver(major, minor, patch, prerelease, build):
            return f"semver({major}, {minor}, {patch}, {'.'.join(prerelease)}, {build})"
        case None | bool() | int() | float() | str() | bytes():
            return repr(value)
        case _:
            return f"{type(value).__name__}({value})"

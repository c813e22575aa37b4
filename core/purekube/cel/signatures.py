"""Functions of the language: their parameters and results, their cost, and their implementation.

A signature is written as users read it: `string.charAt(int) -> string`, `lists.range(int) -> list(int)`,
`list($A).distinct() -> list($A)`. `$A` is any type, the same one in all places. `...` repeats the last parameter.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.cel.limits import Budget
from purekube.cel.types import CelType

Cost: TypeAlias = Callable[..., int]
"""A function from a call's arguments to its steps, called before the call."""

FunctionKey: TypeAlias = tuple[str, bool, int]
"""The key of a function: its name, whether it is a method, and its number of arguments without the target; -1 for any
number.
"""

_CHARACTERS_A_STEP: Final = 16
_METHODS: Final = frozenset(
    (
        "bool",
        "bytes",
        "double",
        "duration",
        "dyn",
        "int",
        "list",
        "map",
        "null_type",
        "optional",
        "string",
        "timestamp",
        "type",
        "uint",
        "quantity",
        "url",
        "ip",
        "cidr",
        "semver",
    )
)
"""Types that have methods."""

_STATIC: Final = frozenset(
    ("ip.isCanonical", "optional.of", "optional.ofNonZeroValue", "optional.none", "optional.unwrap")
)
"""Functions of libraries that are not methods, although their prefix is also the name of a type."""


@attrs.frozen
class Signature:
    """One overload of a function: its text, and the types of its parameters and of its result. The first parameter of a
    method is the object it is called on.
    """

    text: str
    parameters: tuple[CelType, ...]
    result: CelType


@attrs.frozen
class Function:
    """A function or method with all its overloads (`signatures`), which share one name and one number of arguments.

    `arity` is this number, without the object on which a method is called; -1 means any number. `run` computes the
    result of a call, and `cost` the steps that the call takes.
    """

    name: str
    method: bool
    arity: int
    signatures: tuple[Signature, ...]
    run: Callable[..., Any]
    cost: Cost | None = None
    with_budget: bool = False
    """True if `run` takes the budget as its first argument, to account for what it builds."""

    @property
    def key(self) -> FunctionKey:
        """The key under which the function is looked up: its name, whether it is a method, and how many arguments it
        has.
        """
        return (self.name, self.method, self.arity)


FunctionTable: TypeAlias = Mapping[FunctionKey, Function]


def function(
    signatures: str | Iterable[str], run: Callable[..., Any], *, cost: Cost | None = None, with_budget: bool = False
) -> Function:
    """Make a function of the expression language from its overloads.

    All `signatures` must have the same name and number of arguments. `run` computes the result, and `cost` the steps
    that a call takes. With `with_budget`, `run` is also passed the evaluation's `Budget`, so that it can subtract a
    further cost.
    """
    read = [_read(text) for text in ([signatures] if isinstance(signatures, str) else signatures)]
    name, method, arity, _ = read[0]
    return Function(name, method, arity, tuple(entry[3] for entry in read), run, cost, with_budget)


def table(*libraries: Iterable[Function]) -> dict[FunctionKey, Function]:
    """Return all functions of the `libraries` by their keys (`Function.key`).

    If a method of lists and a method of strings have the same key, the target's type selects one of them at run time.
    """
    out: dict[FunctionKey, Function] = {}
    for library in libraries:
        for entry in library:
            out[entry.key] = _of_lists_or_texts(out[entry.key], entry) if entry.key in out else entry
    return out


def _of_lists_or_texts(first: Function, second: Function) -> Function:
    of_lists = [candidate for candidate in (first, second) if candidate.signatures[0].parameters[0].name == "list"]
    others = [candidate for candidate in (first, second) if candidate not in of_lists]
    if not first.method or len(of_lists) != 1:
        raise ValueError(f"{first.key} is defined twice")
    lists, texts = of_lists[0], others[0]

    def run(budget: Budget, *arguments: Any) -> Any:
        chosen = lists if isinstance(arguments[0], list) else texts
        if chosen.cost is not None:
            budget.spend(chosen.cost(*arguments))
        return chosen.run(budget, *arguments) if chosen.with_budget else chosen.run(*arguments)

    signatures = (*first.signatures, *second.signatures)
    return Function(first.name, True, first.arity, signatures, run, None, with_budget=True)


def named(functions: FunctionTable, name: str, method: bool, count: int) -> Function | None:
    """Return the method (with `method`) or function (without it) called `name` with `count` arguments; None if there is
    none.

    The object on which a method is called is not counted as an argument.
    """
    return functions.get((name, method, count)) or functions.get((name, method, -1))


def text_cost(*arguments: Any) -> int:
    """Return the steps of a call that reads the texts among its `arguments`: one for every 16 characters, plus one."""
    return 1 + sum(len(argument) for argument in arguments if isinstance(argument, (str, bytes))) // _CHARACTERS_A_STEP


def list_cost(*arguments: Any) -> int:
    """Return the steps of a call that visits the lists and maps among its `arguments`: one for each item, plus one."""
    return 1 + sum(len(argument) for argument in arguments if isinstance(argument, (list, Mapping)))


def square_cost(*arguments: Any) -> int:
    """Return the steps of a call that compares every item of one list with every item of another: one for each pair,
    plus one.

    The lists are the first and the last among the `arguments`; a single list is compared with itself.
    """
    sizes = [len(argument) for argument in arguments if isinstance(argument, list)] or [1]
    return 1 + sizes[0] * sizes[-1]


def built(budget: Budget, value: Any) -> Any:
    """Return `value`, a new value of an expression, after subtracting the length of a string, list or map from
    `budget`.

    Raises LimitExceeded if too little of the budget remains.
    """
    if isinstance(value, (str, bytes)):
        budget.build_text(len(value))
    elif isinstance(value, (list, Mapping)):
        budget.build_items(len(value))
    return value


def _read(text: str) -> tuple[str, bool, int, Signature]:
    head, _, result = text.partition(" -> ")
    target, name, inner = _split(head)
    parameters = [*([target] if target else []), *(_arguments(inner) if inner else [])]
    variadic = bool(parameters) and parameters[-1].endswith("...")
    types = tuple(_type(parameter.removesuffix("...")) for parameter in parameters)
    arity = -1 if variadic else len(types) - bool(target)
    return name, bool(target), arity, Signature(text, types, _type(result))


def _split(head: str) -> tuple[str, str, str]:
    """Split the head of a signature, such as `list($A).slice(int, int)`, into target, name and arguments.

    The target is empty if the function is not a method.
    """
    depth = 0
    open_at = len(head) - 1
    for open_at in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[open_at], 0)
        if depth == 0:
            break
    name, inner = head[:open_at], head[open_at + 1 : -1]
    target, dot, last = name.rpartition(".")
    is_method = dot and (target.startswith("$") or target.partition("(")[0] in _METHODS)
    return (target, last, inner) if is_method and name not in _STATIC else ("", name, inner)


def _arguments(text: str) -> list[str]:
    out, depth, begin = [], 0, 0
    for at, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            out.append(text[begin:at].strip())
            begin = at + 1
    return [*out, text[begin:].strip()]


def _type(text: str) -> CelType:
    name, bracket, inner = text.strip().partition("(")
    parameters = tuple(_type(parameter) for parameter in _arguments(inner[:-1])) if bracket else ()
    return CelType(name, parameters)

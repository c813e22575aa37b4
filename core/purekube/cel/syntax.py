"""The nodes of the syntax tree of a CEL expression.

The `at` of a node is its position in the text, for messages. Equality of nodes ignores it.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import attrs

RESERVED: Final = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
"""Words that no identifier may be; CEL reserves them for future use."""


def _place() -> Any:
    return attrs.field(default=0, eq=False, repr=False, kw_only=True)


@attrs.frozen
class Literal:
    """A constant in an expression, such as `1` or `true`."""

    value: Any
    at: int = _place()


@attrs.frozen
class Identifier:
    """A variable, a type, or the first part of a name with dots. `absolute` says that a dot precedes it."""

    name: str
    absolute: bool = False
    at: int = _place()


@attrs.frozen
class Select:
    """The node `operand.field`, or `operand.?field` when `optional`. A `quoted` field is written in backticks."""

    operand: "Expression"
    field: str
    optional: bool = False
    quoted: bool = False
    at: int = _place()


@attrs.frozen
class Index:
    """The node `operand[key]`, or `operand[?key]` when `optional`."""

    operand: "Expression"
    key: "Expression"
    optional: bool = False
    at: int = _place()


@attrs.frozen
class HasMacro:
    """The node `has(operand.field)`."""

    operand: "Expression"
    field: str
    quoted: bool = False
    at: int = _place()


@attrs.frozen
class Call:
    """A function call, or a method call if there is a `target`."""

    name: str
    target: "Expression | None"
    arguments: tuple["Expression", ...]
    at: int = _place()


@attrs.frozen
class Macro:
    """The node `target.all(variable, body)` and other macros. `variables` has one or two names.

    `transform` is the expression that the three-argument `map`, `transformList` and `transformMap` apply to each item
    for which `body` is true.
    """

    name: str
    target: "Expression"
    variables: tuple[str, ...]
    body: "Expression | None"
    transform: "Expression | None" = None
    at: int = _place()


@attrs.frozen
class Bind:
    """The node `cel.bind(name, value, body)`."""

    name: str
    value: "Expression"
    body: "Expression"
    at: int = _place()


@attrs.frozen
class Unary:
    """The node `!x` or `-x`."""

    operator: str
    operand: "Expression"
    at: int = _place()


@attrs.frozen
class Binary:
    """An operator between two expressions, including `in`."""

    operator: str
    left: "Expression"
    right: "Expression"
    at: int = _place()


@attrs.frozen
class Conditional:
    """The node `condition ? positive : negative`."""

    condition: "Expression"
    positive: "Expression"
    negative: "Expression"
    at: int = _place()


@attrs.frozen
class ListLiteral:
    """The node `[a, b]`. Items at the indices in `optionals` are written with a `?`."""

    items: tuple["Expression", ...]
    optionals: frozenset[int] = frozenset()
    at: int = _place()


@attrs.frozen
class MapLiteral:
    """The node `{key: value}`. Entries at the indices in `optionals` are written with a `?`."""

    entries: tuple[tuple["Expression", "Expression"], ...]
    optionals: frozenset[int] = frozenset()
    at: int = _place()


Expression: TypeAlias = (
    Literal
    | Identifier
    | Select
    | Index
    | HasMacro
    | Call
    | Macro
    | Bind
    | Unary
    | Binary
    | Conditional
    | ListLiteral
    | MapLiteral
)


def dotted(node: Expression | None) -> str:
    """Return `a.b.c` if a node is a name or a chain of names with dots; otherwise ""."""
    match node:
        case Identifier(name):
            return name
        case Select(operand, field, optional=False, quoted=False):
            before = dotted(operand)
            return f"{before}.{field}" if before else ""
        case _:
            return ""


def constructor(name: str) -> str:
    """Return the name of the function that makes an object of the type `name`. The syntax tree holds `JSONPatch{…}` as
    a call of that function.
    """
    return f"{name}{{}}"


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the nodes directly below a node."""
    match node:
        case Literal() | Identifier():
            return ()
        case Select(operand) | HasMacro(operand) | Unary(_, operand):
            return (operand,)
        case Index(operand, key):
            return (operand, key)
        case Call(_, target, arguments):
            return arguments if target is None else (target, *arguments)
        case Macro(_, target, _, body, transform):
            return (target, *(part for part in (body, transform) if part is not None))
        case Bind(_, value, body):
            return (value, body)
        case Binary(_, left, right):
            return (left, right)
        case Conditional(condition, positive, negative):
            return (condition, positive, negative)
        case ListLiteral(items):
            return items
        case MapLiteral(entries):
            return tuple(part for entry in entries for part in entry)


def rebuilt(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return a copy of `node` in which each direct child is replaced by the result of `change` for the child."""
    match node:
        case Literal() | Identifier():
            return node
        case Select(operand) | HasMacro(operand) | Unary(_, operand):
            return attrs.evolve(node, operand=change(operand))
        case Index(operand, key):
            return attrs.evolve(node, operand=change(operand), key=change(key))
        case Call(_, target, arguments):
            changed = None if target is None else change(target)
            return attrs.evolve(node, target=changed, arguments=tuple(map(change, arguments)))
        case Macro(_, target, _, body, transform):
            bodies = [None if part is None else change(part) for part in (body, transform)]
            return attrs.evolve(node, target=change(target), body=bodies[0], transform=bodies[1])
        case Bind(_, value, body):
            return attrs.evolve(node, value=change(value), body=change(body))
        case Binary(_, left, right):
            return attrs.evolve(node, left=change(left), right=change(right))
        case Conditional(condition, positive, negative):
            first, second, third = map(change, (condition, positive, negative))
            return Conditional(first, second, third, at=node.at)
        case ListLiteral(items):
            return attrs.evolve(node, items=tuple(map(change, items)))
        case MapLiteral(entries):
            return attrs.evolve(node, entries=tuple((change(key), change(value)) for key, value in entries))


def size_of(node: Expression) -> int:
    """Return the minimum number of nodes that one evaluation of `node` visits. Bodies of macros are not counted: their
    cost is added for each item.
    """
    if isinstance(node, Macro):
        return 1 + size_of(node.target)
    return 1 + sum(size_of(child) for child in children(node))


_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_TEXT: Final = {text: plain for plain, text in _ESCAPES.items()}
_ANY: Final = re.compile("|".join(map(re.escape, _TEXT)))
_SPECIAL: Final = re.compile(r"__|\.|-|/")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Return the identifier by which a CRD rule refers to the field `name`; None if no rule can refer to it."""
    if name in _WORDS:
        return f"__{name}__"
    text = _SPECIAL.sub(lambda match: _ESCAPES[match.group()], name)
    return text if _NAME.fullmatch(text) else None


@lru_cache(maxsize=4096)
def unescape(name: str) -> str:
    """Return the field to which an identifier in a CRD rule refers: `x__dash__y` is `x-y`, `__in__` is `in`."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _WORDS:
        return name[2:-2]
    return _ANY.sub(lambda match: _TEXT[match.group()], name)

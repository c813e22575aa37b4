"""The syntax tree of a CEL expression."""

from typing import Any, Final, TypeAlias

import attrs

__all__ = [
    "RESERVED",
    "Binary",
    "Call",
    "CelSyntaxError",
    "Conditional",
    "Expression",
    "Identifier",
    "Index",
    "ListLiteral",
    "Literal",
    "Macro",
    "MapLiteral",
    "Present",
    "Select",
    "Unary",
]

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
"""Words that no identifier may be, for languages to come."""


class CelSyntaxError(ValueError):
    """A rule that is no CEL, or CEL outside the supported subset; the message says what and where."""


@attrs.frozen
class Literal:
    """A constant."""

    value: Any


@attrs.frozen
class Identifier:
    """A variable: `self`, `oldSelf` or one that a macro binds."""

    name: str


@attrs.frozen
class Select:
    """`operand.field`, or `operand.?field` when `optional`."""

    operand: "Expression"
    field: str
    optional: bool = False


@attrs.frozen
class Index:
    """`operand[key]`, or `operand[?key]` when `optional`."""

    operand: "Expression"
    key: "Expression"
    optional: bool = False


@attrs.frozen
class Present:
    """`has(operand.field)`."""

    operand: "Expression"
    field: str


@attrs.frozen
class Call:
    """A function, or a method when there is a `target`."""

    name: str
    target: "Expression | None"
    arguments: tuple["Expression", ...]


@attrs.frozen
class Macro:
    """`target.all(variable, body)` and its kin; `transform` is the second body of the three-argument map."""

    name: str
    target: "Expression"
    variable: str
    body: "Expression"
    transform: "Expression | None" = None


@attrs.frozen
class Unary:
    """`!x` or `-x`."""

    operator: str
    operand: "Expression"


@attrs.frozen
class Binary:
    """An operator between two expressions; `in` included."""

    operator: str
    left: "Expression"
    right: "Expression"


@attrs.frozen
class Conditional:
    """`condition ? positive : negative`."""

    condition: "Expression"
    positive: "Expression"
    negative: "Expression"


@attrs.frozen
class ListLiteral:
    """`[a, b]`."""

    items: tuple["Expression", ...]


@attrs.frozen
class MapLiteral:
    """`{key: value}`."""

    entries: tuple[tuple["Expression", "Expression"], ...]


Expression: TypeAlias = (
    Literal
    | Identifier
    | Select
    | Index
    | Present
    | Call
    | Macro
    | Unary
    | Binary
    | Conditional
    | ListLiteral
    | MapLiteral
)

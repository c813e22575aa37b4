"""Where the data of Secrets may flow: into Secrets, and through `hash` (L21). Judged from the text, without values.

Two worlds that differ only in the data of Secrets then give decisions that differ only inside Secrets and in hashes.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import attrs

from vworkspace_core.cel.syntax import (
    Bind,
    Call,
    Conditional,
    Expression,
    Identifier,
    Index,
    ListLiteral,
    Macro,
    Present,
    Select,
    children,
)

_DATA: Final = frozenset(("data", "stringData"))
_HASHES: Final = frozenset(("hash",))
_BLIND: Final = frozenset(("isReady", "size"))
"""Functions whose answer about whole Secrets does not depend on their data."""


class Taint(IntEnum):
    """What a value may tell of the data of Secrets."""

    CLEAN = 0
    SECRET = 1
    """A Secret, or a list of Secrets: its data is secret, the rest of it is not."""
    DATA = 2
    """Secret data, or what was made from it."""


def taint_of(tree: Expression, variables: Mapping[str, Taint]) -> Taint:
    """What the value of an expression may tell; variables that are not named tell nothing."""
    return _Tracer(variables).visit(tree)


@attrs.frozen
class _Tracer:
    variables: Mapping[str, Taint]

    def visit(self, node: Expression) -> Taint:
        match node:
            case Identifier(name):
                return self.variables.get(name, Taint.CLEAN)
            case Select(operand, field) | Present(operand, field):
                return _field(self.visit(operand), field)
            case Index(operand, key):
                return self._index(self.visit(operand), key)
            case Call():
                return self._call(node)
            case Macro():
                return self._macro(node)
            case Bind(name, value, body):
                return self._with({name: self.visit(value)}).visit(body)
            case Conditional(condition, positive, negative):
                if self.visit(condition) is not Taint.CLEAN:
                    return Taint.DATA
                return max(self.visit(positive), self.visit(negative))
            case ListLiteral(items) if items:
                return max(map(self.visit, items))
            case _:
                return _mixed([self.visit(child) for child in children(node)])

    def _with(self, names: Mapping[str, Taint]) -> "_Tracer":
        return _Tracer({**self.variables, **names})

    def _index(self, operand: Taint, key: Expression) -> Taint:
        """An item of a list of Secrets is one; a key in brackets may be that of the data."""
        if self.visit(key) is not Taint.CLEAN:
            return Taint.DATA
        value = getattr(key, "value", None)
        if isinstance(value, str):
            return _field(operand, value)
        return operand if isinstance(value, int) or operand is not Taint.SECRET else Taint.DATA

    def _call(self, node: Call) -> Taint:
        if node.name in _HASHES and node.target is None:
            return Taint.CLEAN
        parts = [*([node.target] if node.target is not None else []), *node.arguments]
        found = [self.visit(part) for part in parts]
        if node.name in _BLIND and max(found, default=Taint.CLEAN) is Taint.SECRET:
            return Taint.CLEAN
        if node.target is not None and node.name in ("orValue", "or", "value", "first", "last", "of"):
            return max(found)
        if node.name in ("of", "reverse") and found:
            return max(found)
        return _mixed(found)

    def _macro(self, node: Macro) -> Taint:
        target = self.visit(node.target)
        inner = self._with(dict.fromkeys(node.variables, target))
        bodies = [inner.visit(part) for part in (node.body, node.transform) if part is not None]
        if Taint.DATA in (target, *bodies):
            return Taint.DATA
        if node.name in ("filter", "sortBy"):
            return target if max(bodies, default=Taint.CLEAN) is Taint.CLEAN else Taint.DATA
        return max(bodies, default=Taint.CLEAN)


def _field(operand: Taint, field: str) -> Taint:
    if operand is Taint.SECRET:
        return Taint.DATA if field in _DATA else Taint.CLEAN
    return operand


def _mixed(found: list[Taint]) -> Taint:
    """What an operator or a function makes: whole Secrets among its operands bring their data along."""
    return Taint.CLEAN if max(found, default=Taint.CLEAN) is Taint.CLEAN else Taint.DATA

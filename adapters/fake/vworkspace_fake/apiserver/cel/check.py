"""Static checks of a rule: unknown fields, undeclared variables, operators on types that do not go together.

A real server refuses such rules when the CRD is written. This check knows fewer types (results of most
functions are `dyn`), so it refuses nothing that a real server accepts.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from vworkspace_fake.apiserver.cel import types
from vworkspace_fake.apiserver.cel.evaluate import TYPE_NAMES
from vworkspace_fake.apiserver.cel.functions import NAMESPACES
from vworkspace_fake.apiserver.cel.operator_types import operate, want
from vworkspace_fake.apiserver.cel.syntax import (
    Binary,
    Call,
    CelSyntaxError,
    Conditional,
    Expression,
    Identifier,
    Index,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Present,
    Select,
    Unary,
)
from vworkspace_fake.apiserver.cel.types import BOOL, DYN, CelType, list_of, optional_of, type_of_schema
from vworkspace_fake.apiserver.cel.values import type_name

__all__ = ["check", "uses"]

_LITERALS: Final = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null_type": types.NULL,
}
_RESULTS: Final = {
    "size": types.INT,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
    "matches": types.BOOL,
    "startsWith": types.BOOL,
    "endsWith": types.BOOL,
    "contains": types.BOOL,
    "isIP": types.BOOL,
    "isCIDR": types.BOOL,
    "isURL": types.BOOL,
    "isQuantity": types.BOOL,
    "isSorted": types.BOOL,
    "hasValue": types.BOOL,
    "lowerAscii": types.STRING,
    "upperAscii": types.STRING,
    "trim": types.STRING,
    "replace": types.STRING,
    "substring": types.STRING,
    "charAt": types.STRING,
    "join": types.STRING,
    "split": list_of(types.STRING),
    "findAll": list_of(types.STRING),
    "find": types.STRING,
}
_OF_TEXT: Final = frozenset(
    [
        "startsWith",
        "endsWith",
        "contains",
        "matches",
        "lowerAscii",
        "upperAscii",
        "trim",
        "split",
        "substring",
        "charAt",
        "find",
        "findAll",
    ]
)

Scope = Mapping[str, CelType]


def check(tree: Expression, self_type: CelType, *, optional_old: bool) -> CelType:
    """The type of a rule over `self`. Raises CelSyntaxError for what can never work."""
    old = optional_of(self_type) if optional_old else self_type
    return _Checker().visit(tree, {"self": self_type, "oldSelf": old})


def uses(tree: Expression, name: str) -> bool:
    """Whether the variable `name` occurs in a tree."""
    seen = _Checker()
    seen.visit(tree, {"self": DYN, "oldSelf": DYN})
    return name in seen.names


class _Checker:
    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit(self, node: Expression, scope: Scope) -> CelType:  # noqa: C901 - one case per kind of node
        match node:
            case Literal(value):
                return _LITERALS[type_name(value)]
            case Identifier(name):
                return self._identifier(name, scope)
            case Select(operand, field, optional):
                found = _field(self.visit(operand, scope), field)
                return optional_of(found) if optional and found.name != "optional" else found
            case Present(operand, field):
                _field(self.visit(operand, scope), field)
                return BOOL
            case Index(operand, key, optional):
                return self._index(node, scope)
            case Call():
                return self._call(node, scope)
            case Macro():
                return self._macro(node, scope)
            case Unary(operator, operand):
                return self._unary(operator, self.visit(operand, scope))
            case Binary(operator, left, right):
                return operate(operator, self.visit(left, scope), self.visit(right, scope))
            case Conditional(condition, positive, negative):
                want(BOOL, self.visit(condition, scope), "? :")
                yes, no = self.visit(positive, scope), self.visit(negative, scope)
                return yes if yes.fits(no) and yes.name == no.name else DYN
            case ListLiteral(items):
                found_items = [self.visit(item, scope) for item in items]
                return list_of(found_items[0] if found_items and _alike(found_items) else DYN)
            case MapLiteral(entries):
                for key, value in entries:
                    self.visit(key, scope)
                    self.visit(value, scope)
                return types.map_of(DYN)
            case _:
                assert_never(node)

    def _identifier(self, name: str, scope: Scope) -> CelType:
        self.names.add(name)
        if name in scope:
            return scope[name]
        if name in TYPE_NAMES:
            return DYN
        raise CelSyntaxError(f"undeclared reference to {name!r}")

    def _index(self, node: Index, scope: Scope) -> CelType:
        operand = self.visit(node.operand, scope)
        self.visit(node.key, scope)
        inner = operand.item if operand.name == "optional" and operand.item is not None else operand
        if inner.name not in ("list", "map", "object", "dyn"):
            raise CelSyntaxError(f"a value of type {operand} has no items")
        found = inner.item or DYN
        return optional_of(found) if node.optional or inner is not operand else found

    def _call(self, node: Call, scope: Scope) -> CelType:
        arguments = [self.visit(argument, scope) for argument in node.arguments]
        if isinstance(node.target, Identifier) and node.target.name not in scope:
            if (node.target.name, node.name, len(arguments)) in NAMESPACES:
                return optional_of(arguments[0]) if node.name == "of" else DYN
            raise CelSyntaxError(f"function {node.target.name}.{node.name}() is not supported")
        if node.target is not None:
            target = self.visit(node.target, scope)
            if node.name in _OF_TEXT and not target.fits(types.STRING):
                raise CelSyntaxError(f"{node.name}() is a method of strings, not of {target}")
            if node.name == "orValue" and target.item is not None:
                return target.item
        return _RESULTS.get(node.name, DYN)

    def _macro(self, node: Macro, scope: Scope) -> CelType:
        target = self.visit(node.target, scope)
        if node.name in ("optMap", "optFlatMap"):
            self.visit(node.body, {**scope, node.variable: target.item or DYN})
            return DYN
        if target.name not in ("list", "map", "object", "dyn"):
            raise CelSyntaxError(f"{node.name}() is a macro of lists and maps, not of {target}")
        variable = (target.item or DYN) if target.name == "list" else types.STRING if target.name == "map" else DYN
        inner = {**scope, node.variable: variable}
        body = self.visit(node.body, inner)
        if node.name != "map" or node.transform is not None:
            want(BOOL, body, f"{node.name}()")
        if node.name == "map":
            return list_of(body if node.transform is None else self.visit(node.transform, inner))
        return list_of(variable) if node.name == "filter" else BOOL

    def _unary(self, operator: str, operand: CelType) -> CelType:
        if operator == "!":
            want(BOOL, operand, "!")
            return BOOL
        return operand


def _field(operand: CelType, field: str) -> CelType:
    if operand.name == "optional":
        return optional_of(_field(operand.item or DYN, field))
    if operand.fields is not None:
        child = operand.fields.get(field)
        if child is None:
            raise CelSyntaxError(f"undefined field {field!r}")
        return type_of_schema(child)
    if operand.name == "map":
        return operand.item or DYN
    if operand.name == "dyn":
        return DYN
    raise CelSyntaxError(f"a value of type {operand} has no field {field!r}")


def _alike(found: list[CelType]) -> bool:
    return all(one.name == found[0].name for one in found)

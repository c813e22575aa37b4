"""From a syntax tree to a function of its variables.

Every node becomes a closure once, when the CRD is compiled. `&&`, `||`, `all` and `exists` absorb errors as
CEL demands: an error matters only where the other operands do not decide.
"""

from collections.abc import Callable
from typing import Any, Final, assert_never

from vworkspace_fake.apiserver.cel.access import index, optional_select, present, select
from vworkspace_fake.apiserver.cel.functions import FUNCTIONS, METHODS, NAMESPACES
from vworkspace_fake.apiserver.cel.macros import count, elements, mapped, opt_map, quantified
from vworkspace_fake.apiserver.cel.operators import Program, Variables, arithmetic, boolean, contained, decided
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
from vworkspace_fake.apiserver.cel.values import (
    CelError,
    cel_equal,
    compare_values,
    is_number,
    no_overload,
)

__all__ = ["TYPE_NAMES", "Program", "Variables", "build"]

TYPE_NAMES: Final = {
    name: name for name in ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint")
}


def build(node: Expression) -> Program:  # noqa: C901 - one case per kind of node
    """Compile a tree. Raises CelSyntaxError for a function or macro outside the subset."""
    match node:
        case Literal(value):
            return lambda variables: value
        case Identifier(name):
            return _identifier(name)
        case Select(operand, field, optional):
            return optional_select(build(operand), field) if optional else select(build(operand), field)
        case Index(operand, key, optional):
            return index(build(operand), build(key), optional)
        case Present(operand, field):
            return present(build(operand), field)
        case Call():
            return _call(node)
        case Macro():
            return _macro(node)
        case Unary(operator, operand):
            return _unary(operator, build(operand))
        case Binary(operator, left, right):
            return _binary(operator, build(left), build(right))
        case Conditional(condition, positive, negative):
            return _conditional(build(condition), build(positive), build(negative))
        case ListLiteral(items):
            programs = [build(item) for item in items]
            return lambda variables: [program(variables) for program in programs]
        case MapLiteral(entries):
            pairs = [(build(key), build(value)) for key, value in entries]
            return lambda variables: {key(variables): value(variables) for key, value in pairs}
        case _:
            assert_never(node)


def _identifier(name: str) -> Program:
    if name in TYPE_NAMES:
        return lambda variables: name

    def run(variables: Variables) -> Any:
        try:
            return variables[name]
        except KeyError:
            raise CelError(f"undeclared reference to '{name}'") from None

    return run


def _call(node: Call) -> Program:
    arguments = [build(argument) for argument in node.arguments]
    if isinstance(node.target, Identifier):
        spaced = NAMESPACES.get((node.target.name, node.name, len(arguments)))
        if spaced is not None:
            return lambda variables: spaced(*(argument(variables) for argument in arguments))
    table = FUNCTIONS if node.target is None else METHODS
    function = table.get((node.name, len(arguments)))
    if function is None:
        what = "function" if node.target is None else "method"
        raise CelSyntaxError(f"{what} {node.name}() with {len(arguments)} arguments is not supported")
    if node.target is not None:
        arguments.insert(0, build(node.target))
    return lambda variables: _guarded(function, [argument(variables) for argument in arguments])


def _guarded(function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except (TypeError, AttributeError, ValueError) as error:
        raise no_overload() from error


def _unary(operator: str, operand: Program) -> Program:
    if operator == "!":
        return lambda variables: not boolean(operand(variables))

    def negate(variables: Variables) -> Any:
        value = operand(variables)
        if not is_number(value):
            raise no_overload()
        return -value

    return negate


def _binary(operator: str, left: Program, right: Program) -> Program:
    match operator:
        case "&&":
            return decided(left, right, False)
        case "||":
            return decided(left, right, True)
        case "==":
            return lambda variables: cel_equal(left(variables), right(variables))
        case "!=":
            return lambda variables: not cel_equal(left(variables), right(variables))
        case "<":
            return lambda variables: compare_values(left(variables), right(variables)) < 0
        case "<=":
            return lambda variables: compare_values(left(variables), right(variables)) <= 0
        case ">":
            return lambda variables: compare_values(left(variables), right(variables)) > 0
        case ">=":
            return lambda variables: compare_values(left(variables), right(variables)) >= 0
        case "in":
            return lambda variables: contained(left(variables), right(variables))
        case _:
            return lambda variables: arithmetic(operator, left(variables), right(variables))


def _conditional(condition: Program, positive: Program, negative: Program) -> Program:
    return lambda variables: positive(variables) if boolean(condition(variables)) else negative(variables)


def _macro(node: Macro) -> Program:
    target, body, name = build(node.target), build(node.body), node.variable
    transform = build(node.transform) if node.transform is not None else None
    match node.name:
        case "all":
            return lambda variables: quantified(elements(target(variables)), variables, name, body, False)
        case "exists":
            return lambda variables: quantified(elements(target(variables)), variables, name, body, True)
        case "exists_one" | "existsOne":
            return lambda variables: count(elements(target(variables)), variables, name, body) == 1
        case "filter":
            return lambda variables: [
                item for item in elements(target(variables)) if boolean(body({**variables, name: item}))
            ]
        case "map":
            return lambda variables: mapped(elements(target(variables)), variables, name, body, transform)
        case _:
            flat = node.name == "optFlatMap"
            return lambda variables: opt_map(target(variables), variables, name, body, flat)

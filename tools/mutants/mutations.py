"""Changes of one head each, such as a slip of the hand would make.

A comparison, boolean, arithmetic operator or constant is another one; a statement, element, operand, keyword, case,
guard or part of a pattern is missing; two arguments are swapped. Text for people, which has blanks in it, is unchanged.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

from tools.mutants.sites import Site, head_text

Edit: TypeAlias = Callable[[], None]
Replace: TypeAlias = Callable[[ast.AST], None]

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}  # fmt: skip
_OPPOSITES: Final = {"any": "all", "all": "any", "min": "max", "max": "min"}
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")


def mutations_of(site: Site) -> list[Edit]:
    """Return the mutations of a site, always in the same order; one of them can be applied to a tree."""
    if isinstance(site.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    edits = list(_left_out(site))
    for node, replace in _places(site.node):
        edits += _of_expression(node, replace)
    return edits


def mutated_text(site: Site, number: int) -> str:
    """Return the head after a mutation; the site itself stays as it is."""
    block = copy.deepcopy(site.block)
    index = next(index for index, node in enumerate(site.block) if node is site.node)
    twin = Site(block[index], block, site.function, site.probe)
    mutations_of(twin)[number]()
    return head_text(block[index]) if len(block) == len(site.block) else ""


def _left_out(site: Site) -> Iterator[Edit]:
    """Yield the mutations that leave out the whole statement, the case or its guard."""
    node, block = site.node, site.block
    index = next(index for index, other in enumerate(block) if other is node)
    match node:
        case ast.Return(value) if value is not None and not _is_none(value):
            yield partial(setattr, node, "value", None)
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield partial(_put, block, index, ast.Pass())
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield partial(_put, block, index, ast.Pass())
        case ast.match_case():
            if len(block) > 1 and not _never_runs(node):
                yield partial(block.__delitem__, index)
            if node.guard is not None and not (_takes_all(node.pattern) and index < len(block) - 1):
                yield partial(setattr, node, "guard", None)
        case _:
            pass


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, Replace]]:
    """Yield what a head consists of, each with the way to put something else in its place."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "format_spec", "ctx") or (name in _BLOCKS and isinstance(value, list)):
            continue
        if isinstance(value, ast.AST):
            yield value, partial(setattr, node, name)
            yield from _places(value)
        for index, child in enumerate(value) if isinstance(value, list) else ():
            if isinstance(child, ast.AST) and not (isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
                yield child, partial(_put, value, index)
                yield from _places(child)


def _put(items: list[Any], index: int, node: ast.AST) -> None:
    items[index] = node


def _of_expression(node: ast.AST, replace: Replace) -> Iterator[Edit]:
    yield from _of_operator(node, replace)
    yield from _of_value(node)
    yield from _of_pattern(node, replace)


def _of_operator(node: ast.AST, replace: Replace) -> Iterator[Edit]:
    match node:
        case ast.Compare(ops=operators):
            for index, operator in enumerate(operators):
                yield partial(_put, operators, index, _COMPARISONS[type(operator)]())
        case ast.BoolOp(operator, values):
            yield partial(setattr, node, "op", ast.Or() if isinstance(operator, ast.And) else ast.And())
            for value in values:
                yield partial(replace, _without(operator, values, value))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield partial(replace, operand)
        case ast.BinOp(left, ast.BitOr(), right):  # of sets, flags or types
            yield partial(replace, left)
            yield partial(replace, right)
        case ast.BinOp(left, operator, _) if type(operator) in _ARITHMETIC and not _is_text(left):
            yield partial(setattr, node, "op", _ARITHMETIC[type(operator)]())
        case ast.IfExp(test):
            yield partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
        case _:
            pass


def _of_value(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.comprehension(ifs=conditions):
            yield from (partial(conditions.__delitem__, index) for index in range(len(conditions)))
        case ast.Constant(value):
            yield from (partial(setattr, node, "value", other) for other in _others(value))
        case ast.Name(id=name) if name in _OPPOSITES:
            yield partial(setattr, node, "id", _OPPOSITES[name])
        case ast.Call(args=arguments, keywords=keywords):
            yield from _of_call(arguments, keywords)
        case ast.Tuple(elts=items, ctx=ast.Load()) | ast.List(elts=items, ctx=ast.Load()) | ast.Set(elts=items):
            yield from (partial(items.__delitem__, index) for index in range(len(items)) if len(items) > 1)
        case ast.Dict(keys=keys, values=values):
            yield from (partial(_remove_entry, keys, values, index) for index in range(len(keys)))
        case _:
            pass


def _of_pattern(node: ast.AST, replace: Replace) -> Iterator[Edit]:
    match node:
        case ast.MatchOr(patterns):
            for pattern in patterns:
                others = [other for other in patterns if other is not pattern]
                yield partial(replace, others[0] if len(others) == 1 else ast.MatchOr(others))
        case ast.MatchClass(patterns=patterns, kwd_patterns=named):
            for parts in (patterns, named):
                tests = [index for index, part in enumerate(parts) if _is_a_test(part)]
                yield from (partial(_put, parts, index, ast.MatchAs()) for index in tests)
        case _:
            pass


def _of_call(arguments: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[Edit]:
    if len(arguments) > 1 and not any(isinstance(argument, ast.Starred) for argument in arguments[:2]):
        yield partial(_swap, arguments)
    for index, keyword in enumerate(keywords):
        if keyword.arg is not None:
            yield partial(keywords.__delitem__, index)


def _swap(arguments: list[ast.expr]) -> None:
    arguments[0], arguments[1] = arguments[1], arguments[0]


def _remove_entry(keys: list[ast.expr | None], values: list[ast.expr], index: int) -> None:
    del keys[index], values[index]


def _without(operator: ast.boolop, values: list[ast.expr], removed: ast.expr) -> ast.expr:
    others = [value for value in values if value is not removed]
    return others[0] if len(others) == 1 else ast.BoolOp(operator, others)


def _others(value: object) -> Iterator[object]:
    """Yield a constant to put in the place of another, if that is none of the texts for people."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case float():
            yield value * 2 or 1.0
        case str() if not any(character.isspace() for character in value):
            yield f"~{value}"
        case _:
            pass


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_a_test(pattern: ast.pattern) -> bool:
    """Return whether a pattern decides and gives no name to anything."""
    binds = any(isinstance(part, ast.MatchAs | ast.MatchStar) and part.name for part in ast.walk(pattern))
    return not binds and not (isinstance(pattern, ast.MatchAs) and pattern.pattern is None)


def _takes_all(pattern: ast.pattern) -> bool:
    """Return whether a case of this pattern makes those after it a SyntaxError, unless it has a guard."""
    match pattern:
        case ast.MatchAs(pattern=inner):
            return inner is None or _takes_all(inner)
        case ast.MatchOr(patterns):
            return any(map(_takes_all, patterns))
        case _:
            return False


def _never_runs(case: ast.match_case) -> bool:
    return "assert_never" in ast.unparse(case.body[0]) or isinstance(case.body[0], ast.Pass)

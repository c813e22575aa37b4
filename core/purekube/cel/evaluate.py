"""The compilation of a syntax tree to a function of its variables.

Every node becomes a closure once, when the expression is compiled. `&&`, `||`, `all` and `exists` absorb failures as
CEL requires: a failure counts only if the other operands do not decide. Exceeded limits are never absorbed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, assert_never

from purekube.cel import syntax
from purekube.cel.library.lists import sorted_by
from purekube.cel.limits import CelError, EvaluationError, LimitExceeded, Missing, no_overload
from purekube.cel.operators import (
    Evaluator,
    Scope,
    arithmetic,
    boolean,
    comparison,
    contained,
    decided,
    equality,
    negated,
)
from purekube.cel.signatures import Function, FunctionTable, named
from purekube.cel.syntax import Expression, dotted, size_of, unescape
from purekube.cel.values import ABSENT, OptionalValue, TypeValue, is_number, look_up

TYPES: Final[Mapping[str, TypeValue]] = {
    name: TypeValue(name)
    for name in (
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.URL",
        "kubernetes.Semver",
    )
}
"""The values of the names that denote types, such as `int`."""

_FAILURES: Final = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError)
"""The Python exceptions that a CEL function may raise for arguments of types that it does not accept."""


def build(node: Expression, functions: FunctionTable, known: frozenset[str] = frozenset()) -> Evaluator:
    """Compile a syntax tree to a function. It takes a scope (variables with their values) and returns the expression's
    value.

    `functions` are the functions that the expression may call. `known` are the names of variables. In the tree such a
    name means the variable, even if a type or function has the same name.
    """
    return _Builder(functions, known).build(node)


class _Builder:
    def __init__(self, functions: FunctionTable, known: frozenset[str]) -> None:
        self._functions = functions
        self._known = known

    def build(self, node: Expression) -> Evaluator:  # noqa: C901 - one case per kind of node
        match node:
            case syntax.Literal(value):
                return lambda scope: value
            case syntax.Identifier(name):
                return self._identifier(name)
            case syntax.Select():
                return self._select(node)
            case syntax.Index(operand, key, optional):
                return _index(self.build(operand), self.build(key), optional)
            case syntax.HasMacro(operand, field, quoted):
                return _present(self.build(operand), field, quoted)
            case syntax.Call():
                return self._call(node)
            case syntax.Macro():
                return self._macro(node)
            case syntax.Bind(name, value, body):
                return self._bind(name, value, body)
            case syntax.Unary(operator, operand):
                return self._unary(operator, operand)
            case syntax.Binary(operator, left, right):
                return _binary(operator, self.build(left), self.build(right))
            case syntax.Conditional(condition, positive, negative):
                return _conditional(self.build(condition), self.build(positive), self.build(negative))
            case syntax.ListLiteral(items, optionals):
                return _list([self.build(item) for item in items], optionals)
            case syntax.MapLiteral(entries, optionals):
                return _map([(self.build(key), self.build(value)) for key, value in entries], optionals)
            case _:
                assert_never(node)

    def _inside(self, names: tuple[str, ...]) -> "_Builder":
        return _Builder(self._functions, self._known.union(names))

    def _identifier(self, name: str) -> Evaluator:
        if name not in self._known and name in TYPES:
            constant = TYPES[name]
            return lambda scope: constant

        def run(scope: Scope) -> Any:
            try:
                return scope[name]
            except KeyError:
                raise Missing(f"undeclared reference to {name!r}") from None

        return run

    def _select(self, node: syntax.Select) -> Evaluator:
        name = dotted(node)
        if name in TYPES and name.partition(".")[0] not in self._known:
            constant = TYPES[name]
            return lambda scope: constant
        operand = self.build(node.operand)
        plain = node.field if node.quoted else unescape(node.field)
        return _optional_select(operand, node.field, plain) if node.optional else _select(operand, node.field, plain)

    def _unary(self, operator: str, operand: Expression) -> Evaluator:
        run = self.build(operand)
        if operator == "!":
            return lambda scope: not boolean(run(scope))
        return lambda scope: negated(run(scope))

    # --- functions ----------------------------------------------------------------------------------------------------

    def _call(self, node: syntax.Call) -> Evaluator:
        lazy = self._lazy(node)
        if lazy is not None:
            return lazy
        arguments = [self.build(argument) for argument in node.arguments]
        function = self.function(node)
        if function is None:
            return _unknown(node.name)
        if function.method:
            assert node.target is not None
            arguments.insert(0, self.build(node.target))
        return _called(function, arguments)

    def function(self, node: syntax.Call) -> Function | None:
        """Return the function that a call names: a library function such as `math.abs(x)`, or a method; None if
        unknown.
        """
        count = len(node.arguments)
        if node.target is None:
            return named(self._functions, node.name, False, count)
        library = dotted(node.target)
        if library.partition(".")[0] not in self._known:
            function = named(self._functions, f"{library}.{node.name}", False, count)
            if function is not None:
                return function
        return named(self._functions, node.name, True, count)

    def _lazy(self, node: syntax.Call) -> Evaluator | None:
        """Compile `or` or `orValue`, whose argument is evaluated only if the target is absent; None for any
        other call.
        """
        if node.target is None or len(node.arguments) != 1 or node.name not in ("or", "orValue"):
            return None
        target, other, whole = self.build(node.target), self.build(node.arguments[0]), node.name == "or"

        def run(scope: Scope) -> Any:
            value = target(scope)
            if not isinstance(value, OptionalValue):
                raise no_overload()
            if value.present:
                return value if whole else value.value
            instead = other(scope)
            if whole and not isinstance(instead, OptionalValue):
                raise no_overload()
            return instead

        return run

    # --- macros -------------------------------------------------------------------------------------------------------

    def _bind(self, name: str, value: Expression, body: Expression) -> Evaluator:
        first, then = self.build(value), self._inside((name,)).build(body)
        return lambda scope: then({**scope, name: first(scope)})

    def _macro(self, node: syntax.Macro) -> Evaluator:
        inside = self._inside(node.variables)
        target = self.build(node.target)
        body = inside.build(node.body) if node.body is not None else None
        transform = inside.build(node.transform) if node.transform is not None else None
        bodies = [part for part in (node.body, node.transform) if part is not None]
        loop = _Loop(target, node.variables, 1 + sum(map(size_of, bodies)))
        return _macro(node.name, loop, body, transform)


def _unknown(name: str) -> Evaluator:
    def run(scope: Scope) -> Any:
        raise EvaluationError(f"unknown function {name}()")

    return run


def _called(definition: Function, arguments: list[Evaluator]) -> Evaluator:
    function, cost, name, with_budget = definition.run, definition.cost, definition.name, definition.with_budget

    def run(scope: Scope) -> Any:
        values = [argument(scope) for argument in arguments]
        try:
            if cost is not None:
                scope[None].spend(cost(*values))
            return function(scope[None], *values) if with_budget else function(*values)
        except CelError:
            raise
        except _FAILURES as error:
            raise EvaluationError(f"no such overload: {name}()") from error

    return run


# --- parts of values -------------------------------------------------------------------------------------------------


def _select(operand: Evaluator, field: str, plain: str) -> Evaluator:
    def run(scope: Scope) -> Any:
        value = operand(scope)
        # The usual case first and without a call: a field that is present in a plain object.
        if type(value) is dict:
            try:
                return value[field]
            except KeyError:
                pass
        return _member(value, field, plain)

    return run


def _member(value: Any, field: str, plain: str) -> Any:
    if isinstance(value, OptionalValue):
        return _optionally(value.value, field, plain) if value.present else ABSENT
    if not isinstance(value, Mapping):
        raise no_overload()
    if field in value:
        return value[field]
    if plain in value:
        return value[plain]
    raise Missing(f"no such key: {plain}")


def _optionally(value: Any, field: str, plain: str) -> OptionalValue:
    if not isinstance(value, Mapping):
        raise no_overload()
    key = field if field in value else plain
    return OptionalValue(value[key], True) if key in value else ABSENT


def _optional_select(operand: Evaluator, field: str, plain: str) -> Evaluator:
    def run(scope: Scope) -> Any:
        value = operand(scope)
        if isinstance(value, OptionalValue):
            return _optionally(value.value, field, plain) if value.present else ABSENT
        return _optionally(value, field, plain)

    return run


def _present(operand: Evaluator, field: str, quoted: bool) -> Evaluator:
    plain = field if quoted else unescape(field)

    def run(scope: Scope) -> bool:
        value = operand(scope)
        if isinstance(value, OptionalValue):
            if not value.present:
                return False
            value = value.value
        if not isinstance(value, Mapping):
            raise no_overload()
        return field in value or plain in value

    return run


def _index(operand: Evaluator, key: Evaluator, optional: bool) -> Evaluator:
    def run(scope: Scope) -> Any:
        value, at = operand(scope), key(scope)
        wrapped = optional
        if isinstance(value, OptionalValue):
            if not value.present:
                return ABSENT
            value, wrapped = value.value, True
        if not wrapped:
            return _at(value, at)
        try:
            return OptionalValue(_at(value, at), True)
        except Missing:
            return ABSENT

    return run


def _at(value: Any, at: Any) -> Any:
    if isinstance(value, Mapping):
        return look_up(value, at)
    # cel-go takes a double without a fraction as an index, too (common/types/list.go, IndexOrError).
    if isinstance(value, list) and is_number(at):
        if at != at or at in (float("inf"), float("-inf")) or at != int(at):
            raise EvaluationError(f"{at} is no index")
        if not 0 <= at < len(value):
            raise Missing(f"index out of bounds: {at}")
        return value[int(at)]
    raise no_overload()


# --- operators and literals ------------------------------------------------------------------------------------------


def _binary(operator: str, left: Evaluator, right: Evaluator) -> Evaluator:
    match operator:
        case "&&":
            return decided(left, right, False)
        case "||":
            return decided(left, right, True)
        case "==" | "!=":
            return equality(left, right, operator == "==")
        case "<" | "<=" | ">" | ">=":
            return comparison(operator, left, right)
        case "in":
            return lambda scope: contained(left(scope), right(scope), scope[None])
        case _:
            return lambda scope: arithmetic(operator, left(scope), right(scope), scope[None])


def _conditional(condition: Evaluator, positive: Evaluator, negative: Evaluator) -> Evaluator:
    return lambda scope: positive(scope) if boolean(condition(scope)) else negative(scope)


def _present_values(run: Evaluator, optional: bool, scope: Scope) -> Iterator[Any]:
    """Yield the value of one element of a list literal. Yield nothing if the element is optional (`?`) and absent."""
    value = run(scope)
    if not optional:
        yield value
    elif not isinstance(value, OptionalValue):
        raise no_overload()
    elif value.present:
        yield value.value


def _list(items: list[Evaluator], optionals: frozenset[int]) -> Evaluator:
    if not optionals:
        return lambda scope: [item(scope) for item in items]
    return lambda scope: [
        element for at, item in enumerate(items) for element in _present_values(item, at in optionals, scope)
    ]


def _map(entries: list[tuple[Evaluator, Evaluator]], optionals: frozenset[int]) -> Evaluator:
    def run(scope: Scope) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for at, (key, value) in enumerate(entries):
            name = _key(key(scope), out)
            for element in _present_values(value, at in optionals, scope):
                out[name] = element
        return out

    return run


def _key(key: Any, taken: Mapping[Any, Any]) -> Any:
    if not isinstance(key, (str, int)):
        raise EvaluationError("a key is a text, a number without a fraction, true or false")
    if key in taken:
        raise EvaluationError(f"the key {key} stands there twice")
    return key


# --- loops -----------------------------------------------------------------------------------------------------------


class _Loop:
    """The iteration of a macro such as `all` over a list or a map.

    With one variable it yields the items of a list or the keys of a map; with two variables, pairs of index and item,
    or of key and value.
    """

    __slots__ = ("cost", "first", "second", "target")

    def __init__(self, target: Evaluator, variables: tuple[str, ...], cost: int) -> None:
        self.target = target
        self.first = variables[0]
        self.second = variables[1] if len(variables) > 1 else None
        self.cost = cost

    def scopes(self, scope: Scope) -> Iterator[tuple[Any, Scope]]:
        """Yield each item with a scope for the macro's body that holds the item. The scope is the same dict each time,
        changed in place.
        """
        value = self.target(scope)
        if not isinstance(value, (list, Mapping)):
            raise no_overload()
        inner, budget, cost, first = dict(scope), scope[None], self.cost, self.first
        if self.second is None:
            for item in value:
                budget.spend(cost)
                inner[first] = item
                yield item, inner
            return
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in pairs:
            budget.spend(cost)
            inner[first], inner[self.second] = key, item
            yield key, inner


def _macro(name: str, loop: _Loop, body: Evaluator | None, transform: Evaluator | None) -> Evaluator:
    if body is None:
        return _transform(name, loop, None, transform)
    match name:
        case "all":
            return _quantified(loop, body, False)
        case "exists":
            return _quantified(loop, body, True)
        case "exists_one" | "existsOne":
            return lambda scope: sum(boolean(body(inner)) for _, inner in loop.scopes(scope)) == 1
        case "filter":
            return lambda scope: _built(scope, (item for item, inner in loop.scopes(scope) if boolean(body(inner))))
        case "map" if transform is None:
            return lambda scope: _built(scope, (body(inner) for _, inner in loop.scopes(scope)))
        case "map":
            return _transform("transformList", loop, body, transform)
        case "sortBy":
            return _sort_by(loop, body)
        case "optMap" | "optFlatMap":
            return _opt_map(loop, body, name == "optFlatMap")
        case _:
            return _transform(name, loop, body, transform)


def _built(scope: Scope, items: Iterator[Any]) -> list[Any]:
    out, budget = [], scope[None]
    for item in items:
        budget.build_items(1)
        out.append(item)
    return out


def _quantified(loop: _Loop, body: Evaluator, deciding: bool) -> Evaluator:
    """Compile the macro `all` or `exists`. An item for which `body` has the value `deciding` decides the result, even
    if other items fail. `deciding` is False for `all` and True for `exists`.
    """

    def run(scope: Scope) -> bool:
        failure: CelError | None = None
        for _, inner in loop.scopes(scope):
            try:
                if boolean(body(inner)) is deciding:
                    return deciding
            except LimitExceeded:
                raise
            except CelError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not deciding

    return run


def _sort_by(loop: _Loop, body: Evaluator) -> Evaluator:
    def run(scope: Scope) -> list[Any]:
        pairs = [(item, body(inner)) for item, inner in loop.scopes(scope)]
        return sorted_by(scope[None], [item for item, _ in pairs], [key for _, key in pairs])

    return run


def _opt_map(loop: _Loop, body: Evaluator, flat: bool) -> Evaluator:
    def run(scope: Scope) -> Any:
        value = loop.target(scope)
        if not isinstance(value, OptionalValue):
            raise no_overload()
        if not value.present:
            return ABSENT
        result = body({**scope, loop.first: value.value})
        if flat and not isinstance(result, OptionalValue):
            raise no_overload()
        return result if flat else OptionalValue(result, True)

    return run


def _transform(name: str, loop: _Loop, body: Evaluator | None, transform: Evaluator | None) -> Evaluator:
    assert transform is not None, "the parser gives these macros a transform"
    passed: Callable[[Scope], bool] = (lambda inner: True) if body is None else (lambda inner: boolean(body(inner)))
    if name == "transformList":
        return lambda scope: _built(scope, (transform(inner) for _, inner in loop.scopes(scope) if passed(inner)))

    def run(scope: Scope) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key, inner in loop.scopes(scope):
            if not passed(inner):
                continue
            made = transform(inner)
            entries = {key: made} if name == "transformMap" else made
            if not isinstance(entries, Mapping):
                raise no_overload()
            scope[None].build_items(len(entries))
            for new_key, value in entries.items():
                out[_key(new_key, out)] = value
        return out

    return run

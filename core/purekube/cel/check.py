"""The static check of expressions: their type, what they read, and what can never work, such as undefined fields.

It knows the types of variables from schemas, and no values.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, TypeAlias, assert_never

import attrs

from purekube.cel import syntax, types
from purekube.cel.evaluate import TYPES
from purekube.cel.limits import CelSyntaxError
from purekube.cel.signatures import FunctionTable, Signature, named
from purekube.cel.syntax import Expression, constructor, dotted, unescape
from purekube.cel.types import BOOL, DYN, INT, CelType, joined, list_of, map_of, optional_of, substituted, unify
from purekube.cel.values import type_name
from purekube.regex import PatternError, compile_pattern

ITEM: Final = "[*]"
"""The path step for any item of a list, or any entry of a map."""

VariablePath: TypeAlias = tuple[str, ...]
"""A variable and the fields below it that are read: `("self", "spec", "ports", "[*]", "name")`."""

_ORDERED: Final = frozenset(("int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration", "dyn"))
_NUMBERS: Final = frozenset(("int", "uint", "double"))
_PATTERNS: Final = frozenset(("matches", "find", "findAll"))
_LITERALS: Final[Mapping[str, CelType]] = {
    "bool": BOOL,
    "int": INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null_type": types.NULL,
}


@attrs.frozen(order=True)
class FieldRead:
    """A path that an expression reads, such as `self.spec.host`.

    `soft` says that the expression tolerates that nothing exists at the path, as in `.?x` and `has(x)`.
    """

    path: VariablePath
    soft: bool = False


@attrs.frozen(order=True)
class Absence:
    """A field that may be absent but is read without a test. `at` is the position of the read in the text."""

    path: VariablePath
    at: int


@attrs.frozen
class Checked:
    """The result of a type check: the expression's type and the paths that it reads.

    `absences` lists those of the paths that may be absent, `unknown` those whose type is unknown.
    """

    type: CelType
    reads: frozenset[FieldRead]
    absences: tuple[Absence, ...]
    unknown: frozenset[VariablePath]

    def uses(self, variable: str) -> bool:
        """Report whether the expression reads the variable or any part of it."""
        return any(read.path[0] == variable for read in self.reads)


@attrs.frozen
class _Variable:
    type: CelType
    path: VariablePath | None


_Scope: TypeAlias = Mapping[str, _Variable]


def check(tree: Expression, source: str, variables: Mapping[str, CelType], functions: FunctionTable) -> Checked:
    """Return the type of the expression `tree` and the paths that it reads.

    `source` is the text of the expression, for messages. `variables` maps the names of variables to types. `functions`
    are the functions that the expression may call. Raises CelSyntaxError if no evaluation can succeed.
    """
    checker = _Checker(source, functions)
    scope = {name: _Variable(kind, (name,)) for name, kind in variables.items()}
    result = checker.visit(tree, scope)
    return Checked(result, frozenset(checker.reads), tuple(sorted(checker.absences)), frozenset(checker.unknown))


class _Checker:
    def __init__(self, source: str, functions: FunctionTable) -> None:
        self._source = source
        self._functions = functions
        self._present: frozenset[VariablePath] = frozenset()
        self.reads = set[FieldRead]()
        self.absences = set[Absence]()
        self.unknown = set[VariablePath]()

    def visit(self, node: Expression, scope: _Scope) -> CelType:
        match node:
            case syntax.Literal(value):
                return _LITERALS[type_name(value)]
            case syntax.Identifier() | syntax.Select() | syntax.Index() | syntax.HasMacro():
                return self._place(node, scope)
            case syntax.Call():
                return self._call(node, scope)
            case syntax.Macro():
                return self._macro(node, scope)
            case syntax.Bind(name, value, body):
                bound = _Variable(self.visit(value, scope), self._path(value, scope))
                return self.visit(body, {**scope, name: bound})
            case syntax.Unary(operator, operand):
                return self._unary(operator, self.visit(operand, scope), node.at)
            case syntax.Binary():
                return self._binary(node, scope)
            case syntax.Conditional():
                return self._conditional(node, scope)
            case syntax.ListLiteral(items, optionals):
                item_types = [self._element(item, at in optionals, scope) for at, item in enumerate(items)]
                return list_of(joined(item_types))
            case syntax.MapLiteral(entries, optionals):
                keys = [self.visit(key, scope) for key, _ in entries]
                values = [self._element(value, at in optionals, scope) for at, (_, value) in enumerate(entries)]
                return map_of(joined(values), joined(keys))
            case _:
                assert_never(node)

    def _error(self, what: str, at: int) -> CelSyntaxError:
        return CelSyntaxError(what, self._source, at)

    def _want(self, cel_type: CelType, actual: CelType, where: str, at: int) -> None:
        if not actual.fits(cel_type):
            raise self._error(f"no matching overload for {where!r} applied to {actual}", at)

    def _element(self, node: Expression, optional: bool, scope: _Scope) -> CelType:
        actual = self.visit(node, scope)
        if not optional:
            return actual
        if actual.name not in ("optional", "dyn"):
            raise self._error(f"what stands behind ? is an optional value, not {actual}", node.at)
        return actual.item

    # --- places -------------------------------------------------------------------------------------------------------

    def _place(
        self, node: syntax.Identifier | syntax.Select | syntax.Index | syntax.HasMacro, scope: _Scope
    ) -> CelType:
        """Return the type of a field or variable, and record the path of the field as read by the expression."""
        kind = self._type_at(node, scope)
        path = self._path(node, scope)
        if path is not None:
            self.reads.add(FieldRead(path, _is_soft(node)))
        return kind

    def _type_at(self, node: Expression, scope: _Scope) -> CelType:
        match node:
            case syntax.Identifier():
                return self._identifier(node, scope)
            case syntax.Select():
                return self._select(node, scope)
            case syntax.HasMacro(operand, field):
                self._field(self._type_at(operand, scope), field, node.at)
                return BOOL
            case syntax.Index():
                return self._index(node, scope)
            case _:
                return self.visit(node, scope)

    def _path(self, node: Expression, scope: _Scope) -> VariablePath | None:
        match node:
            case syntax.Identifier(name):
                return scope[name].path if name in scope else None
            case syntax.Select(operand, field, _, quoted) | syntax.HasMacro(operand, field, quoted):
                before = self._path(operand, scope)
                return None if before is None else (*before, field if quoted else unescape(field))
            case syntax.Index(operand, key):
                before = self._path(operand, scope)
                step = key.value if isinstance(key, syntax.Literal) and isinstance(key.value, str) else ITEM
                return None if before is None else (*before, step)
            case _:
                return None

    def _identifier(self, node: syntax.Identifier, scope: _Scope) -> CelType:
        if node.name in scope:
            return scope[node.name].type
        if node.name in TYPES:
            return types.TYPE
        near = get_close_matches(node.name, (name for name in scope if "'" not in name), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise self._error(f"undeclared reference to {node.name!r}{hint}", node.at)

    def _select(self, node: syntax.Select, scope: _Scope) -> CelType:
        name = dotted(node)
        if name in TYPES and name.partition(".")[0] not in scope:
            return types.TYPE
        field = self._field(self._type_at(node.operand, scope), node.field, node.at)
        path = self._path(node, scope)
        if path is not None and field.type.name == "dyn":
            self.unknown.add(path)
        if node.optional:
            return field.type if field.type.name == "optional" else optional_of(field.type)
        if field.optional and path is not None and path not in self._present:
            self.absences.add(Absence(path, node.at))
        return field.type

    def _field(self, operand: CelType, name: str, at: int) -> types.Field:
        if operand.name == "optional":
            inner = self._field(operand.item, name, at)
            return types.Field(inner.type if inner.type.name == "optional" else optional_of(inner.type))
        if operand.fields is not None:
            field = operand.fields.get(name)
            if field is None:
                near = get_close_matches(name, operand.fields, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise self._error(f"undefined field {name!r}{hint}", at)
            return field
        if operand.name == "map":
            return types.Field(operand.item)
        if operand.name == "dyn":
            return types.Field(DYN)
        raise self._error(f"a value of type {operand} has no field {name!r}", at)

    def _index(self, node: syntax.Index, scope: _Scope) -> CelType:
        operand = self._type_at(node.operand, scope)
        key = self.visit(node.key, scope)
        inner = operand.item if operand.name == "optional" else operand
        if inner.name == "list":
            self._want(INT, key if key.name not in _NUMBERS else INT, "[]", node.at)
        elif inner.name not in ("map", "object", "dyn"):
            raise self._error(f"a value of type {operand} has no items", node.at)
        elif inner.name == "map":
            self._want(inner.key, key, "[]", node.at)
        item = inner.item if inner.name in ("list", "map") else DYN
        return optional_of(item) if node.optional or inner is not operand else item

    # --- operators ----------------------------------------------------------------------------------------------------

    def _unary(self, operator: str, operand: CelType, at: int) -> CelType:
        if operator == "!":
            self._want(BOOL, operand, "!", at)
            return BOOL
        if operand.name not in ("int", "double", "dyn"):
            raise self._error(f"no matching overload for '-' applied to {operand}", at)
        return operand

    def _binary(self, node: syntax.Binary, scope: _Scope) -> CelType:
        if node.operator in ("&&", "||"):
            self._want(BOOL, self.visit(node.left, scope), node.operator, node.at)
            facts = _facts(node.left, node.operator == "&&")
            self._want(BOOL, self._given(facts, node.right, scope), node.operator, node.at)
            return BOOL
        left, right = self.visit(node.left, scope), self.visit(node.right, scope)
        result = _operate(node.operator, left, right)
        if result is None:
            hint = ": write string(…)" if node.operator == "+" and _makes_text(left, right) else ""
            raise self._error(f"no matching overload for {node.operator!r} applied to ({left}, {right}){hint}", node.at)
        return result

    def _conditional(self, node: syntax.Conditional, scope: _Scope) -> CelType:
        self._want(BOOL, self.visit(node.condition, scope), "? :", node.at)
        positive = self._given(_facts(node.condition, True), node.positive, scope)
        negative = self._given(_facts(node.condition, False), node.negative, scope)
        return joined([positive, negative])

    def _given(self, facts: list[syntax.HasMacro], node: Expression, scope: _Scope) -> CelType:
        """Return the type of `node`, which is evaluated only if the fields in `facts` are present."""
        paths = (self._path(fact, scope) for fact in facts)
        before = self._present
        self._present = before.union(path for path in paths if path is not None)
        try:
            return self.visit(node, scope)
        finally:
            self._present = before

    # --- functions ----------------------------------------------------------------------------------------------------

    def _call(self, node: syntax.Call, scope: _Scope) -> CelType:
        if node.target is not None and len(node.arguments) == 1 and node.name in ("or", "orValue"):
            return self._alternative(node, node.target, scope)
        arguments = [self.visit(argument, scope) for argument in node.arguments]
        self._check_pattern(node)
        library = dotted(node.target) if node.target is not None else ""
        in_library = f"{library}.{node.name}"
        if node.target is None:
            return self._applied(node, node.name, False, arguments)
        root = library.partition(".")[0]
        if (
            root
            and root not in scope
            and (named(self._functions, in_library, False, len(arguments)) or root not in TYPES)
        ):
            return self._applied(node, in_library, False, arguments)
        return self._applied(node, node.name, True, [self.visit(node.target, scope), *arguments])

    def _alternative(self, node: syntax.Call, target: Expression, scope: _Scope) -> CelType:
        receiver, other = self.visit(target, scope), self.visit(node.arguments[0], scope)
        if receiver.name not in ("optional", "dyn"):
            raise self._error(f"{node.name}() is a method of optional values, not of {receiver}", node.at)
        inner = receiver.item if receiver.name == "optional" else DYN
        if node.name == "or":
            self._want(optional_of(DYN), other, "or", node.at)
            return optional_of(joined([inner, other.item])) if other.name == "optional" else optional_of(inner)
        if not (other.fits(inner) or inner.fits(other)):
            raise self._error(f"no matching overload for 'orValue' applied to ({receiver}, {other})", node.at)
        return joined([inner, other])

    def _check_pattern(self, node: syntax.Call) -> None:
        """Raise CelSyntaxError if a regular expression among the arguments is a literal and invalid."""
        last = node.arguments[-1] if node.arguments else None
        if node.name == "findAll" and len(node.arguments) == 2:
            last = node.arguments[0]
        if node.name in _PATTERNS and isinstance(last, syntax.Literal) and isinstance(last.value, str):
            try:
                compile_pattern(last.value)
            except PatternError as error:
                raise self._error(f"{last.value!r} is no regular expression: {error}", last.at) from error

    def _applied(self, node: syntax.Call, name: str, method: bool, arguments: list[CelType]) -> CelType:
        count = len(arguments) - method
        function = named(self._functions, name, method, count)
        if function is None:
            raise self._error(self._no_function(name, method, count), node.at)
        forms_met = (form for form in function.signatures if len(function.signatures) == 1 or _is_for(form, arguments))
        results = [result for form in forms_met if (result := _result(form, arguments)) is not None]
        if not results:
            shown = ", ".join(map(str, arguments))
            forms = "; ".join(signature.text for signature in function.signatures[:4])
            raise self._error(f"no matching overload for {name!r} applied to ({shown}); it is {forms}", node.at)
        return results[0] if len(results) == 1 else joined(results)

    def _no_function(self, name: str, method: bool, count: int) -> str:
        if name.endswith(constructor("")):
            return f"there is no type {name.removesuffix(constructor(''))}"
        what = "method" if method else "function"
        counts = sorted(key[2] for key in self._functions if key[0] == name and key[1] is method)
        if counts:
            return f"{what} {name}() takes {' or '.join(map(str, counts))} arguments, not {count}"
        near = get_close_matches(name, {key[0] for key in self._functions if key[1] is method}, 1)
        hint = f"; did you mean {near[0]}()?" if near else ""
        return f"there is no {what} {name}(){hint}"

    # --- macros -------------------------------------------------------------------------------------------------------

    def _macro(self, node: syntax.Macro, scope: _Scope) -> CelType:
        target = self.visit(node.target, scope)
        path = self._path(node.target, scope)
        if node.name in ("optMap", "optFlatMap"):
            return self._opt_map(node, target, path, scope)
        if target.name not in ("list", "map", "object", "dyn"):
            raise self._error(f"{node.name}() is a macro of lists and maps, not of {target}", node.at)
        inner = {**scope, **_variables(node.variables, target, path)}
        body = BOOL if node.body is None else self.visit(node.body, inner)
        if node.name not in ("sortBy", "map") or node.transform is not None:
            self._want(BOOL, body, f"{node.name}()", node.at)
        facts = [] if node.body is None else _facts(node.body, True)
        transform = None if node.transform is None else self._given(facts, node.transform, inner)
        return _macro_type(node, target, body, transform, inner[node.variables[0]].type)

    def _opt_map(self, node: syntax.Macro, target: CelType, path: VariablePath | None, scope: _Scope) -> CelType:
        if target.name not in ("optional", "dyn"):
            raise self._error(f"{node.name}() is a macro of optional values, not of {target}", node.at)
        assert node.body is not None
        item = target.item if target.name == "optional" else DYN
        body = self.visit(node.body, {**scope, node.variables[0]: _Variable(item, path)})
        if node.name == "optMap":
            return optional_of(body)
        self._want(optional_of(DYN), body, "optFlatMap()", node.at)
        return body


def _is_soft(node: Expression) -> bool:
    match node:
        case syntax.HasMacro():
            return True
        case syntax.Select(operand, _, optional) | syntax.Index(operand, _, optional):
            return optional or _is_soft(operand)
        case _:
            return False


def facts_of(tree: Expression) -> frozenset[VariablePath]:
    """Return the paths that certainly exist if the expression is true, as in `has(self.spec.host) && …`."""
    found = (_names_of(fact) for fact in _facts(tree, True))
    return frozenset(path for path in found if path)


def _names_of(node: Expression) -> VariablePath:
    """Return the names of a select expression `a.b.c` as a tuple; () for any other expression."""
    match node:
        case syntax.Identifier(name):
            return (name,)
        case syntax.Select(operand, field, _, quoted) | syntax.HasMacro(operand, field, quoted):
            before = _names_of(operand)
            return (*before, field if quoted else unescape(field)) if before else ()
        case _:
            return ()


def _facts(node: Expression, truth: bool) -> list[syntax.HasMacro]:
    """Return the fields that certainly exist if the condition `node` is `truth`, each as a `has(…)` macro in `node`."""
    match node:
        case syntax.HasMacro() if truth:
            return [node]
        case syntax.Unary("!", operand):
            return _facts(operand, not truth)
        case syntax.Binary("&&", left, right) if truth:
            return [*_facts(left, True), *_facts(right, True)]
        case syntax.Binary("||", left, right) if not truth:
            return [*_facts(left, False), *_facts(right, False)]
        case _:
            return []


def _is_for(signature: Signature, arguments: list[CelType]) -> bool:
    """Report whether an overload may apply to the arguments.

    An overload for `list(dyn)` does not accept a list with typed items.
    """
    first = signature.parameters[0] if signature.parameters else DYN
    return first != list_of(DYN) or arguments[0].name != "list" or arguments[0].item.name == "dyn"


def _result(signature: Signature, arguments: list[CelType]) -> CelType | None:
    desired = list(signature.parameters)
    if len(arguments) < len(desired):  # a function of any number of arguments without one
        return None
    desired += desired[-1:] * (len(arguments) - len(desired))
    bound: dict[str, CelType] = {}
    if all(unify(parameter, argument, bound) for parameter, argument in zip(desired, arguments, strict=True)):
        return substituted(signature.result, bound)
    return None


def _variables(names: tuple[str, ...], target: CelType, path: VariablePath | None) -> dict[str, _Variable]:
    """Return the variables of a macro with their types.

    One name is a list's item or a map's key; two names are index and item, or key and value.
    """
    below = None if path is None else (*path, ITEM)
    item = target.item if target.name in ("list", "map") else DYN
    key = INT if target.name == "list" else target.key if target.name == "map" else DYN
    if len(names) == 2:
        return {names[0]: _Variable(key, None), names[1]: _Variable(item, below)}
    return {names[0]: _Variable(item, below) if target.name == "list" else _Variable(key, below)}


def _macro_type(
    node: syntax.Macro, target: CelType, body: CelType, transform: CelType | None, first: CelType
) -> CelType:
    match node.name:
        case "map" | "transformList":
            return list_of(body if transform is None else transform)
        case "filter":
            return list_of(first)
        case "sortBy":
            return target if target.name == "list" else list_of(DYN)
        case "transformMap":
            return map_of(transform or DYN, first if target.name == "map" else INT if target.name == "list" else DYN)
        case "transformMapEntry":
            return transform if transform is not None and transform.name == "map" else map_of(DYN, DYN)
        case _:
            return BOOL


def _makes_text(left: CelType, right: CelType) -> bool:
    """Report whether one operand is a string, and the other a value that the function `string` converts to text."""
    others = {left, right} - {types.STRING}
    return types.STRING in (left, right) and all(other.name in ("int", "uint", "double", "bool") for other in others)


def _operate(operator: str, left: CelType, right: CelType) -> CelType | None:
    """Return the result type of a binary operator; None if the operator does not accept these types."""
    match operator:
        case "==" | "!=":
            alike = left.fits(right) or right.fits(left) or "null_type" in (left.name, right.name)
            return BOOL if alike else None
        case "in":
            return BOOL if _contains(left, right) else None
        case "<" | "<=" | ">" | ">=":
            numbers = {left.name, right.name} <= _NUMBERS
            ordered = left.fits(right) and left.name in _ORDERED and right.name in _ORDERED
            return BOOL if numbers or ordered else None
        case _:
            return _arithmetic(operator, left, right)


def _contains(left: CelType, right: CelType) -> bool:
    match right.name:
        case "list":
            return left.fits(right.item)
        case "map":
            return left.fits(right.key)
        case _:
            return right.name in ("object", "dyn")


def _arithmetic(operator: str, left: CelType, right: CelType) -> CelType | None:
    if "dyn" in (left.name, right.name):
        return _with_dyn(operator, left if right.name == "dyn" else right)
    match left.name, operator, right.name:
        case ("timestamp", "+" | "-", "duration") | ("duration", "+", "timestamp"):
            return types.TIMESTAMP
        case ("timestamp", "-", "timestamp") | ("duration", "+" | "-", "duration"):
            return types.DURATION
        case ("int", _, "int") | ("uint", _, "uint"):
            return left
        case ("double", "+" | "-" | "*" | "/", "double"):
            return left
        case ("string", "+", "string") | ("bytes", "+", "bytes"):
            return left
        case ("list", "+", "list"):
            return list_of(joined([left.item, right.item])) if left.fits(right) or right.fits(left) else list_of(DYN)
    return None


def _with_dyn(operator: str, other: CelType) -> CelType | None:
    """Return the result type of arithmetic on a `dyn` operand and an operand of type `other`; None if it
    always fails.
    """
    if other.name in ("timestamp", "duration", "dyn"):
        return DYN if other.name == "dyn" or operator in "+-" else None
    if other.name in ("string", "bytes", "list"):
        return other if operator == "+" else None
    return other if other.name in _NUMBERS and not (other.name == "double" and operator == "%") else None

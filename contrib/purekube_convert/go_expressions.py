"""The translation of a parsed Go template to a CEL expression with the same meaning.

In a Go template an absent value is empty text; in a box the absent value is an optional without a value. A field whose
whole value is absent is therefore left out. Inside a text or as an argument, an absent value becomes what Go prints:
empty text, 0 or false.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from purekube.cel.syntax import escape
from purekube.cel.types import BOOL, DOUBLE, DYN, INT, STRING, CelType, list_of, map_of
from purekube_convert.go_template import GoCall, GoConstant, If, Node, Part, Path, TemplateError, parse_template
from purekube_convert.result import joined_parts

_ZERO: Final = {"string": "''", "int": "0", "double": "0.0", "bool": "false", "list": "[]", "map": "{}"}
_COUNTS: Final = " && ".join(f"dyn(v) != {empty}" for empty in ("null", "false", "0", "''", "[]", "{}"))
"""The CEL condition that Go counts `v`, a value of unknown type, as true."""
_CONSTANT: Final = re.compile(r"""['"].*|-?\d+(?:\.\d+)?|true|false""", re.DOTALL)
_MOST_PARTS: Final = 64


@attrs.frozen
class Value:
    """The text of a CEL expression with its type.

    If `maybe` is True, the value of the expression is a CEL optional. If `atom` is True, the text needs no parentheses
    as an operand. `truth` is the condition that Go counts the value as true, if it does not follow from the value.
    """

    text: str
    type: CelType = DYN
    maybe: bool = False
    atom: bool = True
    truth: str = ""

    @property
    def bare(self) -> str:
        """The expression's text, in parentheses if it needs them as an operand."""
        return self.text if self.atom else f"({self.text})"

    @property
    def sure(self) -> "Value":
        """The expression without a CEL optional: an absent value is replaced by the empty value of its type."""
        if not self.maybe:
            return self
        return Value(f"{self.bare}.orValue({_ZERO.get(self.type.name, _ZERO['string'])})", self.type)


@attrs.frozen
class TemplateScope:
    """The names with which a path in a Go template may begin.

    The names mean the parent (the custom resource), its children (the objects that the operator creates for it, by the
    keys that Orkestra gives them), and the items of a loop.
    """

    parent: CelType = DYN
    children: Mapping[str, Value] = attrs.field(factory=dict)
    items: Mapping[str, Value] = attrs.field(factory=dict)
    unclear: Mapping[str, str] = attrs.field(factory=dict)
    """Keys of children that mean no single object, with the reason."""


def expression_of_path(steps: Sequence[str], scope: TemplateScope, *, waits: bool = True) -> Value:
    """Return the CEL expression for a path in a Go template, such as `.spec.image`, which is given by its steps.

    `scope` has the names with which the path may begin. With `waits`, a field of a child is read directly, because the
    box waits for it; otherwise every field that may be absent is a CEL optional. Raises TemplateError for a path that
    no CEL expression of a box can express.
    """
    if not steps:
        raise TemplateError("the whole object has no counterpart: name a field of it")
    root, *rest = steps
    if root in scope.items:
        return _walk(scope.items[root], rest, unknown=not waits)
    if root == "children":
        return _child(rest, scope, waits)
    if root not in ("metadata", "spec", "status"):
        raise TemplateError(f".{root} has no counterpart in a box")
    return _walk(Value("self", scope.parent), steps, unknown=not waits)


def _child(steps: Sequence[str], scope: TemplateScope, waits: bool) -> Value:
    if not steps:
        raise TemplateError(".children has no counterpart: name one, as in .children.deployment")
    key = steps[0].lower()
    if key in scope.unclear:
        raise TemplateError(f".children.{steps[0]}: {scope.unclear[key]}")
    if key not in scope.children:
        raise TemplateError(f".children.{steps[0]}: nothing of that kind is declared")
    return _walk(scope.children[key], steps[1:], waits=waits, unknown=not waits)


def _walk(value: Value, steps: Sequence[str], *, waits: bool = False, unknown: bool = False) -> Value:
    """Return the CEL expression for the field at the path `steps` below `value`.

    A field that may be absent is read as a CEL optional. With `waits` it is read directly, because the box then waits
    for it. With `unknown`, a field counts as one that may be absent if nothing is known about it.
    """
    at = value
    for step in steps:
        fields = at.type.fields
        field = None if fields is None else fields.get(escape(step) or "")
        if fields is not None and field is None:
            raise TemplateError(f"{at.text} has no field {step!r}")
        doubtful = field.optional if field is not None else at.type.name == "map" or unknown
        absent = at.maybe or (doubtful and not waits)
        found = field.type if field else at.type.item if at.type.name == "map" else DYN
        at = Value(f"{at.bare}.{'?' if absent else ''}{step}", found, absent)
    return at


def expression_of(node: Node, scope: TemplateScope) -> Value:
    """Return the CEL expression for a node of a Go template's syntax tree.

    `scope` has the names with which paths in the template may begin. Raises TemplateError if CEL has no counterpart.
    """
    match node:
        case GoConstant(value):
            return constant(value)
        case Path(steps, None):
            return expression_of_path(steps, scope)
        case Path(steps, of):
            assert of is not None
            return _walk(expression_of(of, scope), steps, waits=True)
        case GoCall(name, arguments):
            if name == "index" and len(arguments) == 2 and (chosen := _named_child(arguments, scope)) is not None:
                return chosen
            made = _FUNCTIONS.get(name)
            if made is None:
                raise TemplateError(f"the function {name} has no counterpart")
            return made(name, [expression_of(argument, scope) for argument in arguments])


def _named_child(arguments: Sequence[Node], scope: TemplateScope) -> Value | None:
    """Return the child that `index .children.deployments "name"` selects, or None for other arguments of `index`.

    `scope` has the child under the key `deployments.name`. Raises TemplateError for an unknown name.
    """
    match arguments:
        case (Path(("children", kind), None), GoConstant(str(name))):
            key = f"{kind.lower()}.{name}"
            if key not in scope.children:
                raise TemplateError(f"no child is known under the name {name!r}")
            return scope.children[key]
    return None


def constant(value: Any) -> Value:
    """Return a Python value as a CEL constant."""
    match value:
        case None:
            return Value("null", DYN)
        case bool():
            return Value("true" if value else "false", BOOL)
        case int():
            return Value(str(value), INT)
        case float():
            return Value(repr(value), DOUBLE)
        case _:
            return Value(quoted(str(value)), STRING)


def quoted(text: str) -> str:
    """Return a string as a CEL constant. Single quotes are preferred, because YAML lines are often in double quotes."""
    inner = msgspec.json.encode(text).decode()[1:-1]
    return f'"{inner}"' if "'" in inner else "'" + inner.replace('\\"', '"') + "'"


def as_text(value: Value) -> Value:
    """Return the CEL expression for the text that Go prints for `value`."""
    if value.type.name == "string":
        return value.sure
    if value.maybe:
        return Value(f"{value.bare}.optMap(v, string(v)).orValue('')", STRING)
    return Value(f"string({value.text})", STRING)


def truthiness(value: Value) -> Value:
    """Return a CEL condition that is true if Go counts `value` as true: if it is not empty, not 0 and not false."""
    known = value.sure
    if value.truth:
        return Value(value.truth, BOOL, atom=False)
    match value.type.name:
        case "bool":
            return known
        case "string":
            return Value(f"{known.bare} != ''", BOOL, atom=False)
        case "int" | "double":
            return Value(f"{known.bare} != {_ZERO[value.type.name]}", BOOL, atom=False)
        case "list" | "map":
            return Value(f"size({known.text}) > 0", BOOL, atom=False)
    if value.maybe and value.type.fields is not None:
        return Value(f"{value.bare}.hasValue()", BOOL)
    if value.maybe:
        return Value(f"{value.bare}.optMap(v, {_COUNTS}).orValue(false)", BOOL)
    raise TemplateError(f"whether {value.text} counts as true depends on its type, which is not known")


def converted(value: Value, desired: str) -> Value:
    """Return `value` converted to the type `desired`, which is `int`, `bool` or `string`.

    If `desired` is empty, `value` is returned unchanged.
    """
    if desired == "string" and not value.maybe:
        return as_text(value)
    if not desired or value.type.name == desired:
        return value
    if value.maybe:
        return Value(f"{value.bare}.optMap(v, {desired}(v))", CelType(desired), True)
    return Value(f"{desired}({value.text})", CelType(desired))


# --- whole texts ------------------------------------------------------------------------------------------------------


def is_template(text: str) -> bool:
    """Report whether a string contains a Go template (`{{`)."""
    return "{{" in text


def converted_text(text: str, scope: TemplateScope, desired: str = "string") -> Any:
    """Convert a Katalog's text to a constant, one CEL expression, or a string with CEL expressions in it.

    `scope` has the names with which paths in Go templates may begin. `desired` is the type of the result: `string`,
    `int` or `bool`; empty leaves the type as it is. Raises TemplateError for a Go template that has no counterpart in
    CEL.
    """
    if not is_template(text):
        return _literal(text, desired)
    parts = parse_template(text)
    if len(parts) > _MOST_PARTS:
        raise TemplateError(f"a value has at most {_MOST_PARTS} parts, this one has {len(parts)}")
    if len(parts) == 1:
        return f"${{{converted(_part(parts[0], scope), desired).text}}}"
    if desired not in ("string", ""):
        return f"${{{desired}({_joined(parts, scope).text})}}"
    return joined_parts([part.replace("${", "$${") if isinstance(part, str) else _piece(part, scope) for part in parts])


def expression_of_text(text: str, scope: TemplateScope) -> Value:
    """Return a string with Go templates in it as one CEL expression.

    `scope` has the names with which paths in the templates may begin. Raises TemplateError if CEL has no counterpart.
    """
    if not is_template(text):
        return constant(text)
    parts = parse_template(text)
    return _part(parts[0], scope) if len(parts) == 1 else _joined(parts, scope)


def _literal(text: str, desired: str) -> Any:
    match desired:
        case "int":
            if not text.strip().lstrip("-").isdecimal():
                raise TemplateError(f"must be a whole number, not {text[:40]!r}")
            return int(text)
        case "bool":
            if text not in ("true", "false"):
                raise TemplateError(f"must be true or false, not {text[:40]!r}")
            return text == "true"
    return text.replace("${", "$${")


def _piece(part: Part, scope: TemplateScope) -> str:
    return f"${{{as_text(_part(part, scope)).text}}}"


def _part(part: Part, scope: TemplateScope) -> Value:
    match part:
        case str():
            return constant(part)
        case If(condition, positive, negative):
            chosen = truthiness(expression_of(condition, scope))
            yes, no = _joined(positive, scope), _joined(negative, scope)
            if yes.type != no.type:
                yes, no = as_text(yes), as_text(no)
            return Value(f"{chosen.bare} ? {yes.sure.bare} : {no.sure.bare}", yes.type, atom=False)
        case _:
            return expression_of(part, scope)


def _joined(parts: Sequence[Part], scope: TemplateScope) -> Value:
    if len(parts) == 1:
        return _part(parts[0], scope)
    values = [as_text(_part(part, scope)) for part in parts]
    return Value(" + ".join(value.bare for value in values) or "''", STRING, atom=len(values) < 2)


# --- functions --------------------------------------------------------------------------------------------------------

_Maker = Callable[[str, list[Value]], Value]


def _taking(count: int, make: Callable[..., Value]) -> _Maker:
    def made(name: str, arguments: list[Value]) -> Value:
        if len(arguments) != count:
            raise TemplateError(f"{name} takes {count} argument{'s' * (count != 1)}, not {len(arguments)}")
        return make(*arguments)

    return made


def _call(name: str, result: CelType, count: int = 1) -> _Maker:
    return _taking(count, lambda *arguments: Value(f"{name}({', '.join(a.sure.text for a in arguments)})", result))


def _method(name: str) -> _Maker:
    return _taking(1, lambda target: Value(f"{as_text(target).bare}.{name}()", STRING))


def _operator(sign: str, result: CelType | None = None) -> _Maker:
    def make(left: Value, right: Value) -> Value:
        left, right = _alike(left, right)
        return Value(f"{left.sure.bare} {sign} {right.sure.bare}", result or left.type, atom=False)

    return _taking(2, make)


def _alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Return the two operands of a comparison.

    If one is a string constant and the other a number or bool, the constant is converted to the other's type.
    """
    for one, other, turned in ((left, right, False), (right, left, True)):
        written = other.text.strip("'\"")
        if other.type.name == "string" and other.text[:1] in "'\"" and one.type.name in ("int", "bool"):
            meant = Value(written, one.type)
            fits = written in ("true", "false") if one.type.name == "bool" else written.lstrip("-").isdecimal()
            if fits:
                return (meant, one) if turned else (one, meant)
    return left, right


def _logical(sign: str) -> _Maker:
    """Return the translation of Go's `and` or `or`, which give one of their arguments, not true or false."""

    def made(name: str, arguments: list[Value]) -> Value:
        if not arguments:
            raise TemplateError(f"{name} takes arguments")
        truth = f" {sign} ".join(truthiness(a).bare for a in arguments)
        if all(argument.type.name == "bool" for argument in arguments):
            return Value(truth, BOOL, atom=len(arguments) == 1)
        chosen = arguments[-1]
        for argument in reversed(arguments[:-1]):
            chosen = _ternary(argument, *((argument, chosen) if sign == "||" else (chosen, argument)))
        return attrs.evolve(chosen, truth=truth)

    return made


def _negated(value: Value) -> Value:
    return Value(f"!{truthiness(value).bare}", BOOL)


def _or_default(value: Value, other: Value) -> Value:
    """Return the expression for `default x y` of a Go template: `y` if `x` is empty, 0 or false.

    If only `x` is a constant, `x` is the default, because some templates give the two in that order.
    """
    if _CONSTANT.fullmatch(value.text) and not _CONSTANT.fullmatch(other.text):
        value, other = other, value
    if value.type.name == "string" and value.maybe:
        return Value(f"default({value.text}, {as_text(other).text})", STRING)
    _, other = _alike(value, other)
    if value.maybe:
        return Value(f"{value.bare}.orValue({other.sure.text})", value.type)
    return _ternary(value, value, other)


def _ternary(condition: Value, positive: Value, negative: Value) -> Value:
    if positive.type != negative.type:
        positive, negative = _alike(positive, negative)
    if positive.type != negative.type:
        positive, negative = as_text(positive), as_text(negative)
    text = f"{truthiness(condition).bare} ? {positive.sure.bare} : {negative.sure.bare}"
    return Value(text, positive.type, atom=False)


def _equal_ternary(value: Value, target: Value, positive: Value, negative: Value) -> Value:
    return _ternary(_OPERATORS["eq"]("eq", [value, target]), positive, negative)


def _format(name: str, arguments: list[Value]) -> Value:
    """Return the CEL expression for Go's `printf`. CEL's `%s` prints any value, as Go's `%v` does."""
    if not arguments or arguments[0].type.name != "string" or arguments[0].maybe:
        raise TemplateError(f"{name} takes a constant text first")
    if "%q" in arguments[0].text:
        raise TemplateError("%q has no counterpart: write %s in quotation marks")
    form = arguments[0].text.replace("%v", "%s")
    return Value(f"{form}.format([{', '.join(a.sure.text for a in arguments[1:])}])", STRING)


def _coalesce(name: str, arguments: list[Value]) -> Value:
    if not arguments:
        raise TemplateError(f"{name} takes arguments")
    out = arguments[-1]
    for argument in reversed(arguments[:-1]):
        out = _or_default(argument, out)
    return out


def _whole_number(value: Value) -> Value:
    return value.sure if value.type.name == "int" else converted(value, "int").sure


def _field(path: str, result: CelType) -> _Maker:
    return _taking(1, lambda value: Value(f"{value.sure.bare}.{path}", result))


def _all_ready(value: Value) -> Value:
    child = value.sure.text
    return Value(f"readyReplicas({child}) == desiredReplicas({child})", BOOL, atom=False)


def _get(value: Value, path: Value) -> Value:
    if path.text[:1] not in ("'", '"') or not path.text.strip("'\""):
        raise TemplateError("get takes a constant path")
    steps = path.text.strip("'\"").strip(".").split(".")
    return Value(f"get({', '.join([value.sure.text, *map(quoted, steps)])})", DYN)


_OPERATORS: Final[Mapping[str, _Maker]] = {
    "eq": _operator("==", BOOL),
    "ne": _operator("!=", BOOL),
    "lt": _operator("<", BOOL),
    "le": _operator("<=", BOOL),
    "gt": _operator(">", BOOL),
    "ge": _operator(">=", BOOL),
    "add": _operator("+"),
    "sub": _operator("-"),
    "mul": _operator("*"),
    "div": _operator("/"),
    "mod": _operator("%"),
}

_FUNCTIONS: Final[Mapping[str, _Maker]] = {
    **_OPERATORS,
    "and": _logical("&&"),
    "or": _logical("||"),
    "not": _taking(1, _negated),
    "empty": _taking(1, _negated),
    "notEmpty": _taking(1, truthiness),
    "default": _taking(2, _or_default),
    "coalesce": _coalesce,
    "ternary": _taking(3, _ternary),
    "boolTernary": _taking(3, _ternary),
    "eqTernary": _taking(4, _equal_ternary),
    "printf": _format,
    "len": _call("size", INT),
    "listLen": _call("size", INT),
    "min": _call("math.least", INT, 2),
    "max": _call("math.greatest", INT, 2),
    "toString": _taking(1, as_text),
    "asString": _taking(1, as_text),
    "toInt": _taking(1, _whole_number),
    "toFloat": _call("double", DOUBLE),
    "toBool": _taking(1, lambda value: converted(value, "bool").sure),
    "toLower": _method("lowerAscii"),
    "toUpper": _method("upperAscii"),
    "trim": _method("trim"),
    "trimSpace": _method("trim"),
    "toBase64": _taking(1, lambda value: Value(f"base64.encode(bytes({as_text(value).text}))", STRING)),
    "toJSON": _call("json", STRING),
    "toJson": _call("json", STRING),
    "get": _taking(2, _get),
    "mapKeys": _taking(1, lambda value: Value(f"{value.sure.bare}.map(k, k).sort()", list_of(STRING))),
    "labels": _field("metadata.labels", map_of(STRING)),
    "annotations": _field("metadata.annotations", map_of(STRING)),
    "readyReplicas": _call("readyReplicas", INT),
    "desiredReplicas": _call("desiredReplicas", INT),
    "availableReplicas": _field("status.availableReplicas", INT),
    "updatedReplicas": _field("status.updatedReplicas", INT),
    "allReplicasReady": _taking(1, _all_ready),
    "replicasReady": _taking(1, _all_ready),
    "rolloutComplete": _call("isReady", BOOL),
    "jobSucceeded": _call("jobSucceeded", BOOL),
    "jobFailed": _call("jobFailed", BOOL),
    "serviceClusterIP": _field("spec.clusterIP", STRING),
    "serviceLoadBalancerIP": _call("serviceLoadBalancerIP", STRING),
    "serviceLoadBalancerHost": _call("serviceLoadBalancerHost", STRING),
    "pvcPhase": _field("status.phase", STRING),
    "pvcBound": _taking(1, lambda value: Value(f"{value.sure.bare}.status.phase == 'Bound'", BOOL, atom=False)),
    "phase": _field("status.phase", STRING),
    "resourceName": _field("metadata.name", STRING),
    "resourceUID": _field("metadata.uid", STRING),
}
"""The functions of Orkestra's templates by name, each with the translation of a call to CEL.

The arguments are in Orkestra's order.
"""

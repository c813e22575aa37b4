"""The conversion of `when` and `or` in a Katalog (Orkestra's description of operators) to gates (conditions) of a box.

Orkestra compares texts; a box compares values, so that a constant is converted to the type of the field that it is
compared with. In Orkestra a missing field counts as empty text or as 0. In a box a gate on a missing field is not open,
so that a condition that holds for such a field becomes an expression that says so.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final

import attrs

from purekube.apimachinery.problems import index, join
from purekube.boxes.when_conditions import all_of, any_of, expression_of, read_when_condition
from purekube.regex import PatternError, compile_pattern
from purekube_convert.go_expressions import (
    TemplateScope,
    Value,
    constant,
    expression_of_path,
    expression_of_text,
    is_template,
    quoted,
)
from purekube_convert.go_template import TemplateError
from purekube_convert.result import Problems

_SAME: Final = ("equals", "notEquals", "contains", "in", "notIn")
_WORDS: Final[Mapping[str, str]] = {
    **{word: word for word in _SAME},
    "value": "equals",
    "gt": "greaterThan",
    "greaterThan": "greaterThan",
    "gte": "greaterOrEqual",
    "greaterThanOrEqual": "greaterOrEqual",
    "min": "greaterOrEqual",
    "lt": "lessThan",
    "lessThan": "lessThan",
    "lte": "lessOrEqual",
    "lessThanOrEqual": "lessOrEqual",
    "max": "lessOrEqual",
    "exists": "exists",
    "notExists": "notExists",
    "regex": "matches",
    "prefix": "prefix",
    "suffix": "suffix",
    "notPrefix": "notPrefix",
    "notSuffix": "notSuffix",
    "notContains": "notContains",
    "between": "between",
    "notBetween": "notBetween",
}
"""The operators of Orkestra's conditions, which may also be keys in them, each with the comparison that it means."""

_NEGATED: Final[Mapping[str, str]] = {
    "notContains": "contains",
    "notExists": "exists",
    "notPrefix": "prefix",
    "notSuffix": "suffix",
    "notBetween": "between",
}
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "greaterThan": gt,
    "greaterOrEqual": ge,
    "lessThan": lt,
    "lessOrEqual": le,
}
_SPECIAL: Final = re.compile(r"[.^$*+?()\[\]{}|\\]")
_VARIABLES: Final = ("self", "children")


@attrs.frozen
class KatalogCondition:
    """One gate of a box (a condition for creating a resource), as a mapping or as the text `${…}` of an expression.

    `expression` is the gate as a CEL expression in both cases. `parent_only` says that the gate reads no children, but
    only the parent, the object of the box's kind.
    """

    gate: Mapping[str, Any] | str
    expression: str
    parent_only: bool


@attrs.frozen
class KatalogConditions:
    """The gates of a box (conditions for creating a resource), made from `when` and `or` of a resource in a Katalog.

    All in `when` must hold, and at least one in `any` unless that is empty.
    """

    when: tuple[KatalogCondition, ...] = ()
    any: tuple[KatalogCondition, ...] = ()

    @property
    def parent_only(self) -> bool:
        """True if no condition reads the children: all of them read only the parent, the object of the box's kind."""
        return all(condition.parent_only for condition in (*self.when, *self.any))

    def joined(self, *others: "KatalogConditions") -> "KatalogConditions":
        """Return conditions that hold if these and all `others` hold.

        A Katalog can have several `or` lists, but a box only one, named `any`: each further `or` list becomes an
        expression in the box's `when`.
        """
        when = [condition for part in (self, *others) for condition in part.when]
        lists = [part.any for part in (self, *others) if part.any]
        if len(lists) > 1:
            when += [_one_of(listed) for listed in lists[1:]]
        return KatalogConditions(tuple(when), lists[0] if lists else ())

    def expression(self) -> str:
        """Return all conditions as one CEL expression."""
        texts = [condition.expression for condition in self.when]
        either = [condition.expression for condition in self.any]
        if len(texts) + len(either) == 1:
            return (*texts, *either)[0]
        return all_of([*texts, *([any_of(either)] if either else [])])


def _one_of(listed: Sequence[KatalogCondition]) -> KatalogCondition:
    text = any_of([condition.expression for condition in listed])
    return KatalogCondition(f"${{{text}}}", text, all(condition.parent_only for condition in listed))


def conditions(raw: Mapping[str, Any], path: str, scope: TemplateScope, problems: Problems) -> KatalogConditions:
    """Return the gates of a box (conditions for creating a resource) for the `when` and `or` in `raw`, a resource of a
    Katalog.

    Add what cannot be converted to `problems`. `path` leads to `raw` in the Katalog. `scope` has the names with which
    paths in its Go templates may begin.
    """
    lists = [tuple(_conditions(raw.get(key), join(path, key), scope, problems)) for key in ("when", "or")]
    return KatalogConditions(*lists)


def _conditions(raw: Any, path: str, scope: TemplateScope, problems: Problems) -> list[KatalogCondition]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        problems.add(path, "must be a list")
        return []
    out: list[KatalogCondition] = []
    for position, item in enumerate(raw):
        at = index(path, position)
        try:
            out.append(_condition(item, scope))
        except TemplateError as error:
            problems.add(at, str(error))
    return out


def _condition(raw: Any, scope: TemplateScope) -> KatalogCondition:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("field"), str) or not raw["field"]:
        raise TemplateError("must be an object with a field")
    operator, value = _operator_and_value(raw)
    if raw.get("negate", False) not in (True, False, "true", "false"):
        raise TemplateError("negate must be true or false")
    negated = raw.get("negate") in (True, "true")
    if operator in _NEGATED:
        operator, negated = _NEGATED[operator], not negated
    field = raw["field"].strip()
    parent_only = ".children" not in field and not field.startswith("children.") and ".children" not in str(value)
    if is_template(field):
        text = _turned(_of_expression(expression_of_text(field, scope), operator, value, scope), negated)
        return KatalogCondition(f"${{{text}}}", text, parent_only)
    field = field.removeprefix(".")
    place = expression_of_path(field.split("."), scope)
    if operator == "between":
        text = _asked(place, operator, value, negated, scope, absent=False)
        return KatalogCondition(f"${{{text}}}", text, parent_only)
    gate = _when_condition(field, place, operator, value, negated, scope)
    if _holds_of_nothing(operator, value, negated):
        asked = expression_of_path(field.split("."), scope, waits=False)
        text = _asked(asked, operator, value, negated, scope, absent=True)
        return KatalogCondition(f"${{{text}}}" if asked.maybe else gate, text, parent_only)
    try:
        text = _asked(place, operator, value, negated, scope, absent=False)
    except TemplateError:
        text = expression_of(read_when_condition(gate), _VARIABLES)
    return KatalogCondition(gate, text, parent_only)


def _asked(place: Value, operator: str, value: Any, negated: bool, scope: TemplateScope, *, absent: bool) -> str:
    """Return a condition in CEL. It is `absent` if the field is absent, for a field that may be."""
    is_plain = place.type.name == "string" and not absent  # an absent text is an empty one
    if not place.maybe or is_plain or operator == "exists":
        return _turned(_of_expression(place, operator, value, scope), negated)
    test = _turned(_of_expression(Value("v", place.type), operator, value, scope), negated)
    return f"{place.bare}.optMap(v, {test}).orValue({'true' if absent else 'false'})"


def _holds_of_nothing(operator: str, value: Any, negated: bool) -> bool:
    """Report whether Orkestra's condition holds for an absent field, which it compares as empty text or as 0.

    The answer is no for a value that is computed, and for `exists`, which a box tests as Orkestra does.
    """
    if operator == "exists" or is_template(str(value)):
        return False
    text = "" if value is None else str(value)
    listed = value if isinstance(value, list) else text.split(",")
    match operator:
        case "equals" | "contains" | "prefix" | "suffix":
            found = text == ""
        case "notEquals":
            found = text != ""
        case "in" | "notIn":
            found = ("" in [str(item).strip() for item in listed]) is (operator == "in")
        case "matches":
            found = _matches_nothing(text)
        case _:
            found = bool(_COMPARED[operator](0, _number(value)))
    return found is not negated


def _matches_nothing(pattern: str) -> bool:
    try:
        return compile_pattern(pattern).matches_in("")
    except PatternError:
        return False  # `box check` reports the pattern


def _turned(text: str, negated: bool) -> str:
    return f"!({text})" if negated else text


def _operator_and_value(raw: Mapping[str, Any]) -> tuple[str, Any]:
    """Return two values from `raw`, a condition in a Katalog: its operator, and the value that the operator compares
    with.
    """
    if "operator" in raw:
        name = str(raw["operator"])
        if name not in _WORDS:
            raise TemplateError(f"the operator {name[:40]!r} has no counterpart")
        return _WORDS[name], raw.get("value")
    known = [key for key in raw if key in _WORDS]
    unknown = [str(key) for key in raw if key not in _WORDS and key not in ("field", "negate")]
    if unknown:
        raise TemplateError(f"{unknown[0][:40]} has no counterpart in a gate")
    if len(known) > 1:
        raise TemplateError(f"asks {' and '.join(known)} at once: write one gate for each")
    if not known:
        return "exists", True
    if known[0] in ("exists", "notExists") and raw[known[0]] is False:
        return ("notExists" if known[0] == "exists" else "exists"), True
    return _WORDS[known[0]], raw[known[0]]


def _when_condition(
    field: str, place: Value, operator: str, value: Any, negated: bool, scope: TemplateScope
) -> Mapping[str, Any]:
    head, tail = {"field": field}, {"not": True} if negated else {}
    if operator == "exists":
        return {**head, "exists": not negated}
    if operator in ("prefix", "suffix", "matches"):
        return {**head, "matches": _pattern(operator, value), **tail}
    return {**head, operator: _value(value, operator, place, scope), **tail}


def _range(value: Any, place: Value) -> tuple[Any, Any]:
    parts = [part.strip() for part in str(value).split(",")]
    if len(parts) != 2:
        raise TemplateError('between takes two numbers, as in "1,5"')
    return typed(parts[0], place), typed(parts[1], place)


def _pattern(operator: str, value: Any) -> str:
    text = str(value)
    if is_template(text):
        raise TemplateError("a pattern must be a constant")
    if operator == "matches":
        return text
    escaped = _SPECIAL.sub(lambda match: "\\" + match.group(), text)
    return f"^{escaped}" if operator == "prefix" else f"{escaped}$"


def _value(value: Any, operator: str, place: Value, scope: TemplateScope) -> Any:
    """Return `value`, to which a condition compares the field `place`, as it is written in a box.

    Go templates in it become CEL, and constants get the type of the field.
    """
    if isinstance(value, str) and is_template(value):
        return f"${{{expression_of_text(value, scope).sure.text}}}"
    if operator in ("in", "notIn"):
        listed = value if isinstance(value, list) else str(value).split(",")
        return [typed(item.strip() if isinstance(item, str) else item, place) for item in listed]
    if operator in ("greaterThan", "greaterOrEqual", "lessThan", "lessOrEqual"):
        return _number(value)
    return typed(value, place)


def _number(value: Any) -> Any:
    try:
        number = float(str(value))
    except ValueError:
        raise TemplateError(f"must be a number, not {str(value)[:40]!r}") from None
    return int(number) if number.is_integer() else number


def typed(value: Any, place: Value) -> Any:
    """Return the constant `value` in the type of `place`, the field to which it is compared.

    Raises TemplateError if it has no value of that type.
    """
    text = "true" if value is True else "false" if value is False else "" if value is None else str(value)
    match place.type.name:
        case "int" if text.lstrip("-").isdecimal():
            return int(text)
        case "double":
            return _number(text)
        case "bool" if text in ("true", "false"):
            return text == "true"
        case "string":
            return text
        case "int" | "bool":
            raise TemplateError(f"the field is of type {place.type.name}, and {text[:40]!r} is not")
    return value


def _of_expression(place: Value, operator: str, value: Any, scope: TemplateScope) -> str:
    """Return the CEL condition that compares the computed value `place` with `value` by `operator`, without `${` and
    `}`.
    """
    known = place.sure
    if operator == "exists":
        return _exists(place)
    if isinstance(value, str) and is_template(value):
        other = expression_of_text(value, scope).sure.bare
    elif operator in ("equals", "notEquals"):
        meant = typed(value, place)
        if place.type.name == "bool" and operator == "equals":
            return known.bare if meant else f"!{known.bare}"
        other = constant(meant).text
    elif operator in ("in", "notIn"):
        listed = value if isinstance(value, list) else str(value).split(",")
        other = "[" + ", ".join(constant(typed(item.strip(), place)).text for item in map(str, listed)) + "]"
    elif operator in ("matches", "prefix", "suffix"):
        return f"{known.bare}.matches({quoted(_pattern(operator, value))})"
    elif operator == "between":
        low, high = _range(value, place)
        return f"{known.bare} >= {low} && {known.bare} <= {high}"
    elif operator == "contains":
        return f"{known.bare}.contains({quoted(str(value))})"
    else:
        other = str(_number(value))
    return {
        "equals": f"{known.bare} == {other}",
        "notEquals": f"{known.bare} != {other}",
        "in": f"{known.bare} in {other}",
        "notIn": f"!({known.bare} in {other})",
        "greaterThan": f"{known.bare} > {other}",
        "greaterOrEqual": f"{known.bare} >= {other}",
        "lessThan": f"{known.bare} < {other}",
        "lessOrEqual": f"{known.bare} <= {other}",
    }[operator]


def _exists(place: Value) -> str:
    """Return the CEL condition that the computed value `place` is present and not empty."""
    if place.type.name == "string":
        return f"{place.sure.bare} != ''"
    if place.maybe:
        return f"{place.bare}.hasValue()"
    raise TemplateError(f"whether {place.text} exists depends on its type, which is not known")

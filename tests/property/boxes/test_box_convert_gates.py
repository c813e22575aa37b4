"""A condition of a Katalog means the same as a gate of a box, as a mapping and as an expression (PH-4, PH-6)."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.boxes.expressions import FUNCTIONS
from purekube.boxes.when_conditions import expression_of, read_when_condition
from purekube.cel import INT, STRING, Environment, Field, compile_expression
from purekube.cel.types import BOOL, DYN, CelType
from purekube_convert.go_expressions import TemplateScope
from purekube_convert.katalog_conditions import conditions
from purekube_convert.result import Problems

FIELDS = {"text": Field(STRING), "number": Field(INT), "flag": Field(BOOL)}
SPEC = CelType("spec", fields=FIELDS)
PARENT = CelType("parent", fields={"spec": Field(SPEC)})
ENVIRONMENT = Environment({"self": DYN, "children": DYN}, FUNCTIONS)

TEXTS = st.sampled_from(("", "a", "ab", "web-1", "b"))
NUMBERS = st.integers(-1, 4)
OF_TEXT = ("equals", "notEquals", "contains", "notContains", "prefix", "notPrefix", "suffix", "notSuffix", "regex")
OF_NUMBERS = ("equals", "notEquals", "gt", "gte", "lt", "lte", "min", "max", "greaterThan", "lessThanOrEqual")
LISTS = ("in", "notIn")
RANGES = ("between", "notBetween")


MEANT: Mapping[str, Callable[[Any, Any], bool]] = {
    "equals": lambda found, value: bool(found == value),
    "contains": lambda found, value: value in found,
    "prefix": lambda found, value: str(found).startswith(value),
    "suffix": lambda found, value: str(found).endswith(value),
    "regex": lambda found, value: re.search(value, found) is not None,
    "in": lambda found, value: str(found) in value.split(","),
    "between": lambda found, value: int(value.split(",")[0]) <= found <= int(value.split(",")[1]),
    "exists": lambda found, value: found != "",
    **dict.fromkeys(("gt", "greaterThan"), lambda found, value: bool(found > value)),
    **dict.fromkeys(("gte", "min"), lambda found, value: bool(found >= value)),
    **dict.fromkeys(("lt",), lambda found, value: bool(found < value)),
    **dict.fromkeys(("lte", "max", "lessThanOrEqual"), lambda found, value: bool(found <= value)),
}
"""What Orkestra means by its operators, of a field that is there."""


def meant(operator: str, found: Any, value: Any) -> bool:
    """What an operator or its negation means."""
    if operator.startswith("not"):
        return not meant(operator[3].lower() + operator[4:], found, value)
    return MEANT[operator](found, value)


ASKED = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(OF_TEXT), TEXTS.filter(bool), TEXTS),
    st.tuples(st.just("number"), st.sampled_from(OF_NUMBERS), NUMBERS, NUMBERS),
    st.tuples(st.just("text"), st.sampled_from(LISTS), st.just("a,web-1"), TEXTS),
    st.tuples(st.just("number"), st.sampled_from(LISTS), st.just("1,3"), NUMBERS),
    st.tuples(st.just("number"), st.sampled_from(RANGES), st.just("1,2"), NUMBERS),
    st.tuples(st.just("text"), st.sampled_from(("exists", "notExists")), st.just(True), TEXTS),
    st.tuples(st.just("flag"), st.sampled_from(("equals", "notEquals")), st.booleans(), st.booleans()),
)


def outcomes(raw: Mapping[str, Any], found: Mapping[str, Any], parent: CelType = PARENT) -> list[bool]:
    """What the converted gate says, read as a gate of a box and as an expression."""
    problems = Problems()
    (condition,) = conditions({"when": [raw]}, "", TemplateScope(parent), problems).when
    assert problems.all() == ()
    gate = condition.gate
    text = gate[2:-1] if isinstance(gate, str) else expression_of(read_when_condition(gate), ("self", "children"))
    values = {"self": {"spec": found}, "children": {}}
    return [bool(compile_expression(one, ENVIRONMENT).evaluate(values)) for one in (text, condition.expression)]


@given(ASKED, st.booleans(), st.booleans())
@example(("text", "equals", "a", "a"), True, False)
@example(("text", "notExists", True, ""), False, True)
@example(("flag", "equals", False, False), False, True)
def test_a_converted_gate_is_open_exactly_where_its_condition_held(
    asked: tuple[str, str, Any, Any], negate: bool, template: bool
) -> None:
    field, operator, value, found = asked
    named = f"{{{{ .spec.{field} }}}}" if template else f"spec.{field}"
    raw = {"field": named, "operator": operator, "value": value, **({"negate": True} if negate else {})}
    if operator in ("min", "max") or isinstance(value, bool):
        del raw["operator"], raw["value"]
        raw[operator] = value

    expected = meant(operator, found, value) is not negate
    assert outcomes(raw, {field: found}) == [expected, expected]


UNSURE = {name: Field(field.type, True) for name, field in FIELDS.items()}
OF_UNSURE = CelType("parent", fields={"spec": Field(CelType("spec", fields=UNSURE))})


@given(ASKED, st.booleans())
@example(("number", "lt", 3, 0), False)
@example(("number", "equals", 0, 0), False)
@example(("text", "notEquals", "a", "a"), False)
@example(("flag", "equals", False, False), False)
@example(("number", "notBetween", "1,2", 0), False)
def test_a_field_that_is_absent_is_compared_as_empty_text_or_as_0(
    asked: tuple[str, str, Any, Any], negate: bool
) -> None:
    field, operator, value, _ = asked
    raw: dict[str, Any] = {"field": f"spec.{field}", operator: value, **({"negate": True} if negate else {})}
    if operator in ("between", "notBetween"):
        expected = False
    else:
        as_number = operator in ("gt", "gte", "lt", "lte", "min", "max", "greaterThan", "lessThanOrEqual")
        printed = str(value).lower() if isinstance(value, bool) and field == "flag" else value
        known = printed if as_number or isinstance(printed, bool) else str(printed)
        expected = meant(operator, 0 if as_number else "", known) is not negate

    assert outcomes(raw, {}, OF_UNSURE) == [expected, expected]

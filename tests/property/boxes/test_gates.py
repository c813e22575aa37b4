"""Gates as mappings and as expressions have one meaning (PH-4); functions of objects answer any value (PH-5)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.problems import ValidationProblems
from purekube.boxes.expressions import FUNCTIONS, OBJECTS
from purekube.boxes.when_conditions import OPERATORS, WhenCondition, all_of, any_of, expression_of, read_when_condition
from purekube.cel import CelError, CelSyntaxError, Environment, EvaluationError, compile_expression
from purekube.cel.types import DYN

ENVIRONMENT = Environment({"self": DYN, "children": DYN}, FUNCTIONS)
MISSING = object()

SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "ab", "web-1", "x.y"])
KEYS = st.sampled_from(["a", "b", "x.y", "c-d", "in"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
)
OBJECTS_ = st.dictionaries(KEYS, VALUES, max_size=3)
FIELDS = st.sampled_from(
    ["a", "a.b", "b.a", "self.a", "children.a", "children.a.b", "a['c-d']", "a[0]", "b[1].a", "in"]
)


def run(text: str, value: Mapping[str, Any], children: Mapping[str, Any]) -> Any:
    try:
        return compile_expression(text, ENVIRONMENT).evaluate({"self": value, "children": children})
    except EvaluationError:
        return EvaluationError


def looked_up(field: str, value: Any, children: Any) -> Any:
    """The value at a path, by hand."""
    paths: dict[str, list[Any]] = {
        "a": [value, "a"],
        "a.b": [value, "a", "b"],
        "b.a": [value, "b", "a"],
        "self.a": [value, "a"],
        "children.a": [children, "a"],
        "children.a.b": [children, "a", "b"],
        "a['c-d']": [value, "a", "c-d"],
        "a[0]": [value, "a", 0],
        "b[1].a": [value, "b", 1, "a"],
        "in": [value, "in"],
    }
    found, *steps = paths[field]
    for step in steps:
        if isinstance(step, int):
            if isinstance(found, Mapping):
                return MISSING
            if not isinstance(found, list):
                return EvaluationError
            found = found[step] if step < len(found) else MISSING
        elif not isinstance(found, Mapping):
            return EvaluationError
        else:
            found = found.get(step, MISSING)
        if found is MISSING:
            return MISSING
    return found


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


def expected(gate: WhenCondition, found: Any) -> Any:
    """What a gate means, without any expression."""
    if found is EvaluationError:
        return EvaluationError
    if gate.operator == "exists":
        there = found is not MISSING and found is not None and found not in ("", [], {})
        return (there is gate.value) is not gate.negated
    if found is MISSING:
        return False
    match gate.operator:
        case "equals":
            holds = equal(found, gate.value)
        case "notEquals":
            holds = not equal(found, gate.value)
        case "in":
            holds = any(equal(found, one) for one in gate.value)
        case _:
            holds = not any(equal(found, one) for one in gate.value)
    return holds is not gate.negated


@st.composite
def gates(draw: st.DrawFn) -> WhenCondition:
    operator = draw(st.sampled_from(["equals", "notEquals", "in", "notIn", "exists"]))
    values = {"exists": st.booleans(), "in": st.lists(VALUES, max_size=3), "notIn": st.lists(VALUES, max_size=3)}
    field = draw(FIELDS)
    return WhenCondition(field, operator, draw(values.get(operator, VALUES)), draw(st.booleans()))


@given(gates(), OBJECTS_, OBJECTS_)
def test_a_mapping_and_its_expression_agree_on_all_worlds(gate: WhenCondition, value: Any, children: Any) -> None:
    text = expression_of(gate, ENVIRONMENT.variables)

    assert run(text, value, children) is expected(gate, looked_up(gate.field, value, children)), text


@given(gates(), OBJECTS_, OBJECTS_)
def test_to_turn_a_gate_round_twice_is_to_leave_it(gate: WhenCondition, value: Any, children: Any) -> None:
    other = WhenCondition(gate.field, gate.operator, gate.value, not gate.negated)
    first, second = (run(expression_of(one, ENVIRONMENT.variables), value, children) for one in (gate, other))

    if looked_up(gate.field, value, children) is MISSING and gate.operator != "exists":
        assert (first, second) == (False, False)
    elif first is not EvaluationError:
        assert first is not second


@pytest.mark.parametrize(
    ("raw", "value", "holds"),
    [
        ({"field": "spec.n", "greaterThan": 2}, {"spec": {"n": 3}}, True),
        ({"field": "spec.n", "lessOrEqual": 2}, {"spec": {"n": 3}}, False),
        ({"field": "spec.n", "greaterThan": 2}, {"spec": {}}, False),
        ({"field": "spec.n", "greaterThan": 2, "not": True}, {"spec": {}}, False),
        ({"field": "spec.n", "equals": "${self.spec.m + 1}"}, {"spec": {"n": 3, "m": 2}}, True),
        ({"field": "spec.name", "matches": "^a+$"}, {"spec": {"name": "aaa"}}, True),
        ({"field": "spec.name", "contains": "b"}, {"spec": {"name": "abc"}}, True),
        ({"field": "spec.list", "contains": "b"}, {"spec": {"list": ["b"]}}, True),
        ({"field": "status.loadBalancer", "exists": True}, {"status": {"loadBalancer": {}}}, False),
        ({"field": "status", "exists": False}, {}, True),
        ({"field": "self", "isReady": True}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, True),
    ],
)
def test_what_a_gate_says(raw: Any, value: Any, holds: bool) -> None:
    assert run(expression_of(read_when_condition(raw), ENVIRONMENT.variables), value, {}) is holds


def problem_paths(raw: Any) -> list[str]:
    """None for a gate, which is then tried; a value may hold an expression that is none."""
    try:
        gate = read_when_condition(raw, "when[0]")
    except ValidationProblems as error:
        return [problem.path for problem in error.problems]
    with suppress(CelSyntaxError):
        run(expression_of(gate, ENVIRONMENT.variables), {"spec": {}}, {})
    return []


@given(
    st.recursive(
        SCALARS | st.text(max_size=6),
        lambda one: (
            st.lists(one, max_size=3)
            | st.dictionaries(st.sampled_from(["field", "not", *OPERATORS]) | st.text(max_size=3), one, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_any_mapping_is_a_gate_or_tells_every_problem_with_its_path(raw: Any) -> None:
    assert all(path.startswith("when[0]") for path in problem_paths(raw))


def test_when_is_all_of_them_and_any_one_of_them() -> None:
    assert (all_of([]), any_of([])) == ("true", "true")
    assert run(all_of(["true", "self.a == 1"]), {"a": 1}, {}) is True
    assert run(any_of(["false", "self.a == 1"]), {"a": 2}, {}) is False


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("readyReplicas(self)", {"status": {"readyReplicas": 2}}, 2),
        ("readyReplicas(self)", {}, 0),
        ("desiredReplicas(self)", {}, 1),
        ("jobSucceeded(self)", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, True),
        ("serviceLoadBalancerIP(self)", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}, "192.0.2.1"),
        ("get(self, 'a', 0, 'b')", {"a": [{"b": 7}]}, 7),
        ("default(self.?a, 3)", {}, 3),
        ("default(self.a, 'x')", {"a": ""}, "x"),
        ("json(self)", {"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ("name('a', self.n)", {"n": "b"}, "a-b"),
        ("size(name(self.n))", {"n": "x" * 100}, 63),
        ("hash(self) == hash({'b': 1, 'a': 2})", {"a": 2, "b": 1}, True),
    ],
)
def test_functions_of_objects(text: str, value: Any, found: Any) -> None:
    assert run(text, value, {}) == found


@pytest.mark.parametrize(
    "one", [each for each in OBJECTS if each.arity == 1 and not each.method], ids=lambda one: str(one.name)
)
@given(value=VALUES)
def test_functions_of_objects_answer_any_value(one: Any, value: Any) -> None:
    with suppress(CelError):
        compile_expression(f"{one.name}(self)", Environment({"self": DYN}, FUNCTIONS)).evaluate({"self": value})

"""The functions on objects that a box's expressions have: exact results, and what is told of other values (PH-5)."""

from hashlib import sha256
from typing import Any

import pytest

from purekube.boxes.expressions import FUNCTIONS
from purekube.cel import DYN, CelError, CelSyntaxError, Environment, Missing, compile_expression
from purekube.cel.json_values import spend_for_parts
from purekube.cel.limits import Budget


def value(text: str, **scope: Any) -> Any:
    return compile_expression(text, Environment(dict.fromkeys(scope, DYN), FUNCTIONS)).evaluate(scope)


def failure(text: str, **scope: Any) -> tuple[bool, str]:
    """Whether a value is only missing, and what is told."""
    with pytest.raises(CelError) as raised:
        value(text, **scope)
    return isinstance(raised.value, Missing), str(raised.value)


def balanced(*entries: Any) -> dict[str, Any]:
    return {"status": {"loadBalancer": {"ingress": list(entries)}}}


def job(kind: str, status: str = "True") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("isReady(v)", {"apiVersion": "v1", "kind": "ConfigMap"}, True),
        ("isReady(v)", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1}}, False),
        ("readyReplicas(v)", {}, 0),
        ("readyReplicas(v)", {"status": {"readyReplicas": 3}}, 3),
        ("readyReplicas(v)", {"spec": {"readyReplicas": 3}}, 0),
        ("desiredReplicas(v)", {}, 1),
        ("desiredReplicas(v)", {"spec": {"replicas": 0}}, 0),
        ("desiredReplicas(v)", {"spec": {"replicas": 3}, "status": {"replicas": 4}}, 3),
        ("jobSucceeded(v)", job("Complete"), True),
        ("jobSucceeded(v)", job("Complete", "False"), False),
        ("jobSucceeded(v)", job("Failed"), False),
        ("jobFailed(v)", job("Failed"), True),
        ("jobFailed(v)", job("Complete"), False),
        (
            "serviceLoadBalancerIP(v)",
            balanced("x", {}, {"hostname": "h"}, {"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}),
            "1.1.1.1",
        ),
        ("serviceLoadBalancerHost(v)", balanced({"ip": "1.1.1.1"}, {"hostname": "h"}), "h"),
        ("get(v)", {"a": 1}, {"a": 1}),
        ("get(v, 'a', 1, 'b')", {"a": [0, {"b": 7}]}, 7),
        ("get(v, 'a', 0)", {"a": [5]}, 5),
        ("default(v, 'x')", None, "x"),
        ("default(v, 'x')", "", "x"),
        ("default(v, 'x')", "y", "y"),
        ("default(v, 3)", 0, 0),
        ("default(optional.none(), 'x')", 1, "x"),
        ("default(optional.of(''), 'x')", 1, ""),
        ("hash(v)", {"b": 1, "a": 2}, sha256(b'{"a":2,"b":1}').hexdigest()[:16]),
        ("json(v)", {"b": [1, None, True], "a": "ü"}, '{"a":"ü","b":[1,null,true]}'),
        ("name('a', 'b')", 1, "a-b"),
        ("name('a', '', 'b')", 1, "a-b"),
        ("name('a')", 1, "a"),
    ],
)
def test_a_function_gives_its_value(text: str, given: Any, expected: Any) -> None:
    assert value(text, v=given) == expected


@pytest.mark.parametrize("given", [{"a": "\ud800"}, {(1, 2): 3}])
@pytest.mark.parametrize(("function", "form"), [("json", "JSON"), ("yaml", "YAML"), ("hash", "JSON")])
def test_a_value_that_is_no_json_is_told(function: str, form: str, given: Any) -> None:
    assert failure(f"{function}(v)", v=given) == (False, f"the value cannot be written as {form}")


def test_a_name_of_more_than_63_characters_is_cut_and_told_apart() -> None:
    long = "a" * 40
    made = value("name(v, v)", v=long)
    assert len(made) == 63
    assert made.startswith(f"{long}-aaaa")
    assert made != value("name(v, v + 'b')", v=long)
    assert value("name(v, 'b')", v="a" * 61) == "a" * 61 + "-b"
    assert value("name(v, 'bc')", v="a" * 61) != "a" * 61 + "-bc"


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("serviceLoadBalancerIP(v)", {}, (True, "the load balancer has no address yet")),
        ("serviceLoadBalancerIP(v)", balanced({"hostname": "h"}), (True, "the load balancer has no address yet")),
        ("serviceLoadBalancerHost(v)", balanced(), (True, "the load balancer has no host name yet")),
        (
            "serviceLoadBalancerHost(v)",
            {"status": {"loadBalancer": {"ingress": "x"}}},
            (True, "the load balancer has no host name yet"),
        ),
        ("get(v, 'b')", {"a": 1}, (True, "no such key: b")),
        ("get(v, 'a', 'b')", {"a": 1}, (True, "no such key: b")),
        ("get(v, 1)", [0], (True, "index out of bounds: 1")),
        ("get(v, -1)", [0], (True, "index out of bounds: -1")),
        ("get(v, 'a')", [0], (True, "no such key: a")),
        ("get(v, true)", [0, 1], (True, "no such key: True")),
        ("json(timestamp(v).getSeconds() / 0)", "2026-01-01T00:00:00Z", (False, "division by zero")),
    ],
)
def test_what_is_not_there_is_missing(text: str, given: Any, expected: tuple[bool, str]) -> None:
    assert failure(text, v=given) == expected


@pytest.mark.parametrize(
    "text",
    [
        "isReady(v)",
        "readyReplicas(v)",
        "desiredReplicas(v)",
        "jobSucceeded(v)",
        "serviceLoadBalancerIP(v)",
        "name(v)",
        "name('a', v)",
    ],
)
def test_a_value_of_another_type_has_no_function(text: str) -> None:
    is_missing, told = failure(text, v=3)
    assert not is_missing
    assert "overload" in told


@pytest.mark.parametrize("name", ["name", "get"])
def test_a_function_of_any_number_of_arguments_has_one_at_least(name: str) -> None:
    with pytest.raises(CelSyntaxError, match="no matching overload"):
        value(f"{name}()")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("a", "a\n"),
        (3, "3\n"),
        (None, "null\n"),
        ([], "[]\n"),
        ({}, "{}\n"),
        ([1, "a"], "- 1\n- a\n"),
        ({"b": 1, "a": None}, "a: null\nb: 1\n"),
        ({"a": {"b": {"c": 1}}}, "a:\n  b:\n    c: 1\n"),
        ({"a": [], "b": {}}, "a: []\nb: {}\n"),
        ({"a": [1, [2]]}, "a:\n  - 1\n  -\n    - 2\n"),
        ([{"a": 1}], "-\n  a: 1\n"),
        ({"on": "off", "x": "Yes", "y": "NULL", "z": "nulls"}, '"on": "off"\nx: "Yes"\n"y": "NULL"\nz: nulls\n'),
        ("1", '"1"\n'),
        ("a b", '"a b"\n'),
        ("a.b/c-d_e", "a.b/c-d_e\n"),
        ("a.", '"a."\n'),
        ("", '""\n'),
        ("a: b", '"a: b"\n'),
        ("true", '"true"\n'),
        ("n", '"n"\n'),
        (True, "true\n"),
        (1.5, "1.5\n"),
    ],
)
def test_yaml_is_in_block_style_with_quotes_where_it_needs_them(given: Any, text: str) -> None:
    assert value("yaml(v)", v=given) == text


@pytest.mark.parametrize("name", ["json", "yaml"])
def test_bytes_are_written_as_their_base64(name: str) -> None:
    assert value(f"{name}(b'a')") == {"json": '"YQ=="', "yaml": '"YQ=="\n'}[name]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("random.seededString(0, 'a')", "the length must be positive"),
        ("random.seededString(-1, 'a')", "the length must be positive"),
        ("random.seededInt(3, 3, 'a')", "the first number must be less than the second"),
        ("random.seededInt(4, 3, 'a')", "the first number must be less than the second"),
        ("json.unmarshal('{')", "the text is no JSON"),
        ("json.unmarshal('1e400')", "the text is no JSON"),
        ("json.unmarshal('1" + "0" * 309 + "')", "the JSON has a number beyond 64 bits"),
        ("lists.setAtIndex([1], 1, 2)", "index out of bounds: 1"),
        ("lists.insertAtIndex([1], 2, 2)", "index out of bounds: 2"),
        ("lists.removeAtIndex([1], -1)", "index out of bounds: -1"),
    ],
)
def test_what_kros_functions_cannot_work_out_is_told(text: str, told: str) -> None:
    assert failure(text) == (False, told)


@pytest.mark.parametrize(
    "text",
    [
        "random.seededString(v, 'a')",
        "random.seededInt(v, 3, 'a')",
        "hash.sha256(v)",
        "json.unmarshal(v)",
        "dyn({'a': 1}).merge(v)",
        "lists.setAtIndex([1], v, 2)",
        "lists.removeAtIndex(v, 0)",
    ],
)
def test_kros_functions_refuse_a_value_of_another_type(text: str) -> None:
    assert "overload" in failure(text, v=True)[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("json.unmarshal('true')", True),
        ("json.unmarshal('null')", None),
        ('json.unmarshal(\'[1, 2.5, "a", false, {"b": 3}]\')', [1.0, 2.5, "a", False, {"b": 3.0}]),
        ("random.seededInt(5, 6, 'a')", 5),
        ("random.seededString(1, 'a').size()", 1),
    ],
)
def test_kros_functions_give_their_values(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_json_is_taken_apart_to_a_depth_of_64() -> None:
    assert value("json.unmarshal(v)", v="[" * 64 + "]" * 64) is not None
    assert value("json.unmarshal(v)", v="[" * 65 + "]" * 65) is not None
    too_deep = (False, "the JSON is nested more than 64 levels deep")
    assert failure("json.unmarshal(v)", v="[" * 66 + "]" * 66) == too_deep
    assert value("json.unmarshal(v)", v='{"a":' * 64 + "true" + "}" * 64) is not None
    assert failure("json.unmarshal(v)", v='{"a":' * 65 + "true" + "}" * 65) == too_deep


@pytest.mark.parametrize("value", ["x" * 1_040, b"x" * 1_040, ["x"] * 17])
def test_the_parts_of_a_value_are_paid_for_also_of_long_texts_and_bytes_RUN_11(value: Any) -> None:
    budget = Budget()
    spend_for_parts(value, budget)
    assert Budget().steps - budget.steps == 1

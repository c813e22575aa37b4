# ruff: noqa: E501
"""Rules on schemas: where they run, what they see, what a violation says."""

from typing import Any

import pytest

from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema, SchemaError
from purekube.schema.violations import validate

STRING: dict[str, Any] = {"type": "string"}


def ruled(schema: dict[str, Any], *rules: Any) -> dict[str, Any]:
    found = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": found}


def whole(**properties: Any) -> Schema:
    return compile_schema({"type": "object", "properties": properties})


def causes(schema: Schema, value: Any, old: Any = None) -> list[tuple[str, str, str]]:
    return [(cause.reason, cause.field, cause.message) for cause in validate(schema, value, old)]


MODE = {
    "type": "object",
    "properties": {"mode": STRING, "chart": STRING},
}


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ({"mode": "managed", "chart": "c"}, True),
        ({"mode": "managed"}, False),
        ({"mode": "placeholder"}, True),
        ({"mode": "placeholder", "chart": "c"}, False),
    ],
)
def test_a_contract_between_fields(value: dict[str, Any], holds: bool) -> None:
    schema = whole(spec=ruled(MODE, "self.mode == 'managed' ? has(self.chart) : !has(self.chart)"))
    assert (causes(schema, {"spec": value}) == []) is holds


@pytest.mark.parametrize("rule", ["!has(self.f)", "!self.?f.hasValue()", "!has(self.deep.f)", "'f' in self.map"])
def test_a_declared_field_that_is_null_is_absent_for_a_rule_and_a_key_of_a_map_is_not(rule: str) -> None:
    maybe = {**STRING, "nullable": True}
    fields = {"f": maybe, "deep": {"type": "object", "properties": {"f": maybe}}}
    fields["map"] = {"type": "object", "additionalProperties": maybe}
    schema = whole(o=ruled({"type": "object", "properties": fields}, rule))
    assert causes(schema, {"o": {"f": None, "deep": {"f": None}, "map": {"f": None}}}) == []


def sized(**more: Any) -> Schema:
    item = ruled(
        {"type": "object", "properties": {"n": {"type": "integer"}, "k": {"type": "integer", "maximum": 5}}},
        "self.n < 5",
    )
    return whole(f={"type": "array", "items": item, **more}, note=STRING)


BIG, SMALL = {"n": 9, "k": 9}, {"n": 1, "k": 1}
BROKEN = ["f[0].k", "f[0]"]


@pytest.mark.parametrize("list_type", ["", "atomic"])
def test_an_unchanged_list_does_not_lock_an_object_with_items_that_newer_rules_refuse(list_type: str) -> None:
    """KEP-4008: what a later schema refuses is refused only where it was changed."""
    schema = sized(**({"x-kubernetes-list-type": list_type} if list_type else {}))
    assert causes(schema, {"f": [BIG], "note": "new"}, {"f": [BIG], "note": "old"}) == []
    assert [cause[1] for cause in causes(schema, {"f": [BIG]}, {"f": [SMALL]})] == BROKEN


def test_items_of_a_list_without_a_type_are_the_same_at_the_same_index_and_those_of_an_atomic_one_are_not() -> None:
    """Such an item has no oldSelf all the same."""
    old, new = {"f": [BIG, SMALL]}, {"f": [BIG, SMALL, SMALL]}
    assert causes(sized(), new, old) == []
    assert [cause[1] for cause in causes(sized(), {"f": [SMALL, BIG]}, old)] == ["f[1].k", "f[1]"]
    assert [cause[1] for cause in causes(sized(**{"x-kubernetes-list-type": "atomic"}), new, old)] == BROKEN
    assert [cause[1] for cause in causes(sized(), {"f": [{**BIG, "n": 8}]}, old)] == ["f[0]"]


def test_a_transition_rule_runs_only_where_there_was_a_value() -> None:
    schema = whole(f=ruled(STRING, {"rule": "self == oldSelf", "message": "is immutable"}))
    assert causes(schema, {"f": "a"}) == []
    assert causes(schema, {"f": "a"}, {}) == []
    assert causes(schema, {"f": "a"}, {"f": "a"}) == []
    assert causes(schema, {"f": "b"}, {"f": "a"}) == [("FieldValueInvalid", "f", 'Invalid value: "b": is immutable')]
    assert causes(schema, {}, {"f": "a"}) == []


def test_a_transition_rule_above_sees_what_was_removed() -> None:
    schema = whole(o=ruled(MODE, "!has(oldSelf.mode) || has(self.mode)"))
    assert causes(schema, {"o": {}}, {"o": {"mode": "x"}}) == [
        ("FieldValueInvalid", "o", "Invalid value: failed rule: !has(oldSelf.mode) || has(self.mode)")
    ]


def test_optional_old_self_always_runs() -> None:
    rule = {"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'", "optionalOldSelf": True}
    schema = whole(f=ruled(STRING, rule))
    assert causes(schema, {"f": "first"}) == []
    assert causes(schema, {"f": "other"}) != []
    assert causes(schema, {"f": "other"}, {"f": "other"}) == []
    assert causes(schema, {"f": "new"}, {"f": "other"}) != []


def test_items_of_map_lists_have_an_old_form_and_those_of_others_none() -> None:
    item = ruled({"type": "object", "required": ["k"], "properties": {"k": STRING, "v": STRING}}, "self == oldSelf")
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    old, new = [{"k": "a", "v": "1"}], [{"k": "b", "v": "1"}, {"k": "a", "v": "2"}]
    assert [field for _, field, _ in causes(whole(l=keyed), {"l": new}, {"l": old})] == ["l[1]"]


def test_a_transition_rule_where_there_is_no_old_form_is_refused() -> None:
    atomic = {"type": "array", "items": ruled({"type": "object", "properties": {"k": STRING}}, "self == oldSelf")}
    with pytest.raises(SchemaError, match="oldSelf cannot be used on the uncorrelatable portion"):
        whole(l=atomic)
    nested = {"type": "array", "items": {"type": "object", "properties": {"k": ruled(STRING, "self == oldSelf")}}}
    with pytest.raises(SchemaError, match="uncorrelatable"):
        whole(l=nested)
    free = ruled(STRING, {"rule": "!oldSelf.hasValue() || true", "optionalOldSelf": True})
    assert causes(whole(l={"type": "array", "items": free}), {"l": ["x"]}) == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"rule": "true", "fieldPath": ".nope"}, "does not refer to a valid field"),
        ({"rule": "true", "fieldPath": "mode"}, "must begin with a dot"),
        ({"rule": "true", "message": "two\nlines"}, "message must not contain line breaks"),
        ({"rule": "true &&\ntrue"}, "message must be specified if rule contains line breaks"),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression must evaluate to a string"),
        ({"rule": "true", "messageExpression": "self."}, "expected a name"),
    ],
)
def test_what_goes_with_a_rule_is_checked_too(rule: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        whole(o=ruled(MODE, rule))


def test_a_violated_rule_on_an_unchanged_value_is_let_through() -> None:
    schema = whole(f=ruled(STRING, "self == 'good'"), g=STRING)
    assert causes(schema, {"f": "bad", "g": "2"}, {"f": "bad", "g": "1"}) == []
    assert causes(schema, {"f": "worse"}, {"f": "bad"}) != []


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("FieldValueRequired", ("FieldValueRequired", "o", "Required value: no")),
        ("FieldValueForbidden", ("FieldValueForbidden", "o", "Forbidden: no")),
        ("FieldValueInvalid", ("FieldValueInvalid", "o", "Invalid value: no")),
        ("FieldValueDuplicate", ("FieldValueDuplicate", "o", "Duplicate value")),
    ],
)
def test_reasons(reason: str, cause: tuple[str, str, str]) -> None:
    schema = whole(o=ruled(MODE, {"rule": "false", "message": "no", "reason": reason}))
    assert causes(schema, {"o": {}}) == [cause]


def test_a_reason_outside_the_four_is_refused() -> None:
    with pytest.raises(SchemaError, match="reason 'Because' is none of"):
        whole(o=ruled(MODE, {"rule": "false", "reason": "Because"}))


def test_field_path_points_below_the_rule() -> None:
    schema = whole(o=ruled(MODE, {"rule": "false", "message": "no", "fieldPath": ".chart"}))
    assert [field for _, field, _ in causes(schema, {"o": {}})] == ["o.chart"]


def test_a_message_expression_computes_the_message_and_falls_back() -> None:
    good = {"rule": "false", "message": "plain", "messageExpression": "'mode is ' + self.mode"}
    schema = whole(o=ruled(MODE, good))
    assert causes(schema, {"o": {"mode": "x"}})[0][2] == "Invalid value: mode is x"
    assert causes(schema, {"o": {}})[0][2] == "Invalid value: plain"


def test_a_rule_at_the_root_has_no_field() -> None:
    schema = compile_schema(ruled({"type": "object", "properties": {"spec": MODE}}, "has(self.spec)"))
    assert causes(schema, {}) == [("FieldValueInvalid", "<nil>", "Invalid value: failed rule: has(self.spec)")]


def test_of_metadata_a_rule_sees_the_name_only() -> None:
    schema = compile_schema(ruled({"type": "object"}, "self.metadata.name.startsWith('a')"))
    assert causes(schema, {"metadata": {"name": "abc", "namespace": "n"}}) == []
    assert causes(schema, {"metadata": {"name": "xyz"}}) != []


def test_a_rule_that_cannot_be_evaluated_is_a_violation_that_says_why() -> None:
    schema = whole(o=ruled(MODE, "self.mode == 'x'"))
    assert causes(schema, {"o": {}}) == [
        ("FieldValueInvalid", "o", "Invalid value: \"object\": no such key: mode evaluating rule: self.mode == 'x'")
    ]


def test_rules_do_not_run_on_what_is_broken_anyway() -> None:
    schema = whole(o=ruled({**MODE, "required": ["chart"]}, "self.mode == 'x'"))
    found = causes(schema, {"o": {}})
    assert [(reason, field) for reason, field, _ in found] == [
        ("FieldValueRequired", "o.chart"),
        ("FieldValueInvalid", "<nil>"),
    ]
    assert "some validation rules were not checked" in found[1][2]


def test_rules_do_not_run_on_null() -> None:
    schema = whole(f=ruled({**STRING, "nullable": True}, "self == 'x'"))
    assert causes(schema, {"f": None}) == []


def test_rules_of_additional_properties_and_items_name_key_and_index() -> None:
    text = ruled(STRING, "self == 'x'")
    schema = whole(m={"type": "object", "additionalProperties": text}, l={"type": "array", "items": text})
    assert [field for _, field, _ in causes(schema, {"m": {"k": "y"}, "l": ["x", "y"]})] == ["m[k]", "l[1]"]


def test_values_have_the_types_of_their_schema() -> None:
    schema = whole(
        o=ruled(
            {
                "type": "object",
                "properties": {
                    "t": {**STRING, "format": "date-time"},
                    "d": {**STRING, "format": "duration"},
                    "n": {"type": "number"},
                    "s": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                    "i": {"x-kubernetes-int-or-string": True},
                },
            },
            "self.t < timestamp('2027-01-01T00:00:00Z')",
            "self.d <= duration('1h')",
            "self.n + 0.5 > 1.0",
            "self.s == ['b', 'a']",
            "type(self.i) == int ? self.i > 0 : self.i.endsWith('%')",
        )
    )
    good = {"t": "2026-01-01T00:00:00Z", "d": "30m", "n": 1, "s": ["a", "b"], "i": 5}
    assert causes(schema, {"o": good}) == []
    assert causes(schema, {"o": {**good, "i": "5%", "n": 2}}) == []
    assert len(causes(schema, {"o": {**good, "t": "2028-01-01T00:00:00Z", "d": "2h", "n": 0, "s": ["a", "c"]}})) == 4


def test_fields_of_free_objects_are_not_visible_to_the_checker_but_to_the_rule() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = whole(f=ruled(free, "!has(self.x) || self.x == 1"))
    assert causes(schema, {"f": {"x": 1}}) == []
    assert causes(schema, {"f": {"x": 2}}) != []


def test_the_usual_count_of_alternatives() -> None:
    rule = "(has(self.mode) ? 1 : 0) + (has(self.chart) ? 1 : 0) <= 1"
    schema = whole(o=ruled(MODE, rule))
    assert causes(schema, {"o": {"mode": "x"}}) == []
    assert causes(schema, {"o": {"mode": "x", "chart": "y"}}) != []


KEYED = {
    "type": "array",
    "items": {"type": "object", "properties": {"k": STRING, "v": {"type": "integer"}}, "required": ["k"]},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}


@pytest.mark.parametrize(
    ("form", "rule", "good", "bad"),
    [
        ({"type": "number"}, "self.v + 0.5 > 1.0", 1, 0),
        ({**STRING, "format": "date-time"}, "self.v < timestamp('2027-01-01T00:00:00Z')", "2026-01-01T00:00:00Z", "2028-01-01T00:00:00Z"),
        ({**STRING, "format": "date"}, "self.v < timestamp('2027-01-01T00:00:00Z')", "2026-01-01", "2028-01-01"),
        ({**STRING, "format": "duration"}, "self.v <= duration('1h')", "30m", "2h"),
        ({**STRING, "format": "byte"}, "self.v == b'YQ=='", "YQ==", "Yg=="),
        ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, "self.v == ['b', 'a']", ["a", "b"], ["a", "c"]),
        (KEYED, "self.v == [{'k': 'b'}, {'k': 'a'}]", [{"k": "a"}, {"k": "b"}], [{"k": "a"}]),
        ({"type": "array", "items": {"type": "number"}}, "self.v.all(x, x > 0.5)", [1, 2], [0]),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "self.v.all(k, self.v[k] > 0.5)", {"a": 1}, {"a": 0}),
        ({"type": "object", "properties": {"n": {"type": "number"}}}, "self.v.n > 0.5", {"n": 1}, {"n": 0}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_each_form_alone_is_seen_in_its_own_type(form: dict[str, Any], rule: str, good: Any, bad: Any) -> None:
    """Beside no other one, for an object without any such form is handed to its rules as it is."""
    schema = whole(o=ruled({"type": "object", "properties": {"v": form}}, rule))

    assert causes(schema, {"o": {"v": good}}) == []
    ((_, field, message),) = causes(schema, {"o": {"v": bad}})
    assert field == "o"
    assert "failed rule" in message, "it was evaluated"


def test_a_rule_that_is_nested_too_deeply_is_a_problem_of_its_schema() -> None:
    deep = "(" * 190 + "true" + ("||true" * 50 + ")") * 190
    with pytest.raises(SchemaError, match="nested too deeply"):
        whole(f=ruled(STRING, deep))


@pytest.mark.parametrize("rule", ["math.greatest(self.size(), 2) == 2", "base64.encode(bytes(self)) == 'YQ=='"])
def test_a_rule_with_a_function_that_api_servers_do_not_have_is_a_problem(rule: str) -> None:
    with pytest.raises(SchemaError, match=r"there is no (function|method)|undeclared reference"):
        whole(f=ruled(STRING, rule))


def test_a_default_that_breaks_a_rule_or_has_undeclared_fields_is_a_problem() -> None:
    sized = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer", "default": 3}}}
    broken = ruled({**sized, "default": {"n": 1}}, "self.n > self.m")
    with pytest.raises(SchemaError, match=r"default: .*failed rule: self\.n > self\.m"):
        compile_schema({"type": "object", "properties": {"f": broken}})
    with pytest.raises(SchemaError, match="must not have the undeclared field x"):
        whole(f={**sized, "default": {"x": 1}})
    assert whole(f=ruled({**sized, "default": {"n": 4}}, "self.n > self.m"))


NAMED: dict[str, Any] = {
    "type": "array",
    "items": {"type": "object", "properties": {"k": STRING, "v": STRING}, "required": ["k"]},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}
SET: dict[str, Any] = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}


@pytest.mark.parametrize(
    ("schema", "value", "rule"),
    [
        (SET, ["x", "y"], "self + ['z', 'x', 'z'] == ['x', 'y', 'z'] && size(self + self) == 2"),
        (SET, ["x", "y"], "(self + ['z'])[2] == 'z' && (self + ['z']) + ['x'] == ['z', 'y', 'x']"),
        (NAMED, [{"k": "a"}, {"k": "b"}], "(self + [{'k': 'a', 'v': '1'}, {'k': 'c'}]).map(e, e.k) == ['a', 'b', 'c']"),
        (NAMED, [{"k": "a"}, {"k": "b"}], "(self + [{'k': 'a', 'v': '1'}])[0].v == '1'"),
        (NAMED, [{"k": "a"}], "size(self + self + [{'k': 'a', 'v': '2'}]) == 1"),
    ],
)
def test_a_sum_of_sets_or_map_lists_is_their_union_as_in_api_servers(schema: Any, value: Any, rule: str) -> None:
    """An item of the right list replaces one of the left with the same keys, and keeps its place."""
    assert causes(whole(f=ruled(schema, rule)), {"f": value}) == []

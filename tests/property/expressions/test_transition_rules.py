"""A rule that reads `oldSelf` runs on every update, also on one that changes nothing (kube-apiserver does so)."""

import copy
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from purekube.schema import compile_schema, validate

GROWS = {"rule": "self.n > oldSelf.n", "message": "each update counts up"}
NUMBER: dict[str, Any] = {"n": {"type": "integer"}}
GROWING: dict[str, Any] = {
    "type": "object",
    "properties": NUMBER,
    "required": ["n"],
    "x-kubernetes-validations": [GROWS],
}
NAMED: dict[str, Any] = {**GROWING, "properties": {**NUMBER, "name": {"type": "string"}}, "required": ["n", "name"]}
KEYED: dict[str, Any] = {
    "type": "array",
    "items": NAMED,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "one": GROWING,
            "deep": {"type": "object", "properties": {"one": GROWING}},
            "keyed": KEYED,
            "named": {"type": "object", "additionalProperties": GROWING},
            "plain": {"type": "object", "properties": NUMBER, "x-kubernetes-validations": [{"rule": "self.n < 9"}]},
        },
    }
)
ONE = st.fixed_dictionaries({"n": st.integers(0, 3)})
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "one": ONE,
        "deep": st.fixed_dictionaries({}, optional={"one": ONE}),
        "keyed": st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(
            lambda names: [{"name": name, "n": 1} for name in names]
        ),
        "named": st.dictionaries(st.sampled_from(["x", "y"]), ONE, max_size=2),
        "plain": ONE,
    },
)


def growing(value: dict[str, Any]) -> int:
    """How many parts of a value have the rule."""
    alone = ("one" in value) + ("one" in value.get("deep", {}))
    return alone + len(value.get("keyed", ())) + len(value.get("named", ()))


@given(VALUES)
@example({"one": {"n": 1}})
@example({"keyed": [{"name": "a", "n": 1}]})
def test_an_update_that_changes_nothing_is_asked_by_each_rule_that_reads_the_old_value(value: dict[str, Any]) -> None:
    """Also where the old value is known to have passed these very rules, and what is shared is not validated again."""
    again = validate(SCHEMA, value, value, settled=True)

    assert len(again) == growing(value)
    assert all("each update counts up" in cause.message for cause in again)
    assert again == validate(SCHEMA, copy.deepcopy(value), value)


@given(VALUES, VALUES)
@example({"named": {"x": {"n": 0}, "y": {"n": 1}}}, {"named": {"y": {"n": 1}, "x": {"n": 0}}})
def test_what_is_shared_with_a_settled_old_value_is_judged_as_if_it_were_not(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    """Causes come in the order of the members, in which equal objects may differ."""
    shared = {key: old[key] if old.get(key) == item else item for key, item in new.items()}
    settled, apart = validate(SCHEMA, shared, old, settled=True), validate(SCHEMA, copy.deepcopy(new), old)

    assert sorted(settled, key=str) == sorted(apart, key=str)

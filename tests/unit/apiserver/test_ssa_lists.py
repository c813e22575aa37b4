"""List and map types, and what a change of schema does to ownership: S-55 to S-62."""

import copy
from typing import Any

import pytest

from kubelab.model.failure import ApiFailure
from kubelab.ssa.compare import compare
from kubelab.ssa.field_paths import iterate, path_text
from kubelab.ssa.merge import merge
from tests.support.ssa_world import SPEC, THING, World, thing


def refused(act: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        act()
    return caught.value


def with_spec(**properties: Any) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC)
    spec["properties"].update(properties)
    return spec


@pytest.mark.parametrize(("field", "mine", "theirs"), [("am", {"a": "1"}, {"b": "1"}), ("al", ["a"], ["b"])])
def test_atomic_values_conflict_and_are_replaced_as_a_whole_S_55(field: str, mine: Any, theirs: Any) -> None:
    world = World().apply("A", {field: mine})
    failure = refused(lambda: world.apply("B", {field: theirs}))
    assert [cause.field for cause in failure.causes] == [f".spec.{field}"]
    assert world.apply("B", {field: theirs}, force=True).spec[field] == theirs


def test_a_set_unites_items_and_keeps_the_order_of_the_applier_S_56() -> None:
    world = World().apply("A", {"set": ["a", "b"]}).apply("B", {"set": ["z"]})
    assert world.spec["set"] == ["a", "b", "z"]
    world.apply("A", {"set": ["b", "n", "a"]})
    assert world.spec["set"] == ["b", "z", "n", "a"]
    assert world.owned("B") == {"f:set": {'v:"z"': {}}}


def test_reordering_a_set_by_update_changes_no_ownership_S_57() -> None:
    world = World().apply("A", {"set": ["a", "b"]}).merge("U", {"spec": {"set": ["b", "a"]}})
    assert world.spec["set"] == ["b", "a"]
    assert world.owned("A") == {"f:set": {'v:"a"': {}, 'v:"b"': {}}}
    assert world.entry("U", "Update") == {}


def test_without_a_schema_maps_merge_and_lists_are_atomic_S_58() -> None:
    world = World().apply("A", {"free": {"m": {"x": 1}, "l": [1]}}).apply("B", {"free": {"m": {"y": 2}}})
    assert world.spec["free"] == {"m": {"x": 1, "y": 2}, "l": [1]}
    failure = refused(lambda: world.apply("B", {"free": {"l": [2]}}))
    assert [cause.field for cause in failure.causes] == [".spec.free.l"]


def test_an_item_without_a_key_that_has_no_default_is_a_required_value_S_59() -> None:
    failure = refused(lambda: World().apply("A", {"ports": [{"protocol": "UDP"}]}))
    assert (failure.status, failure.reason) == (422, "Invalid")
    assert ("FieldValueRequired", "spec.ports[0].port") in {(c.reason, c.field) for c in failure.causes}


def test_owners_of_parts_own_the_whole_when_a_type_becomes_atomic_S_60() -> None:
    world = World().apply("A", {"gm": {"a": "1"}, "set": ["x"]}).apply("B", {"gm": {"b": "1"}, "str": "k"})
    atomic = {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}}
    world.definition = thing(with_spec(gm=atomic, set={"type": "array", "items": {"type": "string"}}))
    world.apply("B", {"gm": {"a": "1", "b": "1"}, "str": "k"})
    assert world.owned("A") == {"f:gm": {}, "f:set": {}}
    assert world.owned("B") == {"f:gm": {}, "f:str": {}}


def test_the_owner_of_a_whole_keeps_the_parent_only_when_a_type_becomes_granular_S_60() -> None:
    world = World().apply("A", {"am": {"a": "1"}})
    world.definition = thing(with_spec(am={"type": "object", "additionalProperties": {"type": "string"}}))
    world.apply("B", {"str": "k"})
    assert world.owned("A") == {"f:am": {}}
    world.apply("B", {"str": "k", "am": {"a": "2"}})
    assert world.spec["am"] == {"a": "2"}


def test_duplicates_already_there_are_tolerated_and_count_as_a_whole_S_61() -> None:
    loose = World(thing(with_spec(set={"type": "array", "items": {"type": "string"}})))
    loose.create("U", {"set": ["a", "a", "b"]})
    loose.definition = World().definition
    loose.merge("V", {"spec": {"str": "x"}})
    assert loose.spec["set"] == ["a", "a", "b"]
    loose.apply("A", {"set": ["c"]})
    assert loose.spec["set"] == ["a", "a", "b", "c"]


def test_applying_a_duplicated_key_conflicts_on_the_item_S_61() -> None:
    plain = {key: value for key, value in SPEC["properties"]["named"].items() if not key.startswith("x-")}
    world = World(thing(with_spec(named=plain)))
    world.create("U", {"named": [{"name": "n", "v": "1"}, {"name": "n", "v": "2"}]})
    world.merge("U", {"metadata": {"managedFields": [{}]}})
    world.definition = World().definition
    failure = refused(lambda: world.apply("A", {"named": [{"name": "n", "v": "3"}]}))
    assert '.spec.named[name="n"]' in {cause.field for cause in failure.causes}
    world.apply("A", {"named": [{"name": "n", "v": "3"}]}, force=True)
    assert world.spec["named"] == [{"name": "n", "v": "3"}]


def test_null_is_stored_and_owned_where_it_is_allowed_S_62() -> None:
    world = World().apply("A", {"maybe": None})
    assert world.spec["maybe"] is None
    assert world.owned("A") == {"f:maybe": {}}


@pytest.mark.parametrize(("spec", "kind"), [({"str": None}, "string"), ({"st": None}, "object")])
def test_null_is_refused_where_it_is_not_allowed_S_62(spec: dict[str, Any], kind: str) -> None:
    failure = refused(lambda: World().apply("A", spec))
    assert failure.status == 422
    field = f"spec.{next(iter(spec))}"
    cause = next(cause for cause in failure.causes if cause.field == field)
    assert cause.message == f'Invalid value: "null": {field} in body must be of type {kind}: "null"'
    assert cause.reason == "FieldValueTypeInvalid"


def test_null_in_place_of_a_default_stores_the_default_and_owns_the_field_S_62() -> None:
    world = World().apply("A", {"mode": None})
    assert world.spec["mode"] == "normal"
    assert world.owned("A") == {"f:mode": {}}


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        ({"a": 1}, {"a": {"b": 1}}, [], [".spec.free.a"], [".spec.free.a.b"]),
        ({"a": {"b": 1}}, {"a": 1}, [".spec.free.a.b"], [".spec.free.a"], []),
        ({"a": [1]}, {"a": {"b": 1}}, [], [".spec.free.a"], [".spec.free.a.b"]),
        ({"a": {"b": 1}}, {"a": [1]}, [".spec.free.a.b"], [".spec.free.a"], []),
        ({"a": 1}, {"a": [1]}, [], [".spec.free.a"], []),
        ({"a": 1}, {"a": True}, [], [".spec.free.a"], []),
        ({"a": {}}, {"a": None}, [], [".spec.free.a"], []),
        ({"a": {"b": {}}}, {"a": {"b": {"c": 1}}}, [], [], [".spec.free.a.b.c"]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, [".spec.free.a.b.c"], [], []),
    ],
)
def test_a_value_that_changes_its_shape_counts_in_both_S_58(
    old: Any, new: Any, removed: list[str], modified: list[str], added: list[str]
) -> None:
    changes = compare(THING.schema, {"spec": {"free": old}}, {"spec": {"free": new}})
    found = [sorted(map(path_text, iterate(fields))) for fields in (changes.removed, changes.modified, changes.added)]
    assert found == [removed, modified, added]


def test_an_atomic_map_loses_nothing_when_its_owner_drops_another_field_S_55() -> None:
    world = World().apply("A", {"am": {"k": "v"}, "al": ["x"], "str": "s"}).apply("B", {"am": {"k": "v"}, "al": ["x"]})
    world.apply("A", {})
    assert world.spec == {"mode": "normal", "am": {"k": "v"}, "al": ["x"]}


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("ab", "z", "abz"),
        ("abz", "bna", "bzna"),
        ("abcd", "acb", "acdb"),
        ("abcd", "bac", "bdac"),
        ("abcd", "aceb", "acdeb"),
        ("abcd", "deb", "acdeb"),
        ("abcd", "dcba", "dcba"),
        ("abcd", "xdy", "abcxdy"),
        ("ab", "", "ab"),
        ("", "ba", "ba"),
    ],
)
def test_the_order_of_merged_items_S_56(live: str, config: str, merged: str) -> None:
    schema = THING.schema.properties["spec"].properties["set"]
    assert merge(schema, list(live), list(config)) == list(merged)


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        ("aa", "aa", [], [], []),
        ("aa", "aaa", [], ['[="a"]'], []),
        ("aaa", "aa", [], ['[="a"]'], []),
        ("aa", "a", ['[="a"]'], [], ['[="a"]']),
        ("aa", "", ['[="a"]'], [], []),
        ("a", "aa", ['[="a"]'], [], ['[="a"]']),
        ("", "aa", [], [], ['[="a"]']),
        ("aab", "aac", ['[="b"]'], [], ['[="c"]']),
    ],
)
def test_duplicates_are_compared_as_one_whole_S_61(
    old: str, new: str, removed: list[str], modified: list[str], added: list[str]
) -> None:
    changes = compare(THING.schema.properties["spec"].properties["set"], list(old), list(new))
    found = [sorted(map(path_text, iterate(fields))) for fields in (changes.removed, changes.modified, changes.added)]
    assert found == [removed, modified, added]

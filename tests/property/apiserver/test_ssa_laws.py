"""Laws of server-side apply that hold for every object, configuration and manager."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kubelab.model.failure import ApiFailure
from kubelab.ssa.compare import compare
from kubelab.ssa.fieldset import difference, intersection
from kubelab.ssa.merge import merge
from kubelab.ssa.typed import field_set
from purekube.ports.emptied import became_null
from purekube.schema.structure import equal
from tests.support.ssa_world import THING, World

TEXTS = st.sampled_from(["", "a", "b"])
KEYS = st.sampled_from(["k", "l", "a.b/c"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=5,
)
ITEMS = st.fixed_dictionaries({"name": TEXTS}, optional={"v": TEXTS, "w": TEXTS})
PORTS = st.fixed_dictionaries(
    {"port": st.integers(1, 2)}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "weight": st.integers(0, 1)}
)


def port_key(port: dict[str, Any]) -> tuple[int, str]:
    return port["port"], port.get("protocol", "TCP")


SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "str": TEXTS,
        "num": st.sampled_from([0, 1, 1.0, 1.5]),
        "mode": TEXTS,
        "maybe": st.none() | TEXTS,
        "st": st.fixed_dictionaries({}, optional={"a": TEXTS, "d": TEXTS}),
        "gm": st.dictionaries(KEYS, TEXTS, max_size=2),
        "ms": st.dictionaries(KEYS, st.fixed_dictionaries({}, optional={"a": TEXTS, "b": TEXTS}), max_size=2),
        "am": st.dictionaries(KEYS, TEXTS, max_size=2),
        "al": st.lists(TEXTS, max_size=2),
        "set": st.lists(TEXTS, max_size=3, unique=True),
        "named": st.lists(ITEMS, max_size=3, unique_by=lambda item: item["name"]),
        "ports": st.lists(PORTS, max_size=3, unique_by=port_key),
        "free": st.dictionaries(KEYS, JSON, max_size=2),
    },
)
MANAGERS = st.sampled_from(["A", "B", "C"])
HISTORY = st.lists(st.tuples(MANAGERS, SPECS), min_size=1, max_size=3)


def after(history: list[tuple[str, dict[str, Any]]]) -> World:
    world = World()
    for manager, spec in history:
        forced(world, manager, spec)
    return world


def forced(world: World, manager: str, spec: dict[str, Any]) -> World:
    """Apply by force. Where the apply empties a map or list, which becomes null, another example is drawn (S-42)."""
    failure = failure_of(lambda: world.apply(manager, spec, force=True))
    if failure is not None:
        assert failure.status == 422
        assert 'Invalid value: "null"' in str(failure)
    assume(failure is None)
    assume(not became_null(world.body(spec), world.object))
    return world


@given(HISTORY, SPECS)
@example([("A", {"named": [{"name": "a"}]}), ("B", {"str": "a"})], {"st": {}})
def test_a_second_identical_apply_is_a_no_op_S_65(history: Any, spec: dict[str, Any]) -> None:
    # An empty set or map list is owned by nobody, so a configuration of nothing else comes and goes.
    assume(all(spec.get(key, True) for key in ("set", "named", "ports")))
    world = forced(after(history), "A", spec)
    before = world.object
    world.apply("A", spec)
    assert not world.changed or "spec" not in before


@given(HISTORY, SPECS)
def test_an_applier_gets_what_it_asks_for(history: Any, spec: dict[str, Any]) -> None:
    world = forced(after(history), "A", spec)
    assume("spec" in world.object)
    stored = world.spec
    for key in ("str", "am", "al"):
        if key in spec:
            assert equal(stored[key], spec[key])
    for item in spec.get("named", ()):
        found = next(one for one in stored["named"] if one["name"] == item["name"])
        assert all(found[name] == value for name, value in item.items())
    assert set(spec.get("set", ())) <= set(stored.get("set", ()))
    assert spec.get("gm", {}).items() <= stored.get("gm", {}).items()


@given(HISTORY, SPECS)
def test_a_refused_apply_changes_nothing_and_is_possible_by_force(history: Any, spec: dict[str, Any]) -> None:
    world = after(history)
    before = world.live
    failure = failure_of(lambda: world.apply("D", spec))
    assert failure is None or (failure.status, world.live) == (409, before)
    forced(world, "D", spec)


def failure_of(act: Callable[[], object]) -> ApiFailure | None:
    """The refusal of a write, None when it was taken."""
    try:
        act()
    except ApiFailure as failure:
        return failure
    return None


@given(HISTORY, SPECS)
def test_nothing_is_changed_in_place(history: Any, spec: dict[str, Any]) -> None:
    world = after(history)
    live, config = copy.deepcopy(world.live), copy.deepcopy(spec)
    kept = world.live
    forced(world, "A", spec)
    assert kept == live
    assert spec == config


@given(HISTORY)
def test_every_entry_owns_something_and_nobody_owns_the_same_entry_twice(history: Any) -> None:
    world = after(history)
    identities = [(e["manager"], e["operation"], e.get("subresource")) for e in world.entries]
    assert len(identities) == len(set(identities))
    assert all(entry["fieldsV1"] for entry in world.entries)


@given(SPECS, SPECS)
def test_comparing_is_complete_and_symmetric(old: dict[str, Any], new: dict[str, Any]) -> None:
    schema = THING.schema.properties["spec"]
    there, back = compare(schema, old, new), compare(schema, new, old)
    assert there.same == equal_but_for_order(old, new)
    assert there.added == back.removed
    assert there.removed == back.added
    assert not difference(there.modified, back.modified)
    assert not intersection(there.added, there.removed)


def equal_but_for_order(old: Any, new: Any) -> bool:
    """Equality in which sets and map lists have no order."""
    return set(old) == set(new) and all(equal(in_order(key, old[key]), in_order(key, new[key])) for key in old)


def in_order(key: str, value: Any) -> Any:
    match key:
        case "set":
            return sorted(value)
        case "named":
            return sorted(value, key=lambda item: str(item["name"]))
        case "ports":
            return sorted(value, key=port_key)
        case _:
            return value


@given(SPECS, SPECS)
@example({"set": ["", "a"]}, {"set": ["a", ""]})
def test_merging_gives_every_field_of_the_configuration(live: dict[str, Any], config: dict[str, Any]) -> None:
    schema = THING.schema.properties["spec"]
    merged = merge(schema, live, config)
    assert not difference(field_set(schema, config), field_set(schema, merged)) or has_null(config)
    assert equal(merge(schema, merged, config), merged)


def has_null(value: Any) -> bool:
    """Null merges with what is there, and an empty value with a full one: then they are no leaves."""
    if isinstance(value, dict):
        return not value or any(has_null(item) for item in value.values())
    return value is None or (isinstance(value, list) and (not value or any(has_null(item) for item in value)))


@given(SPECS)
def test_merging_with_itself_changes_nothing_by_identity(spec: dict[str, Any]) -> None:
    schema = THING.schema.properties["spec"]
    assert merge(schema, spec, copy.deepcopy(spec)) == spec


@given(st.permutations(["x", "y", "z"]), st.permutations(["x", "y", "z"]))
def test_the_order_of_the_configuration_wins_among_its_own_items_S_56(first: list[str], second: list[str]) -> None:
    world = World().apply("A", {"set": first}).apply("A", {"set": second})
    assert world.spec["set"] == second


@pytest.mark.parametrize(
    ("config", "answer", "became"),
    [
        ({}, None, True),
        ({}, {}, False),
        ({"a": {}}, {"a": None}, True),
        ({"a": {}}, {"a": {}}, False),
        ({"a": {}}, {}, False),
        ({"a": {"b": {"c": {}}}}, {"a": {"b": {"c": None}}}, True),
        ({"a": {"b": {"c": {}}}}, {"a": {"b": None}}, False),
        ({"a": {"b": {"c": {}}}}, {"a": {"b": {"c": {}}}}, False),
        ({"a": {"b": None}}, {"a": {"b": {}}}, False),
        ({"a": 1, "b": {"c": {}}, "d": "x"}, {"a": 1, "b": {"c": None}, "d": "x"}, True),
        ({"a": [{}]}, {"a": [None]}, False),
    ],
)
def test_a_map_that_an_apply_emptied_is_found_at_any_depth_and_outside_of_lists(
    config: Any, answer: Any, became: bool
) -> None:
    assert became_null(config, answer) is became

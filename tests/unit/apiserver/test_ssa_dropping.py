"""What goes when an applier leaves something out: S-37 to S-46."""

from typing import Any

import pytest

from kubelab.model.failure import ApiFailure
from tests.support.ssa_world import World


@pytest.mark.parametrize(
    ("spec", "rest"),
    [
        ({"str": "x"}, {"mode": "normal", "str2": "k"}),
        ({"mode": "fast"}, {"mode": "normal", "str2": "k"}),
        ({"set": ["a"]}, {"mode": "normal", "str2": "k"}),
        ({"named": [{"name": "n"}]}, {"mode": "normal", "str2": "k"}),
        ({"gm": {"a": "1"}}, {"mode": "normal", "str2": "k"}),
        ({"free": {"x": {"y": 1}}}, {"mode": "normal", "str2": "k"}),
        ({"st": {"a": "1"}}, {"mode": "normal", "str2": "k"}),
    ],
)
def test_what_only_the_applier_owns_goes_or_falls_back_to_its_default_S_37(spec: Any, rest: Any) -> None:
    world = World().apply("A", {**spec, "str2": "k"}).apply("A", {"str2": "k"})
    assert world.spec == rest


def test_a_field_falls_back_to_its_default_while_its_parent_stays_S_37() -> None:
    world = World().apply("A", {"st": {"a": "1", "d": "mine"}}).apply("A", {"st": {"a": "1"}})
    assert world.spec["st"] == {"a": "1", "d": "dd"}


def test_what_another_applier_owns_too_stays_S_38() -> None:
    world = World().apply("A", {"str": "x", "str2": "k"}).apply("B", {"str": "x"}).apply("A", {"str2": "k"})
    assert world.spec["str"] == "x"
    assert world.owned("A") == {"f:str2": {}}


def test_what_an_updater_took_over_stays_S_39() -> None:
    world = World().apply("A", {"str": "x", "str2": "k"}).merge("U", {"spec": {"str": "u"}})
    world.apply("A", {"str2": "k"})
    assert world.spec["str"] == "u"


def test_applying_nothing_leaves_nothing_behind_S_40() -> None:
    world = World().apply("A", {"str": "x", "st": {"a": "1"}}, labels={"l": "1"}).apply("A")
    assert "spec" not in world.object
    assert "labels" not in world.meta
    assert "managedFields" not in world.meta


def test_a_dropped_list_item_takes_an_updaters_field_with_it_S_41() -> None:
    world = World().apply("A", {"str": "k", "named": [{"name": "n"}, {"name": "m"}]})
    world.merge("U", {"spec": {"named": [{"name": "n", "v": "u"}, {"name": "m"}]}})
    assert world.owned("U", "Update") == {"f:named": {'k:{"name":"n"}': {"f:v": {}}}}
    world.apply("A", {"str": "k", "named": [{"name": "m"}]})
    assert world.spec["named"] == [{"name": "m"}]
    assert world.entry("U", "Update") == {}


def test_a_dropped_map_item_takes_an_updaters_field_with_it_and_leaves_null_S_42() -> None:
    world = World().apply("A", {"str": "k", "ms": {"x": {"a": "1"}}})
    world.merge("U", {"spec": {"ms": {"x": {"b": "u"}}}})
    with pytest.raises(ApiFailure, match=r"spec\.ms in body must be of type object"):
        world.apply("A", {"str": "k"})


@pytest.mark.parametrize("field", ["st", "gm", "free"])
def test_dropping_a_struct_or_free_map_keeps_an_updaters_sibling_S_43(field: str) -> None:
    world = World().apply("A", {"str": "k", field: {"a": "1"}})
    world.merge("U", {"spec": {field: {"b": "u"}}})
    world.apply("A", {"str": "k"})
    assert world.spec[field]["b"] == "u"
    assert "a" not in world.spec[field]


def test_a_shared_list_item_stays_with_the_fields_of_who_remains_S_44() -> None:
    world = World().apply("A", {"named": [{"name": "n", "v": "a"}]})
    world.apply("B", {"named": [{"name": "n", "w": "b"}]}).apply("A", {})
    assert world.spec["named"] == [{"name": "n", "w": "b"}]


def test_an_empty_marker_differs_from_none_S_45() -> None:
    world = World().apply("A", {"mark": {}})
    assert world.spec["mark"] == {}
    world.apply("A", {})
    assert "mark" not in world.spec


def test_an_empty_main_apply_leaves_the_status_of_the_same_manager_alone_S_46() -> None:
    world = World().apply("A", {"str": "x"}).apply("A", sub="status", status={"note": "n"})
    world.apply("A")
    assert world.object["status"] == {"note": "n"}
    assert world.entry("A", subresource="status")["fieldsV1"] == {"f:status": {"f:note": {}}}
    assert world.entry("A") == {}

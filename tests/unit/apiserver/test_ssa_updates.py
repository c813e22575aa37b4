"""Writes that are no applies, as seen by ownership: S-47 to S-54."""

import pytest

from kubelab.model.failure import ApiFailure
from tests.support.ssa_world import World, thing


def test_an_update_takes_every_field_it_changes_S_47() -> None:
    world = World().apply("A", {"str": "x", "str2": "k"}).merge("U", {"spec": {"str": "u"}})
    assert world.owned("A") == {"f:str2": {}}
    assert world.owned("U", "Update") == {"f:str": {}}


def test_an_update_that_changes_nothing_gains_nothing_S_48() -> None:
    world = World().apply("A", {"str": "x"}).merge("U", {"spec": {"str": "x"}})
    assert not world.changed
    assert world.entry("U", "Update") == {}


def test_a_second_updater_with_the_same_value_gains_nothing_S_48() -> None:
    world = World().create("U", {"str": "x"}).merge("V", {"spec": {"str": "x"}})
    assert world.entry("V", "Update") == {}


def test_an_update_that_removes_a_field_takes_it_from_everybody_S_49() -> None:
    world = World().apply("A", {"str": "x"}).apply("B", {"str": "x", "str2": "y"})
    world.merge("U", {"spec": {"str": None}})
    assert world.entry("A") == {}
    assert world.owned("B") == {"f:str2": {}}
    assert world.entry("U", "Update") == {}


def test_an_updater_of_an_atomic_list_owns_it_alone_S_50() -> None:
    world = World().apply("A", {"al": ["x"], "str": "k"}).merge("U", {"spec": {"al": ["x", "y"]}})
    assert world.owned("A") == {"f:str": {}}
    assert world.owned("U", "Update") == {"f:al": {}}


def test_a_scale_write_is_an_entry_of_its_own_S_51() -> None:
    world = World(thing(scale=True)).apply("A", {"replicas": 1, "str": "k"})
    world.merge("hpa", {"spec": {"replicas": 3}}, sub="scale")
    assert world.spec["replicas"] == 3
    assert world.owned("hpa", "Update", "scale") == {"f:replicas": {}}
    world.apply("A", {"str": "k"})
    assert world.spec["replicas"] == 3


def test_thirteen_updaters_leave_ten_entries_S_52() -> None:
    world = World().apply("A", {"str": "x"})
    for number in range(13):
        world.merge(f"u{number:02}", {"spec": {"gm": {f"k{number}": "v"}}})
    updates = [entry["manager"] for entry in world.entries if entry["operation"] == "Update"]
    assert sorted(updates) == sorted(["ancient-changes", *(f"u{number:02}" for number in range(4, 13))])
    merged = world.owned("ancient-changes", "Update")["f:gm"]
    assert set(merged) == {".", "f:k0", "f:k1", "f:k2", "f:k3"}
    assert world.owned("A") == {"f:str": {}}


def test_capping_keeps_every_owned_field_when_all_times_are_equal_S_52() -> None:
    world = World().create("aa", {"str": "x"})
    for number in range(20):
        world.seconds = 0
        world.merge(f"{'ab'[number % 2]}{number:02}", {"spec": {"gm": {f"k{number}": "v"}}})
    owned = {key for entry in world.entries for key in entry["fieldsV1"]["f:spec"].get("f:gm", {})}
    assert owned >= {f"f:k{number}" for number in range(20)}


def test_an_updater_without_a_name_is_unknown_S_53() -> None:
    assert World().create("", {"str": "x"}).entry("unknown", "Update")


def test_the_first_apply_on_an_untracked_object_leaves_the_rest_to_before_first_apply_S_54() -> None:
    world = World().create("U", {"str": "x", "gm": {"k": "v"}})
    world.merge("U", {"metadata": {"managedFields": [{}]}})
    assert world.entries == []
    world.apply("A", {"str": "x"})
    assert world.owned("before-first-apply", "Update") == {
        ".": {},
        "f:gm": {".": {}, "f:k": {}},
        "f:mode": {},
        "f:str": {},
    }
    assert world.owned("A") == {"f:str": {}}


def test_a_first_apply_of_status_adopts_the_status_only_S_54() -> None:
    world = World().create("U", {"str": "x"}).merge("U", {"status": {"note": "n"}}, sub="status")
    world.merge("U", {"metadata": {"managedFields": [{}]}})
    world.apply("A", sub="status", status={"count": 1})
    assert world.entry("before-first-apply", "Update", "status")["fieldsV1"] == {"f:status": {".": {}, "f:note": {}}}
    assert world.entry("A", subresource="status")["fieldsV1"] == {"f:status": {"f:count": {}}}
    assert len(world.entries) == 2


def test_an_object_whose_entries_all_went_counts_as_untracked_S_54() -> None:
    world = World().apply("A", {"set": ["a"]}).merge("U", {"spec": {"set": None}})
    assert world.entries == []
    world.apply("B", {"str": "y"})
    assert world.owned("before-first-apply", "Update") == {".": {}, "f:mode": {}}
    with pytest.raises(ApiFailure, match="before-first-apply"):
        world.apply("C", {"mode": "fast"})


@pytest.mark.parametrize("value", [[{"v": "x"}], [None], ["x"]])
def test_a_list_whose_items_have_no_identity_is_left_to_validation_S_59(value: list[object]) -> None:
    world = World().apply("A", {"str": "x"})
    with pytest.raises(ApiFailure) as caught:
        world.merge("U", {"spec": {"named": value}})
    assert caught.value.status == 422
    assert {cause.field.split("[")[0] for cause in caught.value.causes} <= {"spec.named", "<nil>"}

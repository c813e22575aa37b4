"""Entries of managedFields, no-ops, times and generation: S-63 to S-76."""

from typing import Any

import pytest

from kubelab.model.failure import ApiFailure
from tests.support.ssa_world import World, thing


def refused(act: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        act()
    return caught.value


def two_versions() -> tuple[Any, Any]:
    return thing(versions=("v1", "v2")), thing(versions=("v2", "v1"))


def test_an_applier_has_one_entry_over_versions_and_an_updater_one_each_S_63() -> None:
    first, second = two_versions()
    world = World(first).apply("A", {"str": "x"}).merge("U", {"spec": {"str2": "1"}})
    world.definition = second
    world.live = {**world.object, "apiVersion": second.api_version}
    world.apply("A", {"str": "x"}).merge("U", {"spec": {"gm": {"k": "1"}}})
    versions = sorted((e["manager"], e["operation"], e["apiVersion"]) for e in world.entries)
    assert versions == [
        ("A", "Apply", "tests.example/v2"),
        ("U", "Update", "tests.example/v1"),
        ("U", "Update", "tests.example/v2"),
    ]


def test_entries_are_sorted_by_operation_time_and_manager_S_64() -> None:
    world = World().create("U", {"str": "x"})
    world.seconds = 10
    world.apply("B", {"str2": "y"})
    world.seconds = 10
    world.apply("A", {"gm": {"k": "1"}})
    world.merge("A", {"spec": {"gm": {"j": "1"}}})
    rows = [(e["operation"], e["manager"]) for e in world.entries]
    assert rows == [("Apply", "A"), ("Apply", "B"), ("Update", "U"), ("Update", "A")]


def test_a_second_identical_apply_is_a_no_op_S_65() -> None:
    world = World().apply("A", {"str": "x", "named": [{"name": "n"}], "ports": [{"port": 1}]}, labels={"l": "1"})
    before = world.object
    world.apply("A", {"str": "x", "named": [{"name": "n"}], "ports": [{"port": 1}]}, labels={"l": "1"})
    assert not world.changed
    assert world.outcome is not None
    assert world.outcome.object == before


def test_a_put_and_a_patch_without_a_change_are_no_ops_S_65() -> None:
    world = World().create("U", {"str": "x"})
    world.put("V", world.object)
    assert not world.changed
    world.merge("V", {"spec": {"str": "x"}})
    assert not world.changed


def test_a_status_apply_without_a_change_is_a_no_op_S_65() -> None:
    world = World().apply("A", {"str": "x"}).apply("A", sub="status", status={"note": "n"})
    world.apply("A", sub="status", status={"note": "n"})
    assert not world.changed


def test_a_main_apply_that_differs_only_in_its_ignored_status_is_a_no_op_S_65() -> None:
    world = World().apply("A", {"str": "x"}, status={"note": "1"})
    world.apply("A", {"str": "x"}, status={"note": "2"})
    assert not world.changed


def test_a_new_manager_with_equal_values_has_an_entry_without_time_S_66() -> None:
    world = World().apply("A", {"str": "x"})
    world.apply("B", {"str": "x"})
    assert world.changed
    assert world.meta["generation"] == 1
    assert "time" not in world.entry("B")
    assert world.entry("A")["time"] == "2026-01-01T00:00:01Z"


def test_the_time_moves_with_a_value_and_not_for_losers_S_67() -> None:
    world = World().apply("A", {"str": "x"}).apply("B", {"str2": "y"}).apply("A", {"str": "z"})
    assert world.entry("A")["time"] == "2026-01-01T00:00:03Z"
    assert world.entry("B")["time"] == "2026-01-01T00:00:02Z"
    world.apply("A", {"str": "z", "str2": "w"}, force=True)
    assert world.entry("B") == {}
    world = World().apply("A", {"str": "x", "str2": "k"}).merge("U", {"spec": {"str": "u"}})
    assert world.entry("A")["time"] == "2026-01-01T00:00:01Z"


@pytest.mark.parametrize("how", ["put", "merge"])
def test_one_empty_entry_strips_ownership_and_tracks_nothing_of_the_request_S_68(how: str) -> None:
    world = World().apply("A", {"str": "x"})
    if how == "merge":
        world.merge("U", {"metadata": {"managedFields": [{}]}, "spec": {"str2": "new"}})
    else:
        meta = {**world.meta, "managedFields": [{}]}
        world.put("U", {**world.object, "metadata": meta, "spec": {"str": "x", "str2": "new"}})
    assert world.entries == []
    assert world.spec["str2"] == "new"


@pytest.mark.parametrize("asked", ["empty", "missing", "null"])
def test_anything_else_keeps_ownership_of_custom_resources_S_68(asked: str) -> None:
    world = World().apply("A", {"str": "x"})
    entry = world.entry("A")
    if asked == "null":
        world.merge("U", {"metadata": {"managedFields": None}, "spec": {"str2": "y"}})
    else:
        meta = {key: value for key, value in world.meta.items() if key != "managedFields"}
        meta = {**meta, "managedFields": []} if asked == "empty" else meta
        world.put("U", {**world.object, "metadata": meta, "spec": {**world.spec, "str2": "y"}})
    assert world.entry("A") == entry
    assert world.owned("U", "Update") == {"f:str2": {}}


@pytest.mark.parametrize(
    "broken",
    [
        [{"manager": "x", "operation": "Eat", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"zz": {}}}],
        [{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {}}],
    ],
)
def test_managed_fields_that_cannot_be_read_are_ignored_S_69(broken: list[Any]) -> None:
    world = World().apply("A", {"str": "x"})
    world.put("U", {**world.object, "metadata": {**world.meta, "managedFields": broken}})
    assert not world.changed
    assert world.owned("A") == {"f:str": {}}


def test_a_renamed_manager_is_honoured_S_69() -> None:
    world = World().apply("A", {"str": "x"})
    world.put(
        "U", {**world.object, "metadata": {**world.meta, "managedFields": [{**world.entry("A"), "manager": "Z"}]}}
    )
    assert world.entry("A") == {}
    assert world.owned("Z") == {"f:str": {}}


def test_a_recreated_object_has_no_old_managers_S_70() -> None:
    world = World().apply("A", {"str": "x"}).delete()
    world.apply("B", {"str": "y"})
    assert [entry["manager"] for entry in world.entries] == ["B"]
    assert world.meta["generation"] == 1


def test_entries_of_a_version_that_is_no_longer_served_go_S_71() -> None:
    first, _ = two_versions()
    world = World(thing(versions=("v2", "v1"))).apply("A", {"str": "x"}, labels={"l": "1"})
    world.definition = thing(versions=("v1",))
    world.live = {**world.object, "apiVersion": first.api_version}
    world.apply("B", {"str2": "y"})
    assert world.entry("A") == {}
    assert world.spec["str"] == "x"


def test_generation_moves_with_content_only_S_72() -> None:
    world = World().apply("A", {"str": "x"}, generation=99)
    assert world.meta["generation"] == 1
    world.apply("A", {"str": "x"}, labels={"l": "1"})
    assert world.meta["generation"] == 1
    world.apply("A", {"str": "x"}, labels={"l": "1"}, status={"note": "n"})
    assert world.meta["generation"] == 1
    world.apply("A", {"str": "y"}, labels={"l": "1"}, generation=50)
    assert world.meta["generation"] == 2
    world.apply("A", sub="status", status={"note": "n"})
    assert world.meta["generation"] == 2
    world.put("U", {**world.object, "metadata": {**world.meta, "generation": 70}})
    assert not world.changed


def test_without_a_status_subresource_status_is_content_S_73() -> None:
    world = World(thing(status=False)).apply("A", {"str": "x"})
    world.apply("B", status={"note": "n"})
    assert world.object["status"] == {"note": "n"}
    assert world.meta["generation"] == 2
    assert world.entry("B")["fieldsV1"] == {"f:status": {"f:note": {}}}


def test_a_put_needs_the_current_resource_version_S_74() -> None:
    world = World().create("U", {"str": "x"})
    failure = refused(lambda: world.put("U", world.body({"str": "y"})))
    assert (failure.status, failure.causes[0].field) == (422, "metadata.resourceVersion")
    failure = refused(lambda: world.put("U", world.body({"str": "y"}, resourceVersion="99")))
    assert (failure.status, failure.reason, failure.causes) == (409, "Conflict", ())


def test_a_deleted_object_takes_changes_but_no_new_finalizers_S_75() -> None:
    world = World().apply("A", {"str": "x"}, finalizers=["x.example/f"]).delete()
    world.apply("A", {"str": "y"}, finalizers=["x.example/f"])
    assert (world.spec["str"], world.meta["generation"]) == ("y", 3)
    failure = refused(lambda: world.apply("A", {"str": "y"}, finalizers=["x.example/f", "x.example/g"]))
    assert failure.causes[0].message == (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"x.example/g"}'
    )
    world.apply("A", {"str": "y"})
    assert "finalizers" not in world.meta
    assert world.meta["deletionTimestamp"]

"""What is owned, by whom, in which form: S-20 to S-28."""

from typing import Any

import pytest

from tests.support.ssa_world import World

LEAF: dict[str, Any] = {}


def item(*fields: str) -> dict[str, Any]:
    return {".": {}, **{f"f:{name}": {} for name in fields}}


@pytest.mark.parametrize(
    ("spec", "owned"),
    [
        ({"str": "x"}, {"f:str": LEAF}),
        ({"al": ["x", "y"]}, {"f:al": LEAF}),
        ({"am": {"k": "v"}}, {"f:am": LEAF}),
        ({"set": ["x", "y"]}, {"f:set": {'v:"x"': LEAF, 'v:"y"': LEAF}}),
        ({"named": [{"name": "n", "v": "1"}]}, {"f:named": {'k:{"name":"n"}': item("name", "v")}}),
        ({"gm": {"a.b/c": "x"}}, {"f:gm": {"f:a.b/c": LEAF}}),
        ({}, LEAF),
        ({"mark": {}}, {"f:mark": LEAF}),
        ({"st": {}}, {"f:st": LEAF}),
        ({"st": {"a": "x"}}, {"f:st": {"f:a": LEAF}}),
    ],
)
def test_an_applier_owns_the_leaves_of_its_configuration_S_20(spec: dict[str, Any], owned: Any) -> None:
    assert World().apply("A", spec).owned("A") == owned


def test_map_keys_have_a_member_of_their_own_and_struct_fields_do_not_S_21() -> None:
    world = World().apply("A", {"ms": {"x": {"a": "1"}}, "free": {"m": {"n": 1}}, "st": {"a": "1"}})
    assert world.owned("A") == {
        "f:ms": {"f:x": item("a")},
        "f:free": {"f:m": {".": {}, "f:n": LEAF}},
        "f:st": {"f:a": LEAF},
    }


def test_an_applier_does_not_own_defaults_S_22() -> None:
    world = World().apply("A", {"st": {"a": "x"}})
    assert world.spec == {"mode": "normal", "st": {"a": "x", "d": "dd"}}
    assert world.owned("A") == {"f:st": {"f:a": LEAF}}


def test_an_updater_owns_defaults_and_the_structs_it_creates_S_22() -> None:
    world = World().create("U", {"str": "x", "st": {"a": "1"}})
    assert world.owned("U", "Update") == {
        ".": {},
        "f:mode": LEAF,
        "f:str": LEAF,
        "f:st": {".": {}, "f:a": LEAF, "f:d": LEAF},
    }


def test_a_defaulted_key_is_part_of_the_identity_but_owned_by_who_sent_it_S_23() -> None:
    world = World().apply("A", {"ports": [{"port": 80}]})
    assert world.owned("A") == {"f:ports": {'k:{"port":80,"protocol":"TCP"}': item("port")}}
    world.apply("B", {"ports": [{"port": 80, "protocol": "TCP"}]})
    assert world.owned("B") == {"f:ports": {'k:{"port":80,"protocol":"TCP"}': item("port", "protocol")}}


def test_identity_and_system_metadata_are_never_owned_S_24() -> None:
    world = World().apply("A", None, namespace="t", creationTimestamp=None)
    assert world.entries == []
    world = World().create("U", {"str": "x"})
    assert set(world.entry("U", "Update")["fieldsV1"]) == {"f:spec"}


def test_labels_annotations_finalizers_and_owners_are_owned_per_item_S_25() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u-1"}
    world = World().apply(
        "A", labels={"l": "1"}, annotations={"n": "1"}, finalizers=["x.example/f"], ownerReferences=[owner]
    )
    assert world.entry("A")["fieldsV1"] == {
        "f:metadata": {
            "f:annotations": {"f:n": LEAF},
            "f:finalizers": {'v:"x.example/f"': LEAF},
            "f:labels": {"f:l": LEAF},
            "f:ownerReferences": {'k:{"uid":"u-1"}': LEAF},
        }
    }


def test_generate_name_is_owned_S_25() -> None:
    world = World().create("U", {"str": "x"}, generateName="g-")
    assert world.entry("U", "Update")["fieldsV1"]["f:metadata"] == {"f:generateName": LEAF}


def test_finalizers_are_a_set_and_owners_a_map_by_uid_S_25() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}
    world = World().apply("A", finalizers=["x.example/f"], ownerReferences=[{**owner, "uid": "1"}])
    world.apply("B", finalizers=["x.example/g"], ownerReferences=[{**owner, "uid": "2"}])
    assert world.meta["finalizers"] == ["x.example/f", "x.example/g"]
    assert [ref["uid"] for ref in world.meta["ownerReferences"]] == ["1", "2"]
    world.apply("A")
    assert world.meta["finalizers"] == ["x.example/g"]
    assert [ref["uid"] for ref in world.meta["ownerReferences"]] == ["2"]


def test_status_in_a_main_apply_is_neither_stored_nor_owned_S_26() -> None:
    world = World().apply("A", {"str": "x"}, status={"note": "n"})
    assert "status" not in world.object
    assert set(world.entry("A")["fieldsV1"]) == {"f:spec"}


def test_spec_and_labels_in_a_status_apply_are_neither_changed_nor_owned_S_26() -> None:
    world = World().apply("A", {"str": "x"})
    world.apply("A", {"str": "y"}, sub="status", status={"note": "n"}, labels={"l": "1"})
    assert (world.spec["str"], world.object["status"]) == ("x", {"note": "n"})
    assert "labels" not in world.meta
    assert world.entry("A", subresource="status")["fieldsV1"] == {"f:status": {"f:note": LEAF}}
    assert world.owned("A") == {"f:str": LEAF}


def test_null_labels_and_empty_annotations_are_owned_as_leaves_S_27() -> None:
    world = World().apply("A", labels=None, annotations={})
    assert world.entry("A")["fieldsV1"] == {"f:metadata": {"f:annotations": LEAF, "f:labels": LEAF}}
    assert "labels" not in world.meta
    assert "annotations" not in world.meta


def test_an_empty_leaf_that_is_not_stored_moves_the_time_with_every_apply_S_27() -> None:
    # The merged object differs from the stored one each time, as it does on a real server.
    world = World().apply("A", annotations={}).apply("A", annotations={})
    assert world.entry("A")["time"] == "2026-01-01T00:00:02Z"
    assert "annotations" not in world.meta


def test_applying_a_default_takes_it_into_ownership_without_conflict_S_28() -> None:
    world = World().apply("A", {"str": "x"})
    world.apply("B", {"mode": "normal"})
    assert world.owned("B") == {"f:mode": LEAF}
    assert world.meta["generation"] == 1

"""RES-4: who holds which field of a status, from managedFields of any managers, and what hands it back."""

import json
import shlex
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind
from purekube.controller.managed_fields import StatusOwner, is_held_by_others

KIND: Final = Kind("example.org", "v1", "Widget", "widgets")
OURS: Final = "operator"
OWNER: Final = StatusOwner(OURS, {KIND: frozenset({"Ready", "Blocked"})})
FIELDS: Final = ("phase", "address", "Ready", "Blocked", "Theirs")
"""Two fields of the status, and the types of three conditions; the last is none of ours."""

entries = st.lists(
    st.tuples(
        st.sampled_from([OURS, "kubectl", "argocd"]),
        st.sampled_from(["status", "", "scale"]),
        st.lists(st.sampled_from(FIELDS), max_size=3, unique=True),
    ),
    max_size=4,
    unique_by=lambda entry: entry[:2],
)


def field_set(names: list[str]) -> dict[str, Any]:
    """FieldsV1 of these fields; of a condition, its status."""
    plain: dict[str, Any] = {f"f:{name}": {} for name in names if name.islower()}
    conditions: dict[str, Any] = {
        f'k:{{"type":"{name}"}}': {".": {}, "f:status": {}} for name in names if not name.islower()
    }
    return {"f:status": {".": {}, **plain, **({"f:conditions": {".": {}, **conditions}} if conditions else {})}}


def widget(given_entries: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
    managed = [
        {"manager": manager, "operation": "Update", "subresource": part, "fieldsV1": field_set(names)}
        for manager, part, names in given_entries
    ]
    conditions = [{"type": name, "status": "True"} for name in ("Ready", "Blocked", "Theirs")]
    meta = {"name": "w", "namespace": "ns", "managedFields": managed}
    return {**KIND.manifest("w"), "metadata": meta, "status": {"phase": "x", "conditions": conditions}}


@given(entries)
def test_what_another_manager_holds_and_we_do_not_is_named_RES_4(
    given_entries: list[tuple[str, str, list[str]]],
) -> None:
    live = widget(given_entries)
    of_status = [(manager, names) for manager, part, names in given_entries if part == "status"]
    ours = {name for manager, names in of_status if manager == OURS for name in names}
    held = [(manager, name) for manager, names in of_status if manager != OURS for name in names]
    held = [(manager, name) for manager, name in held if name not in ours and name != "Theirs"]

    conditions = {name for _, name in held if not name.islower()}
    assert OWNER.held_conditions(live) == conditions
    assert OWNER.held_fields(live) == {name for _, name in held if name.islower()}
    assert set(OWNER.condition_holders(live)) == {manager for manager, name in held if not name.islower()}
    left = [one["type"] for one in OWNER.without_foreign_conditions(live)["status"]["conditions"]]
    assert left == [name for name in ("Ready", "Blocked", "Theirs") if name not in conditions]

    holder = OWNER.holder(live)
    assert (holder is None) == (not held)
    if holder is not None:
        shown = {
            (who, f".status.{name}" if name.islower() else f".status.conditions[{name}].status") for who, name in held
        }
        assert (holder.manager, holder.field) in shown
        assert f"{holder.manager} holds {holder.field}" in str(holder)
        assert str(holder).endswith(f"to hand it back: {holder.command}")
        assert removed_by(holder.command, live) == (holder.manager, "status")
    command = OWNER.hand_over(live)
    assert bool(command) == bool(conditions)
    if command:
        who, part = removed_by(command, live)
        assert (part, who in {manager for manager, name in held if name in conditions}) == ("status", True)


def removed_by(command: str, live: dict[str, Any]) -> tuple[str, str]:
    """The entry of managedFields that the command removes, after its test of whose it is."""
    words = shlex.split(command)
    assert words[:-1] == ["kubectl", "patch", "widgets.example.org", "w", "-n", "ns", "--type=json", "-p"]
    test, remove = json.loads(words[-1])
    entry = live["metadata"]["managedFields"][int(remove["path"].rpartition("/")[2])]
    assert (test["op"], remove["op"], test["path"]) == ("test", "remove", f"{remove['path']}/manager")
    assert test["value"] == entry["manager"]
    return entry["manager"], entry["subresource"]


@given(entries)
def test_a_cache_keeps_the_entries_of_a_status_exactly_where_another_has_one_RES_4(
    given_entries: list[tuple[str, str, list[str]]],
) -> None:
    live = widget(given_entries)
    kept = OWNER.with_holders(live)
    of_status = [entry for entry in live["metadata"]["managedFields"] if entry["subresource"] == "status"]
    is_foreign = any(entry["manager"] != OURS for entry in of_status)
    assert kept["metadata"].get("managedFields") == (of_status if is_foreign else None)
    assert (OWNER.held_conditions(kept), OWNER.held_fields(kept)) == (
        OWNER.held_conditions(live),
        OWNER.held_fields(live),
    )


def test_what_no_manager_is_known_of_is_held_by_nobody_RES_4() -> None:
    unknown: list[Any] = [None, [], "odd", [{}], [{"manager": "kubectl", "subresource": "status"}]]
    for managed in unknown:
        live = {**widget([]), "metadata": {"name": "w", "namespace": "ns", "managedFields": managed}}
        assert OWNER.holder(live) is None
        assert OWNER.hand_over(live) == ""
    assert OWNER.holder({**KIND.manifest("w"), "metadata": {"name": "w"}}) is None


def test_the_rest_of_an_object_stays_whatever_is_held_of_its_status_RES_4() -> None:
    live = widget([("kubectl", "status", ["Ready"]), (OURS, "status", ["phase"])])
    live["metadata"]["labels"] = {"a": "b"}
    kept = OWNER.with_holders(live)
    assert {**kept["metadata"], "managedFields": live["metadata"]["managedFields"]} == live["metadata"]
    left = OWNER.without_foreign_conditions(live)
    assert {**left, "status": live["status"]} == live
    assert {**left["status"], "conditions": live["status"]["conditions"]} == live["status"]
    bare = {**live, "status": {"phase": "x"}}
    assert OWNER.without_foreign_conditions(bare)["status"]["conditions"] == []


def test_a_field_within_a_field_is_no_condition_and_a_whole_list_is_none_by_name_RES_4() -> None:
    live = widget([("kubectl", "status", [])])
    live["metadata"]["managedFields"][0]["fieldsV1"] = {"f:status": {"f:address": {"f:host": {}}, "f:conditions": {}}}
    assert OWNER.held_conditions(live) == frozenset()
    assert OWNER.held_fields(live) == {"address"}
    assert list(OWNER.condition_holders(live)) == ["kubectl"]
    holder = OWNER.holder(live)
    assert holder is not None
    assert holder.field in (".status.address.host", ".status.conditions")
    odd = widget([("kubectl", "status", [])])
    odd["metadata"]["managedFields"][0]["fieldsV1"] = {"f:status": {"f:conditions": {"k:odd": {}}}}
    assert OWNER.held_conditions(odd) == frozenset(), "a key that is no JSON names no type of ours"


@pytest.mark.parametrize(
    ("held", "is_held"),
    [
        ({"f:spec": {"f:replicas": {}}}, True),
        ({"f:spec": {"f:template": {"f:labels": {"f:app": {}}}}}, True),
        ({"f:spec": {"f:template": {"f:labels": {"f:other": {}}}}}, False),
        ({"f:spec": {"f:template": {".": {}}}}, True),
        ({"f:spec": {"f:ports": {'k:{"port":80}': {".": {}, "f:name": {}}}}}, True),
        ({"f:spec": {"f:paused": {}}}, False),
        ({"f:spec": {"replicas": {}}}, False),
        ({"f:data": {}}, False),
        ({"f:metadata": {"f:labels": {"f:team": {}}}}, True),
        ({"f:metadata": {"f:managedFields": {}}}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("manager", ["kubectl", OURS])
def test_an_apply_may_conflict_where_another_holds_a_field_that_it_sets(
    held: dict[str, Any], is_held: bool, manager: str
) -> None:
    spec = {"replicas": 1, "template": {"labels": {"app": "a"}}, "ports": [{"port": 80}]}
    desired = {**KIND.manifest("w"), "metadata": {"name": "w", "labels": {"team": "x"}}, "spec": spec}
    entry = {"manager": manager, "operation": "Update", "fieldsV1": held}
    live = {**KIND.manifest("w"), "metadata": {"name": "w", "managedFields": [entry]}}

    assert is_held_by_others(desired, live, OURS) is (is_held and manager != OURS)
    assert not is_held_by_others(desired, None, OURS)
    scaled = {**live, "metadata": {"name": "w", "managedFields": [{**entry, "subresource": "status"}]}}
    assert not is_held_by_others(desired, scaled, OURS), "an apply writes no status"

"""Sharing, conflicts, force and the words of a conflict: S-29 to S-36 and S-77 to S-81."""

from typing import Any

import pytest

from kubelab.model.failure import ApiFailure, status_body
from tests.support.ssa_world import World


def conflict(act: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        act()
    failure = caught.value
    assert (failure.status, failure.reason) == (409, "Conflict")
    assert {cause.reason for cause in failure.causes} == {"FieldManagerConflict"}
    return failure


def paths(failure: ApiFailure) -> list[str]:
    return sorted(cause.field for cause in failure.causes)


@pytest.mark.parametrize(("first", "second"), [({"str": "x"}, {"str": "x"}), ({"num": 1}, {"num": 1.0})])
def test_equal_values_are_shared_without_conflict_S_29(first: dict[str, Any], second: dict[str, Any]) -> None:
    world = World().apply("A", first).apply("B", second)
    assert world.owned("A") == world.owned("B") == {f"f:{next(iter(first))}": {}}


def test_a_different_value_conflicts_and_changes_nothing_S_30() -> None:
    world = World().apply("A", {"str": "x"})
    before = world.object
    failure = conflict(lambda: world.apply("B", {"str": "y", "str2": "z"}))
    assert paths(failure) == [".spec.str"]
    assert world.object == before


def test_force_takes_what_differs_and_shares_what_is_equal_S_31() -> None:
    world = World().apply("A", {"str": "x", "str2": "same"})
    world.apply("B", {"str": "y", "str2": "same"}, force=True)
    assert world.spec["str"] == "y"
    assert world.owned("A") == {"f:str2": {}}
    assert world.owned("B") == {"f:str": {}, "f:str2": {}}


def test_an_update_entry_of_the_same_name_conflicts_and_goes_by_force_S_32() -> None:
    world = World().apply("A", {"str": "x"}).merge("A", {"spec": {"str2": "u"}})
    assert paths(conflict(lambda: world.apply("A", {"str": "x", "str2": "v"}))) == [".spec.str2"]
    world.apply("A", {"str": "x", "str2": "v"}, force=True)
    assert world.entry("A", "Update") == {}


def test_a_field_that_an_updater_removed_comes_back_without_conflict_S_33() -> None:
    world = World().apply("A", {"str": "x"}).merge("U", {"spec": {"str": None}})
    assert "str" not in world.spec
    assert world.apply("A", {"str": "x"}).spec["str"] == "x"


def test_ownership_passes_on_when_one_applier_leaves_and_the_other_changes_S_34() -> None:
    world = World().apply("A", {"str": "x"}).apply("B", {"str": "x"}).apply("A", {})
    assert world.apply("B", {"str": "y"}).spec["str"] == "y"


def test_two_configurations_under_one_name_erase_each_other_without_conflict_S_35() -> None:
    world = World()
    for number in range(20):
        world.apply("A", {"gm": {f"k{number}": "x"}})
    assert world.spec["gm"] == {"k19": "x"}


def test_disjoint_appliers_of_different_names_never_conflict_S_36() -> None:
    world = World()
    for number in range(40):
        world.apply(f"m{number}", {"gm": {f"k{number}": "x"}})
    assert len(world.spec["gm"]) == 40
    assert world.owned("m7") == {"f:gm": {"f:k7": {}}}


def test_a_conflict_has_causes_and_names_no_object_S_77() -> None:
    world = World().apply("A", {"str": "x"})
    body = status_body(conflict(lambda: world.apply("B", {"str": "y"})))
    assert body["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "A"', "field": ".spec.str"}]
    }


def test_the_message_of_one_conflict_S_78() -> None:
    world = World().apply("A", {"str": "x"})
    failure = conflict(lambda: world.apply("B", {"str": "y"}))
    assert failure.message == 'Apply failed with 1 conflict: conflict with "A": .spec.str'


def test_the_message_of_several_conflicts_sorts_managers_and_counts_fields_S_78() -> None:
    world = World().apply("A", {"str": "x"}).merge("U", {"spec": {"str2": "u"}})
    failure = conflict(lambda: world.apply("B", {"str": "y", "str2": "v"}))
    assert failure.message == (
        'Apply failed with 2 conflicts: conflicts with "A":\n- .spec.str\n'
        'conflicts with "U" using tests.example/v1:\n- .spec.str2'
    )


def test_a_cause_tells_subresource_and_version_of_the_holder_S_79() -> None:
    world = World().apply("A", {"str": "x"}).apply("A", sub="status", status={"note": "n"})
    failure = conflict(lambda: world.apply("B", sub="status", status={"note": "m"}))
    assert failure.causes[0].message == 'conflict with "A" with subresource "status"'
    world.merge("U", {"status": {"count": 1}}, sub="status")
    failure = conflict(lambda: world.apply("B", sub="status", status={"count": 2}))
    assert failure.causes[0].message == 'conflict with "U" with subresource "status" using tests.example/v1'


@pytest.mark.parametrize(
    ("mine", "theirs", "path"),
    [
        ({"st": {"a": "1"}}, {"st": {"a": "2"}}, ".spec.st.a"),
        ({"gm": {"k.y": "1"}}, {"gm": {"k.y": "2"}}, ".spec.gm.k.y"),
        ({"named": [{"name": "n", "v": "1"}]}, {"named": [{"name": "n", "v": "2"}]}, '.spec.named[name="n"].v'),
        (
            {"ports": [{"port": 1, "weight": 1}]},
            {"ports": [{"port": 1, "weight": 2}]},
            '.spec.ports[port=1,protocol="TCP"].weight',
        ),
        ({"am": {"k": "1"}}, {"am": {"j": "1"}}, ".spec.am"),
        ({"al": ["1"]}, {"al": ["2"]}, ".spec.al"),
    ],
)
def test_paths_are_printed_with_keys_and_without_quotes_S_80(
    mine: dict[str, Any], theirs: dict[str, Any], path: str
) -> None:
    world = World().apply("A", mine)
    assert paths(conflict(lambda: world.apply("B", theirs))) == [path]


def test_a_label_with_dots_and_slashes_is_not_quoted_S_80() -> None:
    world = World().apply("A", labels={"a.b/c": "1"})
    assert paths(conflict(lambda: world.apply("B", labels={"a.b/c": "2"}))) == [".metadata.labels.a.b/c"]


def test_causes_and_message_are_stable_S_81() -> None:
    spec = {"str": "x", "st": {"a": "1", "b": "1"}, "gm": {"k": "1"}}
    other = {"str": "y", "st": {"a": "2", "b": "2"}, "gm": {"k": "2"}}
    world = World().apply("A", spec)
    seen = {conflict(lambda: world.apply("B", other)).message for _ in range(5)}
    assert len(seen) == 1

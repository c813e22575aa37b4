"""Which applies are refused before anything merges: S-01 to S-17 and S-76, as measured on a real API server."""

from typing import Any

import pytest

from kubelab.model.failure import ApiFailure
from tests.support.ssa_world import World

PREFIX = "failed to create typed patch object (/a; tests.example/v1, Kind=Thing): "


def refused(act: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        act()
    return caught.value


def test_apply_creates_what_is_absent_and_changes_what_is_there_S_01() -> None:
    world = World().apply("A", {"str": "x"})
    assert world.outcome is not None
    assert world.outcome.created
    world.apply("A", {"str": "y"})
    assert not world.outcome.created


@pytest.mark.parametrize("value", [[], [{"manager": "x", "operation": "Apply"}]])
def test_managed_fields_in_the_configuration_are_refused_S_05(value: list[Any]) -> None:
    failure = refused(lambda: World().apply("A", {}, managedFields=value))
    assert (failure.status, failure.message) == (400, "metadata.managedFields must be nil")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"apiVersion": "tests.example/v9"}, "tests.example/v9, Kind=Thing"),
        ({"kind": "Other"}, "tests.example/v1, Kind=Other"),
        ({"apiVersion": None}, "/, Kind=Thing"),
        ({"kind": None}, "tests.example/v1, Kind="),
    ],
)
def test_another_type_in_the_configuration_is_refused_S_06(change: dict[str, Any], shown: str) -> None:
    world = World()
    config = {key: value for key, value in {**world.body({}), **change}.items() if value is not None}
    failure = refused(lambda: world.apply_raw("A", config))
    assert (failure.status, failure.message) == (400, f"invalid object type: {shown}")


def test_another_name_or_namespace_than_the_url_is_refused_S_07() -> None:
    assert refused(lambda: World().apply("A", {}, name="b")).status == 400
    assert refused(lambda: World().apply("A", {}, namespace="other")).status == 400
    existing = World().apply("A", {})
    assert refused(lambda: existing.apply("A", {}, name="b")).status == 400


def test_a_configuration_needs_a_name_to_create_and_none_to_change_S_07() -> None:
    nameless = {**World().body({"str": "x"}), "metadata": {}}
    failure = refused(lambda: World().apply_raw("A", nameless))
    assert (failure.status, failure.message) == (
        400,
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    )
    assert World().apply("A", {}).apply_raw("A", nameless).spec["str"] == "x"
    patched = World().create("U", {})
    assert refused(lambda: patched.merge("U", {"metadata": None})).status == 400


def test_a_uid_guards_against_creating_again_what_was_deleted_S_08() -> None:
    failure = refused(lambda: World().apply("A", {}, uid="gone"))
    assert (failure.status, failure.reason, failure.causes) == (409, "Conflict", ())
    assert "uid mismatch: the provided object specified uid gone, and no existing object was found" in failure.message


def test_a_uid_of_another_object_is_invalid_not_a_conflict_S_09() -> None:
    world = World().apply("A", {})
    failure = refused(lambda: world.apply("A", {}, uid="other"))
    assert (failure.status, failure.reason) == (422, "Invalid")
    assert {cause.field for cause in failure.causes} == {"metadata.uid"}
    assert failure.causes[0].message == 'Invalid value: "other": field is immutable'
    assert world.apply("A", {}, uid=world.meta["uid"]).outcome is not None


def test_a_resource_version_guards_against_change_but_not_against_deletion_S_10() -> None:
    assert World().apply("A", {}, resourceVersion="7").meta["generation"] == 1
    world = World().apply("A", {"str": "x"})
    failure = refused(lambda: world.apply("A", {"str": "y"}, resourceVersion="999"))
    assert (failure.status, failure.reason, failure.causes) == (409, "Conflict", ())
    assert world.apply("A", {"str": "y"}, resourceVersion=world.meta["resourceVersion"]).spec["str"] == "y"


def test_applying_status_of_an_absent_object_never_creates_S_12() -> None:
    assert refused(lambda: World().apply("A", sub="status", status={"note": "n"})).status == 404


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"st": {"nope": 1}}, ".spec.st.nope: field not declared in schema"),
        ({"ports": [{"port": 1, "nope": 1}]}, '.spec.ports[port=1,protocol="TCP"].nope: field not declared in schema'),
        ({"replicas": "three"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"str": 5}, ".spec.str: expected string, got &value.valueUnstructured{Value:5}"),
        ({"al": "x"}, ".spec.al: expected list, got &{x}"),
        ({"st": "x"}, ".spec.st: expected map, got &{x}"),
        ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
        ({"named": [{"name": "n"}, {"name": "n"}]}, '.spec.named: duplicate entries for key [name="n"]'),
        (
            {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]',
        ),
        (
            {"named": [None]},
            ".spec.named: element 0: associative list with keys may not have a null element",
        ),
        (
            {"named": ["x"]},
            ".spec.named: element 0: associative list with keys may not have non-map elements",
        ),
        (
            {"set": [{}]},
            ".spec.set: element 0: associative list without keys has an element that's a map type",
        ),
        (
            {"set": [[]]},
            ".spec.set: element 0: not supported: associative list with lists as elements",
        ),
        (
            {"set": [None]},
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            {"named": [{"v": "x"}]},
            '.spec.named: element 0: associative list with keys has an element that omits all key fields ["name"] '
            "(and doesn't have default values for any key fields)",
        ),
    ],
)
def test_what_does_not_fit_the_schema_is_a_500_without_reason_S_15_S_16_S_17(spec: dict[str, Any], text: str) -> None:
    failure = refused(lambda: World().apply("A", spec))
    assert (failure.status, failure.reason, failure.message) == (500, "", PREFIX + text)


def test_several_misfits_are_listed_line_by_line_S_16() -> None:
    failure = refused(lambda: World().apply("A", {"replicas": "x", "str": 1}))
    assert failure.message.startswith(PREFIX + "errors:\n  .spec.replicas: ")
    assert "\n  .spec.str: " in failure.message


def test_duplicates_and_defaults_of_keys_are_items_of_their_own_S_17() -> None:
    world = World().apply("A", {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]})
    assert [port["protocol"] for port in world.spec["ports"]] == ["TCP", "UDP"]


def test_a_null_creation_timestamp_is_nothing_and_a_deletion_timestamp_is_refused_S_76() -> None:
    world = World().apply("A", {"str": "x"})
    world.apply("A", {"str": "x"}, creationTimestamp=None)
    assert not world.changed
    failure = refused(lambda: world.apply("A", {"str": "x"}, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert (failure.status, failure.causes[0].field) == (422, "metadata.deletionTimestamp")
    assert failure.causes[0].message.endswith("field is immutable")

"""Rules of metadata on every write: names, labels, owners, finalizers, preconditions (S-68 to S-76, W-34 to W-37)."""

from typing import Any

import pytest

from kubelab.model.calls import FieldValidation, WriteRequest
from kubelab.model.failure import ApiFailure
from kubelab.writes import pipeline
from kubelab.writes.patches import json_patch
from tests.support.ssa_world import THING, World, thing

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}


def failure(act: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        act()
    return caught.value


def fields(act: Any) -> set[str]:
    found = failure(act)
    assert found.status == 422
    return {cause.field for cause in found.causes}


def post(body: Any, **more: Any) -> Any:
    write = WriteRequest(manager="m", now="2026-01-01T00:00:00Z", namespace="t", uid="u", **more)
    return pipeline.create(THING, body, write)


@pytest.mark.parametrize("name", ["A", "-a", "a_b", "a" * 254, "a..b", "a/b"])
def test_a_name_is_a_dns_subdomain_W_35(name: str) -> None:
    assert fields(lambda: World().create("U", name=name)) == {"metadata.name"}


def test_a_name_has_to_come_from_somewhere_W_35() -> None:
    found = failure(lambda: post({"apiVersion": "tests.example/v1", "kind": "Thing"}))
    assert (found.causes[0].field, found.causes[0].message) == (
        "metadata.name",
        "Required value: name or generateName is required",
    )
    body = {"apiVersion": "tests.example/v1", "kind": "Thing", "metadata": {"generateName": "g-"}}
    assert post(body, generated_name="g-abcde").object["metadata"]["name"] == "g-abcde"


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "x"}}, "metadata.labels"),
        ({"labels": {"a": "x y"}}, "metadata.labels"),
        ({"labels": {"a": "x" * 64}}, "metadata.labels"),
        ({"labels": {"x" * 64: "1"}}, "metadata.labels"),
        ({"labels": {"UPPER.example/a": "1"}}, "metadata.labels"),
        ({"labels": {"/a": "1"}}, "metadata.labels"),
        ({"labels": {"a/b/c": "1"}}, "metadata.labels"),
        ({"ownerReferences": [{**OWNER, "apiVersion": ""}]}, "metadata.ownerReferences.apiVersion"),
        ({"annotations": {"a b": "x"}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * (256 * 1024)}}, "metadata.annotations"),
        ({"finalizers": ["a b"]}, "metadata.finalizers"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers"),
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences.uid"),
        ({"ownerReferences": [{**OWNER, "kind": ""}]}, "metadata.ownerReferences.kind"),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]},
            "metadata.ownerReferences",
        ),
        ({"ownerReferences": [{**OWNER, "apiVersion": "v1", "kind": "Event"}]}, "metadata.ownerReferences"),
    ],
)
def test_metadata_that_is_refused_on_create_and_on_update_W_34_W_37(metadata: dict[str, Any], field: str) -> None:
    assert fields(lambda: World().create("U", **metadata)) == {field}
    world = World().create("U")
    assert fields(lambda: world.merge("U", {"metadata": metadata})) == {field}


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"a.example.com/B_c": "", "x": "Y-1"}},
        {"annotations": {"UPPER.example/a": "anything at all"}},
        {"finalizers": ["x.example/f", "foregroundDeletion"]},
        {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v"}]},
    ],
)
def test_metadata_that_is_accepted(metadata: dict[str, Any]) -> None:
    assert World().create("U", **metadata).meta.items() >= metadata.items()


def test_a_finalizer_without_a_domain_is_warned_about() -> None:
    outcome = World().create("U", finalizers=["plain"]).outcome
    assert outcome is not None
    assert outcome.warnings == (
        'metadata.finalizers: "plain": prefer a domain-qualified finalizer name to avoid accidental conflicts '
        "with other finalizer writers",
    )


def test_an_owner_given_twice_is_kept_once_with_a_warning() -> None:
    world = World().create("U", ownerReferences=[OWNER, OWNER])
    assert world.meta["ownerReferences"] == [OWNER]
    assert world.outcome is not None
    assert "duplicate UID(s) observed: u" in world.outcome.warnings[0]


@pytest.mark.parametrize("metadata", [{"labels": "x"}, {"labels": {"a": 1}}, {"finalizers": {}}, {"name": 5}])
def test_metadata_of_the_wrong_shape_cannot_be_read(metadata: dict[str, Any]) -> None:
    found = failure(lambda: World().create("U", **metadata))
    assert (found.status, found.reason) == (400, "BadRequest")
    assert "cannot be handled as a Thing" in found.message


def test_empty_and_unknown_metadata_is_not_kept() -> None:
    world = World().create("U", labels={}, annotations=None, finalizers=[], nonsense=1, selfLink="")
    assert set(world.meta) == {"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"} | (
        {"managedFields"} & set(world.meta)
    )
    assert world.outcome is not None
    assert world.outcome.warnings == ('unknown field "metadata.nonsense"',)


def test_what_the_system_sets_cannot_be_chosen() -> None:
    world = World().create("U", uid="mine", creationTimestamp="2020-01-01T00:00:00Z", generation=7)
    assert world.meta["uid"] == "uid-1"
    assert (world.meta["creationTimestamp"], world.meta["generation"]) == ("2026-01-01T00:00:01Z", 1)


def test_a_resource_version_on_create_is_refused() -> None:
    found = failure(lambda: World().create("U", resourceVersion="1"))
    assert found.message == "resourceVersion should not be set on objects to be created"


def test_an_update_keeps_creation_time_and_deletion_time() -> None:
    world = World().create("U", finalizers=["x.example/f"]).delete()
    before = world.meta
    meta = {key: value for key, value in world.meta.items() if not key.startswith("deletion")}
    world.put("U", {**world.object, "metadata": {**meta, "creationTimestamp": None}, "spec": {"str": "x"}})
    for key in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid"):
        assert world.meta[key] == before[key]


def test_a_put_with_another_uid_is_a_failed_precondition() -> None:
    world = World().create("U")
    found = failure(lambda: world.put("U", {**world.object, "metadata": {**world.meta, "uid": "other"}}))
    assert (found.status, found.reason, found.causes) == (409, "Conflict", ())
    assert "Precondition failed: UID in precondition: other, UID in object meta: uid-1" in found.message


def test_a_patch_with_another_uid_is_invalid() -> None:
    world = World().create("U")
    assert fields(lambda: world.merge("U", {"metadata": {"uid": "other"}})) == {"metadata.uid"}


def test_a_merge_patch_with_an_old_resource_version_is_stale() -> None:
    world = World().create("U")
    assert failure(lambda: world.merge("U", {"metadata": {"resourceVersion": "0"}})).status == 409


def test_a_name_cannot_be_patched() -> None:
    world = World().create("U")
    assert failure(lambda: world.merge("U", {"metadata": {"name": "b"}})).status == 400


def test_a_status_write_ignores_metadata_and_uid() -> None:
    world = World().create("U", {"str": "x"})
    world.merge("U", {"metadata": {"uid": "other", "labels": {"l": "1"}}, "status": {"note": "n"}}, sub="status")
    assert world.object["status"] == {"note": "n"}
    assert "labels" not in world.meta
    assert world.meta["uid"] == "uid-1"


def test_a_status_write_can_remove_the_status() -> None:
    world = World().create("U", {"str": "x"}).merge("U", {"status": {"note": "n"}}, sub="status")
    body = {key: value for key, value in world.object.items() if key != "status"}
    assert "status" not in world.put("U", body, sub="status").object


def test_a_cluster_scoped_object_loses_a_namespace() -> None:
    world = World(thing(scope="Cluster")).create("U", namespace="x")
    assert "namespace" not in world.meta


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "Object 'Kind' is missing in '{}'"),
        ({"kind": "Thing"}, "Object 'apiVersion' is missing in"),
        (
            {"kind": "Thing", "apiVersion": "tests.example/v2"},
            "does not match the expected API version (tests.example/v1)",
        ),
        ([], "must be of type Thing"),
        (None, "must be of type Thing"),
    ],
)
def test_a_body_of_another_type_is_400(body: Any, text: str) -> None:
    found = failure(lambda: post(body))
    assert (found.status, found.reason) == (400, "BadRequest")
    assert text in found.message


def test_a_custom_resource_of_another_kind_is_422() -> None:
    found = failure(lambda: post({"kind": "Other", "apiVersion": "tests.example/v1", "metadata": {"name": "a"}}))
    assert (found.status, found.message) == (
        422,
        'Other.tests.example "a" is invalid: kind: Invalid value: "Other": must be Thing',
    )


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"a": 1}, '({"a":1})'),
        ({"spec": {"message": "a" * 30}}, '({"spec":{"message":"aaaaaaaaaa ...)'),
        ([1], "(5b315d)"),
    ],
)
def test_a_body_that_is_not_recognized_is_shown_in_part(body: Any, shown: str) -> None:
    assert failure(lambda: post(body)).message.endswith(shown)


def test_unknown_fields_by_field_validation_W_36() -> None:
    body = {
        "apiVersion": "tests.example/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"nope": 1, "str": "x"},
    }
    assert post(body).warnings == ('unknown field "spec.nope"',)
    assert post(body, field_validation=FieldValidation.IGNORE).warnings == ()
    found = failure(lambda: post(body, field_validation=FieldValidation.STRICT))
    assert found.message == (
        'Thing in version "v1" cannot be handled as a Thing: strict decoding error: unknown field "spec.nope"'
    )


@pytest.mark.parametrize("index", ["-", "-1", "1"])
def test_a_json_patch_appends_to_a_list_at_minus_one(index: str) -> None:
    assert json_patch(["a"], [{"op": "add", "path": f"/{index}", "value": "b"}]) == ["a", "b"]
    assert json_patch(["a"], [{"op": "add", "path": "/-2", "value": "b"}]) == ["b", "a"]
    assert json_patch(["a", "b"], [{"op": "remove", "path": "/-1"}]) == ["a"]


@pytest.mark.parametrize("metadata", [{"labels": 5}, {"labels": {"a": 5}}, {"finalizers": {}}])
def test_a_patch_to_metadata_of_the_wrong_shape_is_422(metadata: dict[str, Any]) -> None:
    found = failure(lambda: World().create("U").merge("U", {"metadata": metadata}))
    assert (found.status, [cause.field for cause in found.causes]) == (422, ["patch"])
    assert found.message.startswith(' "" is invalid: patch: ')

"""RUN-11: of an object that is not an instance's the cache keeps what says whose it is, however large the rest."""

from typing import Any

import pytest

from tests.support.instance_worlds import RELEASE, UID, applied, instance_manifest
from vworkspace_core.instances.foreign_objects import (
    slim_chart,
    slim_config_map,
    slim_engine_object,
    slim_release,
    slim_source,
)

OWNER = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "n", "uid": UID}
OURS = {**OWNER, "controller": True}
OTHERS = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
HELD = [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:interval": {}}}}]


def made(kind: str = "HelmRelease", *owners: dict[str, Any], **labels: str) -> dict[str, Any]:
    meta = {
        "name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "5", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"large": "x" * 99}, "managedFields": HELD,
        "labels": {"team": "blue", **{name.replace("_", "/"): value for name, value in labels.items()}},
    }  # fmt: skip
    if owners:
        meta["ownerReferences"] = list(owners)
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": meta,
        "spec": {"large": "x"},
        "data": {"a": "1"},
        "status": {},
    }


MANAGED = {"app.vworkspace.io_managed-by": "control-plane"}
IDENTITY = {"name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "5", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip


@pytest.mark.parametrize("slim", [slim_release, slim_source, slim_config_map, slim_engine_object])
def test_of_a_foreign_object_only_identity_and_controller_are_kept_RUN_11(slim: Any) -> None:
    assert slim(made("X", OTHERS)) == {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {**IDENTITY, "ownerReferences": [OTHERS]},
    }
    going = made("X", OTHERS)
    going["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert slim(going)["metadata"]["deletionTimestamp"] == "2026-01-02T00:00:00Z"


@pytest.mark.parametrize("slim", [slim_release, slim_source])
def test_what_may_be_an_instances_is_kept_whole_but_for_managed_fields_REC_4(slim: Any) -> None:
    for manifest in (made("X", OURS), made("X", **MANAGED), made("X", OWNER, **MANAGED)):
        kept = slim(manifest)
        assert (kept["spec"], kept["data"]) == (manifest["spec"], manifest["data"])
    assert "spec" not in slim(made("X", OTHERS, **MANAGED)), "another controls it"
    assert "spec" not in slim(made("X")), "it has neither owner nor label"
    assert "spec" not in slim(made("X", OWNER)), "an owner that does not control it is no controller"
    assert "spec" not in slim(made("X", {**OURS, "apiVersion": "apps.vworkspace.io.example/v1"}))


def test_of_a_labelled_release_it_is_known_who_else_holds_its_fields_REC_3() -> None:
    assert slim_release(made("X", OURS, **MANAGED))["metadata"]["managedFields"] == HELD
    assert "managedFields" not in slim_release(made("X", OURS))["metadata"]
    assert "managedFields" not in slim_source(made("X", OURS, **MANAGED))["metadata"]
    release = dict(applied(instance_manifest())[RELEASE])
    assert slim_release(release) == release


def test_of_our_labels_and_of_eight_owners_at_most_is_known_RUN_11() -> None:
    many = [{**OWNER, "uid": str(number)} for number in range(20)]
    found = slim_config_map(made("X", *many, OTHERS, **MANAGED, **{"app.vworkspace.io_cluster-id": "c"}))["metadata"]

    assert found["labels"] == {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": "c"}
    assert found["ownerReferences"] == [OTHERS, *many[:7]], "the controller is never cut off"


def test_large_data_of_our_config_map_is_kept_as_its_hash_RUN_11() -> None:
    small = made("ConfigMap", OURS)
    assert slim_config_map(small)["data"] == {"a": "1"}
    at_limit = {**small, "data": {"a": "x" * (64 * 1024 - 1)}}
    assert slim_config_map(at_limit)["data"] == at_limit["data"]
    large, other = ({**small, "data": {"a": sign * 64 * 1024}} for sign in "xy")
    assert slim_config_map(large)["data"].keys() == {"sha256"}
    assert slim_config_map(large) == slim_config_map(dict(large))
    assert slim_config_map(large) != slim_config_map(other)
    binary = {**small, "binaryData": {"b": "x" * 64 * 1024}}
    assert slim_config_map(binary)["binaryData"].keys() == {"sha256"}


def test_an_object_that_was_made_for_an_operation_is_kept_OPS_8() -> None:
    ours = made("Backup", **{"app.vworkspace.io_operation-uid": "u"})
    assert slim_engine_object(ours)["spec"] == ours["spec"]
    assert "managedFields" not in slim_engine_object(ours)["metadata"]
    assert "spec" not in slim_engine_object(made("Backup", **{"app.vworkspace.io_operation-uid": ""}))
    odd = {**ours, "metadata": {**ours["metadata"], "labels": {"app.vworkspace.io/operation-uid": 7}}}
    assert "spec" not in slim_engine_object(odd), "no API server stores it"


def test_of_a_chart_its_request_and_fluxs_report_are_kept_and_long_messages_cut_REC_5() -> None:
    chart = made("HelmChart")
    chart["spec"] = {"chart": "c", "version": "1", "sourceRef": {"name": "s"}, "suspend": False, "interval": "1m"}
    conditions = [{"type": "Ready", "message": "x" * 3000}, {"type": "Other", "message": "short"}, "no object"]
    chart["status"] = {"observedGeneration": 2, "conditions": [*conditions, *conditions * 9]}

    found = slim_chart(chart)

    assert found["spec"] == {"chart": "c", "version": "1", "sourceRef": {"name": "s"}, "suspend": False}
    assert found["metadata"] == IDENTITY
    assert found["status"]["observedGeneration"] == 2
    assert len(found["status"]["conditions"]) == 16
    assert found["status"]["conditions"][:3] == [{"type": "Ready", "message": "x" * 2048}, *conditions[1:]]
    assert "status" not in slim_chart({**chart, "status": None})

"""OPS-7: each refusal of a Velero Operation in exact words, and the object that Velero is asked for."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import NAMESPACE, VELERO_BACKUP, VOLUME_SNAPSHOT_CLASS
from tests.support.operation_worlds import CONTEXT, NS, TARGET, gated, observed, operation, target_labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.operation import Phase
from vworkspace_core.operations.contract import EngineObject, EngineStatus, Listing, Progress
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.identity import target_of

VELERO = ENGINES["velero"]
BACKUP, RESTORE = "backup.velero", "restore.velero"
PLACE = ObjectRef(VELERO_BACKUP, "velero", "b-1")
FOREIGN = f"the Backup b-1 is not one of application {TARGET.name} in namespace {NS}"


def refusal(of: str, parameters: dict[str, Any], objects: dict[ObjectRef, Any] | None = None, **more: Any) -> str:
    """Return why the engine refuses; "" if it does not."""
    one, seen = operation(of, parameters=parameters), observed(of)
    seen = attrs.evolve(seen, objects={**seen.objects, **(objects or {})}, **more)
    instance, template = target_of(one, seen.objects), CONTEXT.templates.find(one.spec.type, "velero")
    assert instance is not None
    assert template is not None
    found = VELERO.check(one, instance, CONTEXT.for_engine(seen, template))
    assert found is None or (found.reason, found.blocks) == ("ValidationFailed", False)
    return "" if found is None else found.message


def made(of: str, objects: dict[ObjectRef, Any] | None = None, **parameters: Any) -> EngineObject:
    one, seen = operation(of, parameters=parameters), observed(of)
    seen = attrs.evolve(seen, objects={**seen.objects, **(objects or {})})
    instance, template = target_of(one, seen.objects), CONTEXT.templates.find(one.spec.type, "velero")
    assert instance is not None
    assert template is not None
    (found,) = VELERO.desired(one, instance, CONTEXT.for_engine(seen, template))
    return found


def backup(labels: dict[str, str] | None = None, **spec: Any) -> dict[ObjectRef, Any]:
    given = {**VELERO_BACKUP.manifest("b-1", "velero"), "spec": {"includedNamespaces": [NS], **spec}}
    return {PLACE: {**given, "metadata": {"name": "b-1", "labels": target_labels() if labels is None else labels}}}


AGREE = (
    "namespace a does not agree: whoever is in charge of it has to say "
    f"`kubectl annotate namespace a ops.vworkspace.io/velero-peers={NS}` first"
)
NOT_OURS = "the operator's own kinds are never in a backup"
P = "spec.parameters."


@pytest.mark.parametrize(
    ("parameters", "objects", "message"),
    [
        ({}, {}, ""),
        ({"includeNamespaces": [NS]}, {}, ""),
        ({"includeNamespaces": [NS, "a"]}, {},
         f"{P}includeNamespaces[1]: namespace a is not one the operator may act in"),
        ({"includeNamespaces": ["a"]}, dict([gated("a", None)]), f"{P}includeNamespaces[0]: {AGREE}"),
        ({"includeNamespaces": ["a"]}, dict([gated("a", "other")]), f"{P}includeNamespaces[0]: {AGREE}"),
        ({"includeNamespaces": ["a"]}, dict([gated("a")]), ""),
        ({"retention": "3650d"}, {}, ""),
        ({"retention": "3651d"}, {}, f"{P}retention: must be at most 3650d, which are ten years, not 3651d"),
        ({"retention": "87601h"}, {}, f"{P}retention: must be at most 3650d, which are ten years, not 87601h"),
        ({"includedResources": ["pods", "operations"]}, {}, f"{P}includedResources[1]: {NOT_OURS}"),
        ({"includedResources": ["applicationinstances"]}, {}, f"{P}includedResources[0]: {NOT_OURS}"),
        ({"includedResources": ["operations.ops.vworkspace.io"]}, {}, f"{P}includedResources[0]: {NOT_OURS}"),
        ({"snapshotClassName": "csi"}, {}, ""),
        ({"snapshotClassName": "none"}, {}, f"{P}snapshotClassName: there is no VolumeSnapshotClass none"),
        ({"snapshotClassName": "csi"}, {ObjectRef(VOLUME_SNAPSHOT_CLASS, None, "csi"): {"driver": ""}},
         f"{P}snapshotClassName: there is no VolumeSnapshotClass csi"),
    ],
)  # fmt: skip
def test_a_backup_is_refused_with_path_and_words_OPS_7(parameters: Any, objects: Any, message: str) -> None:
    assert refusal(BACKUP, parameters, objects) == message


def test_a_retention_that_is_no_duration_is_refused_OPS_7() -> None:
    assert refusal(BACKUP, {"retention": "0d"}).startswith(f"{P}retention: ")
    both = refusal(BACKUP, {"retention": "3651d", "snapshotClassName": "none"})
    assert both.count("; ") == 1
    assert both.index("retention") < both.index("snapshotClassName")


OURS, OLD = target_labels(), {"app.vworkspace.io/application-namespace": NS}
OF_OTHERS = target_labels(**{"app.vworkspace.io/instance-uid": "other"})
NAMED: dict[str, Any] = {"backupName": "b-1"}
ABSENT = "namespace {} is not in the Backup, which holds {}"


@pytest.mark.parametrize(
    ("parameters", "objects", "message"),
    [
        (NAMED, backup(), ""),
        ({"backupName": "no"}, {}, f"{P}backupName: there is no Backup velero/no"),
        (NAMED, backup({}), f"{P}backupName: {FOREIGN}"),
        (NAMED, backup({**OURS, "app.vworkspace.io/managed-by": "x"}), f"{P}backupName: {FOREIGN}"),
        (NAMED, backup({**OURS, "app.vworkspace.io/application-instance": "x"}), f"{P}backupName: {FOREIGN}"),
        (NAMED, backup({**OF_OTHERS, **OLD}), ""),
        (NAMED, backup({**OURS, "app.vworkspace.io/application-namespace": "x"}), f"{P}backupName: {FOREIGN}"),
        (NAMED, backup(OF_OTHERS), ""),
        (NAMED, backup(OF_OTHERS, includedNamespaces=[NS, "a"]), f"{P}backupName: {FOREIGN}"),
        (NAMED, backup(includedNamespaces=["a", "b"]), f"{P}backupName: {ABSENT.format(NS, 'a, b')}"),
        (NAMED, backup(includedNamespaces=None), ""),
        (NAMED, backup(includedNamespaces=["*"]), ""),
        (NAMED, backup(includedNamespaces=["*"], excludedNamespaces=[NS]), f"{P}backupName: {ABSENT.format(NS, '*')}"),
        (NAMED, backup(excludedNamespaces=[NS]), f"{P}backupName: {ABSENT.format(NS, NS)}"),
        (NAMED, backup(includedNamespaces=[f"n{n}" for n in range(9)]),
         f"{P}backupName: {ABSENT.format(NS, ', '.join(f'n{n}' for n in range(8)))}"),
        ({**NAMED, "namespaceMapping": {NS: "a"}}, dict([gated("a")]), ""),
        ({**NAMED, "namespaceMapping": {NS: "a"}}, {},
         f"{P}namespaceMapping.{NS}: namespace a is not one the operator may act in"),
        ({**NAMED, "namespaceMapping": {"a": NS}}, dict([gated("a")]),
         f"{P}namespaceMapping.a: {ABSENT.format('a', NS)}"),
    ],
)  # fmt: skip
def test_a_restore_is_refused_with_path_and_words_OPS_7(parameters: Any, objects: Any, message: str) -> None:
    assert refusal(RESTORE, parameters, objects) == message
    assert refusal(RESTORE, NAMED, missing_kinds=frozenset({VELERO_BACKUP}), objects=backup({})) == ""


def neighbour(name: str = "wiki", namespace: str = NS, mode: str = "managed") -> dict[ObjectRef, Any]:
    manifest = {**APPLICATION_INSTANCE.manifest(name, namespace), "spec": {"mode": mode}}
    return {ObjectRef(APPLICATION_INSTANCE, namespace, name): manifest}


UPDATE = {"existingResourcePolicy": "update"}
TAKES_BACK = (
    f"{P}existingResourcePolicy: update would take other applications of namespace {NS} back too: blog, wiki; leave it "
    "out, or let whoever is in charge of the namespace say "
    f"`kubectl annotate namespace {NS} ops.vworkspace.io/velero-peers={NS}` first"
)


@pytest.mark.parametrize(
    ("parameters", "objects", "message"),
    [
        (UPDATE, {}, ""),
        (UPDATE, {**neighbour(), **neighbour("blog")}, TAKES_BACK),
        ({**UPDATE, "namespaceMapping": {NS: NS}}, {**neighbour(), **neighbour("blog")}, TAKES_BACK),
        ({**UPDATE, "namespaceMapping": {NS: "a"}}, {**neighbour(), **dict([gated("a")])}, ""),
        (UPDATE, {**neighbour(), **neighbour("blog"), **dict([gated(NS, "other")])}, TAKES_BACK),
        (UPDATE, {**neighbour(), **dict([gated(NS, f"other, {NS}")])}, ""),
        (UPDATE, {**neighbour(mode="placeholder"), **neighbour(namespace="elsewhere")}, ""),
        ({"existingResourcePolicy": "none"}, neighbour(), ""),
        ({}, neighbour(), ""),
    ],
)
def test_a_restore_takes_no_other_application_of_the_namespace_back_OPS_7(
    parameters: Any, objects: Any, message: str
) -> None:
    """Its Secrets, and the images of a database that was migrated since, would be those of the backup."""
    given = {"backupName": "b-1", **parameters}
    assert refusal(RESTORE, given, {**backup(), **objects}) == message


def test_the_applications_of_a_namespace_are_listed_before_a_restore_that_changes_theirs_OPS_7() -> None:
    own = ObjectRef(NAMESPACE, None, NS)
    one = operation(RESTORE, parameters={"backupName": "b-1", **UPDATE})
    instance = target_of(one, observed(RESTORE).objects)
    assert instance is not None
    assert VELERO.diagnostics(one, {}) == (Listing(APPLICATION_INSTANCE, NS),)
    assert own in VELERO.looks_up(one, instance, CONTEXT.settings)
    running = attrs.evolve(one, status=attrs.evolve(one.status, phase=Phase.RUNNING))
    assert VELERO.diagnostics(running, {}) == ()
    for other in (operation(RESTORE, parameters={"backupName": "b-1"}), operation(BACKUP)):
        assert VELERO.diagnostics(other, {}) == ()
        assert own not in VELERO.looks_up(other, instance, CONTEXT.settings)


@pytest.mark.parametrize("mapping", [None, ["x"], "x", {NS: {}}])
@pytest.mark.parametrize("of", [RESTORE, BACKUP])
def test_parameters_that_are_none_of_a_restore_are_left_to_their_schema_OPS_7(of: Any, mapping: Any) -> None:
    """The read before a decision raised, so that nobody was told what is wrong with them."""
    given = {"backupName": "b-1", **UPDATE, "namespaceMapping": mapping}
    assert VELERO.diagnostics(operation(of, parameters=given), {}) == ()


def test_velero_is_asked_for_what_the_parameters_say_OPS_7() -> None:
    bare, own = made(BACKUP), list(made(RESTORE, **NAMED).manifest["spec"]["excludedResources"])

    assert bare.manifest["spec"] == {"includedNamespaces": [NS], "excludedResources": own}
    assert "operations.ops.vworkspace.io" in own
    assert (bare.ref.namespace, "annotations" in bare.manifest["metadata"]) == ("velero", False)
    full = made(
        BACKUP,
        includeNamespaces=["a", NS],
        excludedResources=["pods", own[0]],
        includedResources=["secrets"],
        retention="30d",
        storageLocation="s3",
        snapshotVolumes=False,
        snapshotClassName="csi",
    )
    assert full.manifest["spec"] == {
        "includedNamespaces": ["a", NS],
        "excludedResources": ["pods", *own],
        "includedResources": ["secrets"],
        "ttl": "720h0m0s",
        "storageLocation": "s3",
        "snapshotVolumes": False,
    }
    classes = {"velero.io/csi-volumesnapshot-class_csi.example.test": "csi"}
    assert full.manifest["metadata"]["annotations"] == classes
    assert made(RESTORE, **NAMED).manifest["spec"] == {
        "backupName": "b-1",
        "includedNamespaces": [NS],
        "excludedResources": own,
    }
    mapped = made(
        RESTORE, **NAMED, namespaceMapping={"b": "c", "a": NS}, restorePVs=False, existingResourcePolicy="none"
    )
    assert mapped.manifest["spec"] == {
        "backupName": "b-1",
        "includedNamespaces": ["a", "b"],
        "excludedResources": own,
        "namespaceMapping": {"b": "c", "a": NS},
        "restorePVs": False,
        "existingResourcePolicy": "none",
    }
    missing = EngineStatus(Progress.RUNNING, "VeleroObjectMissing")
    assert VELERO.observe(operation(BACKUP), {}) == missing
    assert gated("a")[0] == ObjectRef(NAMESPACE, None, "a")


def test_a_snapshot_class_is_named_by_its_driver_in_lower_case_as_velero_looks_for_it_OPS_7() -> None:
    ref = ObjectRef(VOLUME_SNAPSHOT_CLASS, None, "csi")
    manifest = made(
        BACKUP, {ref: {**VOLUME_SNAPSHOT_CLASS.manifest("csi"), "driver": "CSI.Example"}}, snapshotClassName="csi"
    )
    assert manifest.manifest["metadata"]["annotations"] == {"velero.io/csi-volumesnapshot-class_csi.example": "csi"}

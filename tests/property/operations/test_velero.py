"""Whose namespaces a backup holds and a restore writes into, and whose backups are taken (OPS-7; H3, D9, D15, D19)."""

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import NAMESPACE, VELERO_BACKUP, VOLUME_SNAPSHOT_CLASS
from tests.property.operations.test_engines import judged
from tests.support.instance_worlds import UID
from tests.support.operation_worlds import (
    CONTEXT,
    NS,
    TARGET,
    conditions_of,
    gated,
    message_of,
    observed,
    operation,
    target_labels,
)
from vworkspace_core.operations.preconditions import Start, UnmetPrecondition, start_or_unmet
from vworkspace_core.operations.reconcile import reconcile_operation

OTHER = "org-victim"
BACKUP = ObjectRef(VELERO_BACKUP, "velero", "b-1")
LABEL = "app.vworkspace.io/application-namespace"


def of_backup(labels: dict[str, str], **spec: Any) -> dict[ObjectRef, Any]:
    body = {"includedNamespaces": [NS], **spec}
    return {BACKUP: {"metadata": {"name": "b-1", "namespace": "velero", "labels": labels}, "spec": body}}


def began(of: str, parameters: dict[str, Any], *objects: Any) -> Start | UnmetPrecondition:
    seen = observed(of, objects=dict(objects))
    return start_or_unmet(operation(of, parameters=parameters), seen, CONTEXT)


def told(found: Start | UnmetPrecondition) -> str:
    assert isinstance(found, UnmetPrecondition), found
    assert (found.reason, found.accepted) == ("ValidationFailed", False)
    return found.message


# --- other namespaces -------------------------------------------------------------------------------------------------

ASKED = [
    ("backup.velero", {"includeNamespaces": [OTHER]}),
    ("backup.velero", {"includeNamespaces": [NS, OTHER]}),
    ("restore.velero", {"backupName": "b-1", "namespaceMapping": {OTHER: NS}}),
    ("restore.velero", {"backupName": "b-1", "namespaceMapping": {NS: OTHER}}),
]
CONSENTS = [
    (gated(OTHER, None), False),
    (gated(OTHER, ""), False),
    (gated(OTHER, "org-somebody"), False),
    (gated(OTHER, f"{NS}-2, x{NS}"), False),
    (gated(OTHER, "*"), False),
    (
        (gated(OTHER)[0], {"metadata": {"name": OTHER, "annotations": gated(OTHER)[1]["metadata"]["annotations"]}}),
        False,
    ),
    (gated(OTHER, f"org-somebody, {NS}"), True),
    (gated(OTHER), True),
]


@pytest.mark.parametrize(("of", "parameters"), ASKED, ids=[f"{i}-{of}" for i, (of, _) in enumerate(ASKED)])
@pytest.mark.parametrize(("namespace", "agrees"), CONSENTS, ids=[f"{i}-{yes}" for i, (_, yes) in enumerate(CONSENTS)])
def test_another_namespace_has_to_be_gated_and_to_agree(
    of: str, parameters: dict[str, Any], namespace: Any, agrees: bool
) -> None:
    backup = of_backup(target_labels(), includedNamespaces=[NS, OTHER])

    found = began(of, parameters, namespace, *backup.items())

    if agrees:
        assert isinstance(found, Start), found
    else:
        assert f"namespace {OTHER} " in told(found)


def test_a_namespace_that_does_not_agree_is_told_with_the_command() -> None:
    message = told(began("backup.velero", {"includeNamespaces": [OTHER]}, gated(OTHER, None)))

    assert f"kubectl annotate namespace {OTHER} ops.vworkspace.io/velero-peers={NS}" in message


def test_the_targets_own_namespace_needs_nobodys_consent_OPS_7() -> None:
    assert isinstance(began("backup.velero", {"includeNamespaces": [NS]}), Start)
    assert isinstance(began("restore.velero", {"backupName": "b-1", "namespaceMapping": {NS: NS}}), Start)


def test_consent_is_looked_at_again_before_anything_is_created() -> None:
    parameters = {"includeNamespaces": [OTHER]}
    seen = observed("backup.velero", objects=dict([gated(OTHER)]))
    one = operation("backup.velero", parameters=parameters)
    begun = reconcile_operation(one, seen, CONTEXT).status
    assert begun is not None
    ref = begun["status"]["engineRef"]
    assert ref["namespace"] == "velero"

    assert ObjectRef(NAMESPACE, None, OTHER) in seen.objects
    withdrawn = observed("backup.velero", objects=dict([gated(OTHER, None)]))
    assert isinstance(start_or_unmet(one, withdrawn, CONTEXT), UnmetPrecondition)


@pytest.mark.parametrize(("retention", "good"), [("3650d", True), ("30000d", False), ("87601h", False), ("1d", True)])
def test_a_backup_is_not_kept_for_ever(retention: str, good: bool) -> None:
    found = began("backup.velero", {"retention": retention})

    if good:
        assert isinstance(found, Start)
    else:
        assert f"must be at most 3650d, which are ten years, not {retention}" in told(found)


# --- which backups ----------------------------------------------------------------------------------------------------


def test_a_backup_of_an_earlier_life_is_taken() -> None:
    """The application was deleted and made anew, or the cluster was lost: uid and cluster are others then."""
    labels = target_labels(
        **{"app.vworkspace.io/instance-uid": "an-earlier-one", "app.vworkspace.io/cluster-id": "lost", LABEL: NS}
    )

    assert isinstance(began("restore.velero", {"backupName": "b-1"}, *of_backup(labels).items()), Start)


WHOSE = [
    ({}, False),
    ({"app.vworkspace.io/instance-uid": "another", LABEL: NS}, True),
    ({"app.vworkspace.io/instance-uid": "another"}, True),  # of before the label, and of this namespace alone
    ({LABEL: OTHER}, False),
    ({LABEL: OTHER, "app.vworkspace.io/instance-uid": UID}, False),
    ({LABEL: NS, "app.vworkspace.io/application-instance": "another"}, False),
    ({LABEL: NS, "app.vworkspace.io/managed-by": "somebody"}, False),
]


@pytest.mark.parametrize(("change", "ours"), WHOSE, ids=[f"{i}-{ours}" for i, (_, ours) in enumerate(WHOSE)])
def test_only_backups_of_this_application_are_taken_OPS_7(change: dict[str, str], ours: bool) -> None:
    labels = target_labels(**change) if change else {}

    found = began("restore.velero", {"backupName": "b-1"}, *of_backup(labels).items())

    assert isinstance(found, Start) == ours
    if not ours:
        assert f"not one of application {TARGET.name} in namespace {NS}" in told(found)


FAILED, WAITS = "ValidationFailed", "ConflictingOperation"


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        *((phase, "") for phase in ("Completed", "PartiallyFailed", "", None, "OfALaterVersion")),
        *((phase, WAITS) for phase in ("New", "InProgress", "WaitingForPluginOperations", "Finalizing", "Queued")),
        *((phase, FAILED) for phase in ("Failed", "FailedValidation", "Deleting")),
    ],
)
def test_a_backup_that_is_not_whole_is_waited_for_or_refused_OPS_7(phase: str | None, reason: str) -> None:
    """Otherwise the approval would be used up by a restore that fails in the middle."""
    backup = {ref: {**body, "status": {"phase": phase}} for ref, body in of_backup(target_labels()).items()}

    found = began("restore.velero", {"backupName": "b-1"}, *backup.items())

    if not reason:
        assert isinstance(found, Start)
        return
    assert isinstance(found, UnmetPrecondition)
    assert (found.reason, found.accepted) == (reason, reason == WAITS)
    assert found.message.endswith(f": its phase is {phase}")


def test_a_backup_of_before_with_more_namespaces_is_one_of_this_uid_or_of_nobody() -> None:
    both = {"includedNamespaces": [NS, OTHER]}
    old = target_labels(**{"app.vworkspace.io/instance-uid": "another"})

    assert isinstance(
        began("restore.velero", {"backupName": "b-1"}, *of_backup(target_labels(), **both).items()), Start
    )
    told(began("restore.velero", {"backupName": "b-1"}, *of_backup(old, **both).items()))


def test_our_backups_say_whose_they_are() -> None:
    found = began("backup.velero", {})

    assert isinstance(found, Start)
    assert found.objects[0].manifest["metadata"]["labels"][LABEL] == NS


# --- what is in them --------------------------------------------------------------------------------------------------

names = st.sampled_from([NS, OTHER, "org-typo", "*"])


@given(
    st.none() | st.lists(names, max_size=3),
    st.none() | st.lists(names, max_size=2),
    st.none() | st.sampled_from([NS, OTHER, "org-typo"]),
)
@example([NS], None, "org-typo")
@example([OTHER], None, None)
def test_what_is_not_in_the_backup_is_not_asked_for(
    included: list[str] | None, excluded: list[str] | None, source: str | None
) -> None:
    spec = {"includedNamespaces": included, "excludedNamespaces": excluded}
    mapping = {} if source is None else {"namespaceMapping": {source: NS}}
    labels = target_labels(**{LABEL: NS})
    around = [gated(OTHER), gated("org-typo"), *of_backup(labels, **spec).items()]

    found = began("restore.velero", {"backupName": "b-1", **mapping}, *around)

    desired = source or NS
    is_in = (not included or "*" in included or desired in included) and desired not in (excluded or [])
    assert isinstance(found, Start) == is_in
    if not is_in:
        assert f"namespace {desired} is not in the Backup" in told(found)


@pytest.mark.parametrize("progress", [None, {}, {"totalItems": 3}, {"itemsRestored": 0}])
def test_a_restore_of_nothing_is_no_plain_success(progress: Any) -> None:
    decision = judged("restore.velero", {"phase": "Completed", **({} if progress is None else {"progress": progress})})

    assert conditions_of(decision)["Succeeded"] == ("True", "VeleroRestoreCompleted")
    assert conditions_of(decision)["Degraded"] == ("True", "PartialFailure")
    assert "nothing in the backup was restored" in message_of(decision, "Succeeded")


def test_a_restore_says_what_it_left_out_OPS_7() -> None:
    """Velero completes a restore over a living application, and only counts what it did not touch."""
    status = {"phase": "Completed", "progress": {"itemsRestored": 3}, "warnings": 2}
    decision = judged("restore.velero", status)

    assert "2 warnings: objects that exist and differ may not have been restored" in message_of(decision, "Succeeded")
    assert message_of(judged("backup.velero", {**status, "warnings": 0}), "Succeeded") == ""


KEPT = "volumes of claims that existed before keep their present data"


def test_a_restore_over_a_living_application_says_that_its_volumes_keep_their_data_OPS_7() -> None:
    """Velero fills only volumes of claims that it creates, whatever the policy is for objects that exist."""
    whole = {"phase": "Completed", "progress": {"itemsRestored": 3}}

    assert KEPT in message_of(judged("restore.velero", {**whole, "warnings": 2}), "Succeeded")
    assert KEPT in message_of(judged("restore.velero", whole, spec={"existingResourcePolicy": "update"}), "Succeeded")
    assert KEPT not in message_of(judged("restore.velero", whole, spec={"existingResourcePolicy": "none"}), "Succeeded")


def test_a_backup_with_warnings_says_that_it_may_not_be_whole_OPS_7() -> None:
    """Velero completes a backup that leaves out a volume which it cannot read, and only counts a warning."""
    status = {"phase": "Completed", "progress": {"itemsBackedUp": 3}, "warnings": 2}

    told = message_of(judged("backup.velero", status), "Succeeded")
    assert told.startswith("2 warnings: a volume or an object may be missing from it")
    assert "velero backup logs" in told


def test_a_restore_of_something_and_a_backup_of_nothing_are_plain_successes() -> None:
    some = judged("restore.velero", {"phase": "Completed", "progress": {"itemsRestored": 3, "totalItems": 3}})
    none = judged("backup.velero", {"phase": "Completed", "progress": {}})

    assert "Degraded" not in conditions_of(some)
    assert "Degraded" not in conditions_of(none)


@pytest.mark.parametrize("of", ["backup.velero", "restore.velero"])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"phase": "PartiallyFailed", "errors": 2, "warnings": 1}, "2 errors, 1 warnings"),
        ({"phase": "PartiallyFailed", "failureReason": "disk"}, "0 errors, 0 warnings; disk"),
        ({"phase": "Failed", "failureReason": "disk", "errors": 2}, "disk"),
        ({"phase": "FailedValidation", "validationErrors": ["a is wrong", "b too"]}, "a is wrong; b too"),
    ],
)
def test_what_velero_says_of_a_failure_is_told_with_the_number_of_errors_OPS_7(
    of: str, status: dict[str, Any], message: str
) -> None:
    decision = judged(of, status)
    kind = next(kind for kind in ("Failed", "Succeeded") if conditions_of(decision).get(kind, ("",))[0] == "True")

    assert message_of(decision, kind) == message


def test_a_template_that_takes_foreign_backups_still_asks_for_consent() -> None:
    items = tuple(attrs.evolve(item, allow_foreign_backups=True) for item in CONTEXT.templates.items)
    context = attrs.evolve(CONTEXT, templates=attrs.evolve(CONTEXT.templates, items=items))
    parameters = {"backupName": "b-1", "namespaceMapping": {OTHER: NS}}
    objects = dict([gated(OTHER, None), *of_backup({}, includedNamespaces=[OTHER]).items()])
    one = operation("restore.velero", parameters=parameters)

    assert "does not agree" in told(start_or_unmet(one, observed("restore.velero", objects=objects), context))
    agreed = {**objects, **dict([gated(OTHER)])}
    assert isinstance(start_or_unmet(one, observed("restore.velero", objects=agreed), context), Start)


# --- what is asked for is what Velero is told -------------------------------------------------------------------------

RESOURCES = st.lists(st.sampled_from(["pods", "deployments.apps", "persistentvolumeclaims", "*"]), max_size=3)
BACKUPS = st.fixed_dictionaries(
    {},
    optional={
        "includeNamespaces": st.just([NS]),
        "includedResources": RESOURCES,
        "excludedResources": RESOURCES,
        "snapshotVolumes": st.booleans(),
        "storageLocation": st.just("default"),
        "retention": st.sampled_from(["30d", "720h"]),
    },
)


@given(BACKUPS)
@example({"includedResources": ["pods"]})
@example({"includedResources": []})
def test_every_parameter_of_a_backup_stands_in_what_velero_is_asked_for_OPS_7(given: dict[str, Any]) -> None:
    """A backup that holds more or less than was asked for is noticed on the day of the restore."""
    found = began("backup.velero", given)
    assert isinstance(found, Start), found
    (made,) = found.objects
    spec = dict(made.manifest["spec"])
    ours = spec.pop("excludedResources")
    asked = given.get("excludedResources", [])

    assert [item for item in ours if item in asked] == list(dict.fromkeys(asked))
    assert all(item.endswith(".vworkspace.io") for item in ours if item not in asked)
    assert spec.pop("includedNamespaces") == [NS]
    assert spec.pop("ttl", None) == ("720h0m0s" if "retention" in given else None)
    kept = ("includedResources", "snapshotVolumes", "storageLocation")
    assert spec == {name: given[name] for name in kept if name in given}


RESTORES = st.fixed_dictionaries(
    {"backupName": st.just("b-1")},
    optional={"restorePVs": st.booleans(), "existingResourcePolicy": st.sampled_from(["none", "update"])},
)


@given(RESTORES)
def test_every_parameter_of_a_restore_stands_in_what_velero_is_asked_for_OPS_7(given: dict[str, Any]) -> None:
    found = began("restore.velero", given, *of_backup(target_labels()).items())
    assert isinstance(found, Start), found
    (made,) = found.objects
    spec = dict(made.manifest["spec"])

    assert all(item.endswith(".vworkspace.io") for item in spec.pop("excludedResources"))
    assert spec == {"includedNamespaces": [NS], **given}


def test_a_class_of_snapshots_that_is_not_there_is_named_with_the_parameter_OPS_7() -> None:
    missing: dict[ObjectRef, Any] = {ObjectRef(VOLUME_SNAPSHOT_CLASS, None, "csi"): {}}
    decision = reconcile_operation(operation("backup.velero"), observed("backup.velero", objects=missing), CONTEXT)

    assert message_of(decision, "Accepted") == (
        "spec.parameters.snapshotClassName: there is no VolumeSnapshotClass csi"
    )

"""Every downstream phase the real controllers know, and what it means: one table per engine (OPS-6 to OPS-10)."""

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Manifest, ObjectRef, ref_of
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import HELM_RELEASE, VOLUME_SNAPSHOT_CONTENT
from purekube.controller.decision import Decision, Failure, Finalizer, Requeue
from purekube.controller.ownership import UNRECORDED
from tests.support.instance_worlds import UID
from tests.support.operation_worlds import (
    CONTEXT,
    GOOD,
    NS,
    OP_UID,
    TARGET,
    TEMPLATES,
    as_created,
    conditions_of,
    message_of,
    observed,
    operation,
    started,
    target_manifest,
)
from tools.status_samples import shown_by
from vworkspace_core.api.application_instance import ReleaseOverride
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FINALIZER
from vworkspace_core.api.operation import Operation, Phase
from vworkspace_core.api.release_override import spec_hash
from vworkspace_core.api.vocabulary import is_admitted
from vworkspace_core.operations.contract import Progress, Row
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.engines.job_pods import TROUBLES
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.reconcile import reconcile_operation

TARGET_SPEC = read_application_instance(target_manifest("upgrade.helm"))


def judged(of: str, status: Mapping[str, Any], *, spec: Mapping[str, Any] | None = None, **more: Any) -> Decision:
    """The decision on a run whose engine object has that status."""
    one, made = started(of, **more)
    assert made is not None
    live = {**made.manifest, "status": dict(status)}
    live["metadata"] = {**made.manifest["metadata"], "uid": "uid-1", "resourceVersion": "7"}
    live["spec"] = {**made.manifest["spec"], **(spec or {})}
    seen = observed(of, objects={made.ref: live, **CONTENTS})
    return reconcile_operation(one, seen, CONTEXT)


def running(reason: str) -> tuple[str, str, str, str]:
    return ("Running", "Running", "True", reason)


def succeeded(reason: str) -> tuple[str, str, str, str]:
    return ("Succeeded", "Succeeded", "True", reason)


def failed(reason: str) -> tuple[str, str, str, str]:
    return ("Failed", "Failed", "True", reason)


def job(kind: str, reason: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "told"}]}


def sync(status: str, reason: str, **more: Any) -> dict[str, Any]:
    condition = {"type": "Synchronizing", "status": status, "reason": reason, "message": "told"}
    return {"conditions": [condition], **more}


CONTENTS = {
    ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, name): {
        **VOLUME_SNAPSHOT_CONTENT.manifest(name),
        "spec": {"volumeSnapshotRef": reference},
    }
    for name, reference in {"c": {"uid": "uid-1"}, "of-another": {"uid": "uid-2"}, "unbound": {}}.items()
}
GOOD_SYNC = {"latestMoverStatus": {"result": "Successful"}}
BAD_SYNC = {"latestMoverStatus": {"result": "Failed", "logs": "told"}}
TABLE: list[tuple[str, dict[str, Any], tuple[str, str, str, str]]] = [
    ("backup.velero", {}, running("VeleroBackupPending")),
    ("backup.velero", {"phase": "New"}, running("VeleroBackupPending")),
    ("backup.velero", {"phase": "Queued"}, running("VeleroBackupQueued")),
    ("backup.velero", {"phase": "ReadyToStart"}, running("VeleroBackupQueued")),
    ("backup.velero", {"phase": "InProgress"}, running("VeleroBackupInProgress")),
    ("backup.velero", {"phase": "WaitingForPluginOperations"}, running("VeleroBackupInProgress")),
    ("backup.velero", {"phase": "WaitingForPluginOperationsPartiallyFailed"}, running("VeleroBackupInProgress")),
    ("backup.velero", {"phase": "Finalizing"}, running("VeleroBackupFinalizing")),
    ("backup.velero", {"phase": "FinalizingPartiallyFailed"}, running("VeleroBackupFinalizing")),
    ("backup.velero", {"phase": "Deleting"}, running("VeleroBackupDeleting")),
    ("backup.velero", {"phase": "Invented"}, running("VeleroBackupInProgress")),
    ("backup.velero", {"phase": "Completed"}, succeeded("VeleroBackupCompleted")),
    ("backup.velero", {"phase": "PartiallyFailed", "errors": 2}, succeeded("VeleroBackupPartiallyFailed")),
    ("backup.velero", {"phase": "Failed", "failureReason": "told"}, failed("VeleroBackupFailed")),
    (
        "backup.velero",
        {"phase": "FailedValidation", "validationErrors": ["told"]},
        failed("VeleroBackupFailedValidation"),
    ),
    ("restore.velero", {}, running("VeleroRestorePending")),
    ("restore.velero", {"phase": "New"}, running("VeleroRestorePending")),
    ("restore.velero", {"phase": "InProgress"}, running("VeleroRestoreInProgress")),
    ("restore.velero", {"phase": "WaitingForPluginOperations"}, running("VeleroRestoreInProgress")),
    ("restore.velero", {"phase": "WaitingForPluginOperationsPartiallyFailed"}, running("VeleroRestoreInProgress")),
    ("restore.velero", {"phase": "Finalizing"}, running("VeleroRestoreFinalizing")),
    ("restore.velero", {"phase": "FinalizingPartiallyFailed"}, running("VeleroRestoreFinalizing")),
    ("restore.velero", {"phase": "Invented"}, running("VeleroRestoreInProgress")),
    ("restore.velero", {"phase": "Completed"}, succeeded("VeleroRestoreCompleted")),
    ("restore.velero", {"phase": "PartiallyFailed"}, failed("PartialFailure")),
    ("restore.velero", {"phase": "Failed"}, failed("VeleroRestoreFailed")),
    ("restore.velero", {"phase": "FailedValidation"}, failed("VeleroRestoreFailedValidation")),
    ("migration.workflow", {}, running("WorkflowPending")),
    ("migration.workflow", {"phase": "Pending"}, running("WorkflowPending")),
    ("migration.workflow", {"phase": "Running"}, running("WorkflowInProgress")),
    ("migration.workflow", {"phase": "Invented"}, running("WorkflowInProgress")),
    ("migration.workflow", {"phase": "Succeeded"}, succeeded("WorkflowSucceeded")),
    ("migration.workflow", {"phase": "Failed", "message": "told"}, failed("WorkflowFailed")),
    ("migration.workflow", {"phase": "Error", "message": "told"}, failed("WorkflowError")),
    ("runCommand.job", {}, running("JobPending")),
    ("runCommand.job", {"active": 1, "startTime": "2026-06-01T12:00:00Z"}, running("JobPodActive")),
    ("runCommand.job", job("Suspended", "JobSuspended"), running("JobSuspended")),
    ("runCommand.job", job("SuccessCriteriaMet"), running("JobFinishing")),
    ("runCommand.job", job("FailureTarget", "BackoffLimitExceeded"), running("JobFinishing")),
    ("runCommand.job", job("Invented"), running("JobPending")),
    ("runCommand.job", {"failed": 3}, running("JobPending")),
    ("runCommand.job", job("Complete", "CompletionsReached"), succeeded("JobComplete")),
    *[
        ("runCommand.job", job("Failed", reason), failed(reason))
        for reason in ("BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded")
    ],
    ("runCommand.job", job("Failed", "not a reason"), failed("JobFailed")),
    ("migration.helmHookJob", job("Complete"), succeeded("JobComplete")),
    ("migration.helmHookJob", job("Failed"), failed("JobFailed")),
    ("backup.volsync", {}, running("VolSyncPending")),
    ("backup.volsync", {"lastSyncStartTime": "2026-06-01T12:00:00Z"}, running("VolSyncSyncInProgress")),
    ("backup.volsync", sync("True", "SyncInProgress"), running("VolSyncSyncInProgress")),
    ("backup.volsync", sync("False", "CleaningUp"), running("VolSyncCleaningUp")),
    ("backup.volsync", sync("False", "Error"), running("VolSyncError")),
    ("backup.volsync", sync("False", "WaitingForManual"), running("VolSyncPending")),
    ("backup.volsync", sync("True", "SyncInProgress", **BAD_SYNC), running("VolSyncMoverFailed")),
    (
        "backup.volsync",
        sync("False", "WaitingForManual", lastManualSync=OP_UID, **BAD_SYNC),
        running("VolSyncMoverFailed"),
    ),
    (
        "backup.volsync",
        sync("False", "WaitingForManual", lastManualSync="other", **GOOD_SYNC),
        running("VolSyncPending"),
    ),
    (
        "backup.volsync",
        sync("False", "WaitingForManual", lastManualSync=OP_UID, **GOOD_SYNC),
        succeeded("VolSyncCompleted"),
    ),
    (
        "restore.volsync",
        {"lastManualSync": OP_UID, **GOOD_SYNC, "latestImage": {"name": "i"}},
        succeeded("VolSyncCompleted"),
    ),
    ("backup.snapshot", {}, running("VolumeSnapshotPending")),
    ("backup.snapshot", {"boundVolumeSnapshotContentName": "c"}, running("VolumeSnapshotInProgress")),
    (
        "backup.snapshot",
        {"boundVolumeSnapshotContentName": "c", "readyToUse": False},
        running("VolumeSnapshotInProgress"),
    ),
    ("backup.snapshot", {"readyToUse": True}, running("VolumeSnapshotPending")),
    ("backup.snapshot", {"error": {"message": "told"}, "readyToUse": False}, running("VolumeSnapshotError")),
    ("backup.snapshot", {"boundVolumeSnapshotContentName": "c", "readyToUse": True}, succeeded("VolumeSnapshotReady")),
    *[
        (
            "backup.snapshot",
            {"boundVolumeSnapshotContentName": name, "readyToUse": True},
            running("VolumeSnapshotNotBound"),
        )
        for name in ("of-another", "unbound", "nowhere")
    ],
    ("restore.snapshot", {}, running("ClaimPending")),
    ("restore.snapshot", {"phase": "Pending"}, running("ClaimPending")),
    ("restore.snapshot", {"phase": "Invented"}, running("ClaimPending")),
    ("restore.snapshot", {"phase": "Bound"}, succeeded("ClaimBound")),
    ("restore.snapshot", {"phase": "Lost"}, failed("ClaimLost")),
]


NAME = "op-1-0badcafe"
OUTPUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "backup.velero": ({"backupName": NAME}, {"backupName": NAME, "errors": 0, "warnings": 0}),
    "restore.velero": ({"restoreName": NAME}, {"restoreName": NAME, "errors": 0, "warnings": 0}),
    "migration.workflow": ({"workflowName": NAME}, {"workflowName": NAME}),
    "runCommand.job": ({"jobName": NAME}, {"jobName": NAME, "succeededPods": 0, "failedPods": 0}),
    "migration.helmHookJob": ({"jobName": NAME}, {"jobName": NAME, "succeededPods": 0, "failedPods": 0}),
    "backup.volsync": ({"replicationName": NAME}, {"replicationName": NAME}),
    "restore.volsync": ({"replicationName": NAME}, {"replicationName": NAME, "latestImage": "i"}),
    "backup.snapshot": (
        {"volumeSnapshotName": NAME},
        {"volumeSnapshotName": NAME, "volumeSnapshotContentName": "c"},
    ),
    "restore.snapshot": ({"pvcName": NAME}, {"pvcName": NAME}),
}
"""While it runs, and at its end where the status tells no counts."""


@pytest.mark.parametrize(
    ("of", "status", "expected"), TABLE, ids=[f"{i}-{row[0]}-{row[2][3]}" for i, row in enumerate(TABLE)]
)
def test_what_each_downstream_phase_means(of: str, status: dict[str, Any], expected: tuple[str, str, str, str]) -> None:
    decision = judged(of, status)

    phase, kind, true, reason = expected
    assert decision.status is not None
    assert decision.status["status"]["phase"] == phase
    conditions = conditions_of(decision)
    assert conditions[kind] == (true, reason)
    assert ("finishedAt" in decision.status["status"]) == (phase != "Running")
    assert conditions["Running"][0] == ("True" if phase == "Running" else "False")
    counts: dict[str, Any] = {name: status[name] for name in ("errors", "warnings") if name in status}
    assert decision.status["status"]["outputs"] == {**OUTPUTS[of][phase != "Running"], **counts}
    if phase == "Failed" and "told" in json.dumps(status):
        assert message_of(decision, kind) == "told"


@pytest.mark.parametrize("name", sorted({of.partition(".")[2] for of, *_ in TABLE}))
def test_every_row_of_every_table_is_walked_above(name: str) -> None:
    """The tables the documentation is printed from and the tests above speak of the same reasons."""
    told = {reason for of, _, (_, _, _, reason) in TABLE if of.endswith(f".{name}") or name == "helmHookJob"}
    told |= {row.reason for row in TROUBLES}  # of pods, which tests/property/operations/test_pods.py walks
    rows = {row.reason for rows in ENGINES[name].tables.values() for row in rows}
    assert rows - {"VolSyncWaitingForSchedule"} <= told


ROWS = [
    (item.name, kind, row)
    for item in TEMPLATES.items
    for kind, rows in ENGINES[item.engine].tables.items()
    for row in rows
]


@pytest.mark.parametrize(
    ("of", "kind", "row"), ROWS, ids=[f"{i}-{of}-{row.phase}" for i, (of, _, row) in enumerate(ROWS)]
)
def test_every_row_is_what_the_engine_makes_of_its_sample(of: str, kind: str, row: Row) -> None:
    """What the documentation prints from the tables is what happens."""
    recurring = row.reason == "VolSyncWaitingForSchedule"
    more = {"parameters": {**GOOD[of], "schedule": "0 3 * * *"}} if recurring and of == "backup.volsync" else {}
    one, made = started(of, **more)
    seen = observed(of)
    live, of_kind = seen.objects[TARGET], APPLICATION_INSTANCE
    if made is not None:
        live, of_kind = as_created(made), made.kind
    if of_kind.kind not in kind:
        return  # the other one of an engine's two kinds

    objects = {**seen.objects, **shown_by(row, one, of_kind, live)}
    status = ENGINES[one.spec.engine].observe(one, objects)

    assert status.phase is row.progress
    assert status.reason == row.reason or (row.reason == "JobFailed" and status.reason == "BackoffLimitExceeded")
    decision = reconcile_operation(one, attrs.evolve(seen, objects=objects), CONTEXT)
    for condition, (value, reason) in conditions_of(decision).items():
        assert is_admitted("Operation", condition, value, reason)


@pytest.mark.slow
@pytest.mark.parametrize("of", [of for of in GOOD if of != "upgrade.helm"])
@given(data=st.data())
def test_no_status_whatever_breaks_an_engine_or_the_vocabulary_RES_4(of: str, data: Any) -> None:
    keys = ["phase", "error", "readyToUse", "latestMoverStatus", "progress", "lastManualSync", "active"]
    status = data.draw(st.dictionaries(st.sampled_from(keys), st.text(max_size=5) | st.integers() | st.none()))

    decision = judged(of, status)

    for kind, (value, reason) in conditions_of(decision).items():
        assert is_admitted("Operation", kind, value, reason)
    assert conditions_of(decision)["Running"][0] == "True"


def test_a_backup_in_part_succeeds_degraded_with_its_counts_OPS_7() -> None:
    progress = {"itemsBackedUp": 5, "totalItems": 7}
    decision = judged("backup.velero", {"phase": "PartiallyFailed", "errors": 2, "warnings": 1, "progress": progress})

    assert conditions_of(decision)["Degraded"] == ("True", "PartialFailure")
    assert decision.status is not None
    outputs = decision.status["status"]["outputs"]
    assert outputs["backupName"] == "op-1-0badcafe"
    assert (outputs["itemsBackedUp"], outputs["totalItems"], outputs["errors"], outputs["warnings"]) == (5, 7, 2, 1)


def test_a_suspended_workflow_runs_and_waits_for_somebody_OPS_8() -> None:
    by_spec = judged("migration.workflow", {"phase": "Running"}, spec={"suspend": True})
    nodes = {"n": {"type": "Suspend", "phase": "Running"}}
    by_node = judged("migration.workflow", {"phase": "Running", "nodes": nodes})

    for decision in (by_spec, by_node):
        assert conditions_of(decision)["Blocked"] == ("True", "AwaitingResume")
        assert conditions_of(decision)["Running"] == ("True", "WorkflowInProgress")


def test_the_first_failing_steps_message_is_told_OPS_8() -> None:
    nodes = {
        "whole": {"type": "Steps", "phase": "Failed", "message": "child failed", "finishedAt": "2026-06-01T12:00:09Z"},
        "second": {"type": "Pod", "phase": "Failed", "message": "later", "finishedAt": "2026-06-01T12:00:05Z"},
        "first": {
            "type": "Pod",
            "phase": "Error",
            "message": "exit code 3",
            "finishedAt": "2026-06-01T12:00:01Z",
            "name": "a",
        },
    }

    decision = judged("migration.workflow", {"phase": "Failed", "message": "whole", "nodes": nodes})

    assert message_of(decision, "Failed") == "a: exit code 3"


def test_secrets_in_outputs_and_messages_are_hidden_RES_7() -> None:
    outputs = {"parameters": [{"name": "password", "value": "hunter2"}, {"name": "rows", "value": "7"}]}
    decision = judged("migration.workflow", {"phase": "Succeeded", "outputs": outputs})
    leaked = judged(
        "runCommand.job", {"conditions": [{"type": "Failed", "status": "True", "message": "password=hunter2"}]}
    )

    assert "hunter2" not in str(decision.status)
    assert "'rows': '7'" in str(decision.status)
    assert "hunter2" not in str(leaked.status) + str(leaked.events)


# --- what is created -------------------------------------------------------------------------------------------------


def made(of: str, **more: Any) -> Manifest:
    start = start_or_unmet(operation(of, **more), observed(of), CONTEXT)
    assert isinstance(start, Start), start
    return start.objects[0].manifest


def test_a_velero_backup_keeps_our_own_kinds_out_and_speaks_gos_durations_OPS_7() -> None:
    manifest = made("backup.velero")

    assert manifest["metadata"]["namespace"] == "velero"
    assert manifest["spec"]["includedNamespaces"] == [NS]
    assert manifest["spec"]["ttl"] == "720h0m0s"
    assert set(manifest["spec"]["excludedResources"]) == {
        "operations.ops.vworkspace.io",
        "applicationinstances.apps.vworkspace.io",
    }
    assert manifest["metadata"]["annotations"] == {"velero.io/csi-volumesnapshot-class_csi.example.test": "csi"}
    assert "status" not in manifest


def test_a_job_is_restricted_OPS_8() -> None:
    pod = made("runCommand.job")["spec"]["template"]["spec"]

    (container,) = pod["containers"]
    assert pod["restartPolicy"] == "Never"
    assert pod["serviceAccountName"] == "vworkspace-operation-runner"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert made("runCommand.job")["spec"]["ttlSecondsAfterFinished"] == 86_400


def test_a_workflow_knows_its_target_whatever_its_parameters_say_OPS_8() -> None:
    given = {"workflowTemplate": "migrate", "workflowTemplateParameters": {"targetName": "another", "n": 3, "b": True}}

    spec = made("migration.workflow", parameters=given, timeoutSeconds=77)["spec"]

    arguments = {parameter["name"]: parameter["value"] for parameter in spec["arguments"]["parameters"]}
    assert arguments == {"targetName": TARGET.name, "targetNamespace": NS, "n": "3", "b": "true"}
    assert spec["activeDeadlineSeconds"] == 77


def test_volsync_is_triggered_once_when_nothing_can_be_under_way_OPS_10() -> None:
    assert made("backup.volsync")["spec"]["trigger"] == {"manual": OP_UID}
    scheduled = made("backup.volsync", parameters={**GOOD["backup.volsync"], "schedule": "0 3 * * *"})
    assert scheduled["spec"]["trigger"] == {"schedule": "0 3 * * *"}


OWNED = {"runCommand.job", "migration.workflow", "runbook.workflow", "migration.helmHookJob", "backup.volsync"}


@pytest.mark.parametrize("of", [of for of in GOOD if of != "upgrade.helm"])
def test_what_holds_data_or_lies_elsewhere_has_no_owner_and_all_carry_our_labels_OPS_6(of: str) -> None:
    meta = made(of)["metadata"]

    assert ("ownerReferences" in meta) == (of in OWNED)
    elsewhere = {} if meta["namespace"] == NS else {"app.vworkspace.io/application-namespace": NS}
    again = () if "velero" in of or "snapshot" in of else ("velero.io/exclude-from-backup",)
    assert meta["labels"] == {
        **elsewhere,
        **dict.fromkeys(again, "true"),
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/cluster-id": "cluster-prod-1",
        "app.vworkspace.io/application-instance": TARGET.name,
        "app.vworkspace.io/instance-uid": UID,
        "app.vworkspace.io/operation": "op-1",
        "app.vworkspace.io/operation-uid": OP_UID,
    }


@given(name=st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?\Z"))
def test_names_of_any_length_make_names_that_labels_can_hold_RES_5(name: str) -> None:
    if ".." in name or ".-" in name or "-." in name:
        return
    assert len(made("runCommand.job", name=name)["metadata"]["name"]) <= 63


# --- helm ------------------------------------------------------------------------------------------------------------


def upgraded(*conditions: tuple[str, str, str], override: str | None = OP_UID, **spec: Any) -> Decision:
    """The decision on a running upgrade, with the target in that state."""
    one, _ = started("upgrade.helm")
    target = target_manifest("upgrade.helm")
    target["spec"] = {**target["spec"], **spec}
    moment = {"lastTransitionTime": "2026-06-01T11:59:40Z", "observedGeneration": 1, "message": "told"}
    target["status"]["conditions"] = [{"type": t, "status": s, "reason": r, **moment} for t, s, r in conditions]
    if override is not None:
        target["status"]["releaseOverride"] = {"operation": "op-1", "uid": override, "specHash": "x"}
    return reconcile_operation(one, observed("upgrade.helm", objects={TARGET: target}), CONTEXT)


READY = ("Ready", "True", "HelmReleaseReady")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (upgraded(READY, override=None), running("HelmReleaseUpgrading")),
        (upgraded(READY, override="another"), running("HelmReleaseUpgrading")),
        (upgraded(("Ready", "False", "Upgrading")), running("HelmReleaseUpgrading")),
        (upgraded(("Ready", "False", "ChartUnreachable")), running("HelmReleaseUpgrading")),
        (upgraded(("Suspended", "True", "ManuallySuspended"), READY), running("HelmReleaseSuspended")),
        (upgraded(("Blocked", "True", "FieldConflict"), READY), running("TargetBlocked")),
        (upgraded(), running("HelmReleaseUpgrading")),
        (upgraded(READY), succeeded("HelmReleaseReady")),
        (upgraded(("Ready", "False", "HelmReleaseFailed")), failed("UpgradeFailed")),
        (
            upgraded(("Ready", "False", "RolledBack"), ("Degraded", "True", "HelmReleaseFailed")),
            failed("UpgradeFailed"),
        ),
        (upgraded(READY, ("Degraded", "True", "ForbiddenVersionOverride")), failed("ForbiddenVersion")),
        (upgraded(READY, values={"source": "inline", "inline": {"replicas": 9}}), failed("SpecChanged")),
        (upgraded(READY, suspend=True), succeeded("HelmReleaseReady")),
    ],
)
def test_an_upgrade_is_judged_by_the_target_that_took_it_up_OPS_9(
    decision: Decision, expected: tuple[str, str, str, str]
) -> None:
    phase, kind, true, reason = expected
    assert decision.status is not None
    assert decision.status["status"]["phase"] == phase
    assert conditions_of(decision)[kind] == (true, reason)
    assert not decision.writes_downstream


def test_an_upgrade_says_where_it_comes_from_and_goes_OPS_9() -> None:
    one, created = started("upgrade.helm")

    assert created is None
    outputs = one.status.outputs or {}
    assert (outputs["fromVersion"], outputs["toVersion"], outputs["helmReleaseName"]) == ("6.6.0", "6.7.0", "nextcloud")
    assert outputs["specHash"] == spec_hash(TARGET_SPEC.spec)


def upgrade(uid: str, phase: Phase, **more: Any) -> Operation:
    one, _ = started("upgrade.helm", uid=uid, name=f"up-{uid}", **more)
    return attrs.evolve(one, status=attrs.evolve(one.status, phase=phase))


def holding(uid: str) -> Any:
    override = ReleaseOverride(operation=f"up-{uid}", uid=uid, version="6.7.0", spec_hash=spec_hash(TARGET_SPEC.spec))
    return attrs.evolve(TARGET_SPEC, status=attrs.evolve(TARGET_SPEC.status, release_override=override))


def test_a_running_upgrade_asks_and_a_finished_one_is_held_by_the_target_REC_9() -> None:
    override, withdrawn = release_request(TARGET_SPEC, [upgrade("a", Phase.RUNNING)])
    assert override is not None
    assert (override.uid, override.version, override.values_patch) == ("a", "6.7.0", {"replicas": 3})
    assert withdrawn == frozenset()

    assert release_request(holding("a"), [upgrade("a", Phase.SUCCEEDED)]) == (None, frozenset())
    assert release_request(holding("a"), []) == (None, frozenset())


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.CANCELLED])
def test_a_failed_or_cancelled_one_is_withdrawn_REC_9(phase: Phase) -> None:
    """What was before is in the target's status: nobody is asked for it, whether it still exists or not (D1b)."""
    both = [upgrade("a", Phase.SUCCEEDED), upgrade("b", phase)]

    assert release_request(holding("b"), both) == (None, frozenset({"b"}))
    assert release_request(holding("b"), both[1:]) == (None, frozenset({"b"}))


def test_one_that_is_leaving_is_withdrawn_before_it_ends_REC_9_OPS_11() -> None:
    cancelled = upgrade("a", Phase.RUNNING, annotations={"ops.vworkspace.io/cancel": "true"})

    assert release_request(holding("a"), [cancelled]) == (None, frozenset({"a"}))


def test_one_that_is_deleted_is_withdrawn_unless_its_run_is_to_go_on_OPS_11() -> None:
    one = upgrade("a", Phase.RUNNING)

    def withdrawn(*orphaning: str, **meta: Any) -> frozenset[str]:
        going = attrs.evolve(one.metadata, deletion_timestamp="2026-06-01T11:59:30Z", **meta)
        return release_request(holding("a"), [attrs.evolve(one, metadata=going)], orphaning)[1]

    assert withdrawn() == withdrawn("b") == frozenset({"a"})
    assert withdrawn("a") == withdrawn(finalizers=("orphan",)) == frozenset()
    assert withdrawn(annotations={ABANDON: "true"}) == frozenset()


@pytest.mark.parametrize(
    ("asked", "changed", "goes_on"),
    [
        ({"targetVersion": "6.7.0"}, "values", True),
        ({"targetVersion": "6.7.0"}, "chart", False),
        ({"valuesPatch": {"replicas": 3}}, "values", False),
        ({"valuesPatch": {"replicas": 3}}, "chart", True),
    ],
)
def test_only_new_intent_of_the_same_kind_ends_an_upgrade_REC_9(asked: Any, changed: str, goes_on: bool) -> None:
    one = upgrade("a", Phase.RUNNING, parameters=asked)
    chart = TARGET_SPEC.spec.chart
    assert chart is not None
    chart = attrs.evolve(chart, version="6.6.1") if changed == "chart" else chart
    values = None if changed == "values" else TARGET_SPEC.spec.values
    target = attrs.evolve(TARGET_SPEC, spec=attrs.evolve(TARGET_SPEC.spec, chart=chart, values=values))

    override, _ = release_request(target, [one])

    assert (override is not None) is goes_on


def test_an_upgrade_says_what_really_ran_REC_9() -> None:
    """After a failed upgrade Helm's history knows; the last version that was asked for never ran."""
    history = [
        {"status": "failed", "chartVersion": "6.6.0+aaaaaaaaaaaa"},
        {"status": "deployed", "chartVersion": "6.5.0+bbbbbbbbbbbb"},
    ]
    release = {**HELM_RELEASE.manifest("nextcloud", NS), "status": {"history": history}}
    ref = ref_of(release, HELM_RELEASE)
    outputs = ENGINES["helm"].initial_outputs(operation("upgrade.helm"), TARGET_SPEC, {ref: release})

    assert (outputs["fromVersion"], outputs["toVersion"]) == ("6.5.0", "6.7.0")


def test_new_intent_wins_over_a_running_upgrade_REC_9() -> None:
    changed = attrs.evolve(TARGET_SPEC, spec=attrs.evolve(TARGET_SPEC.spec, values=None))

    assert release_request(changed, [upgrade("a", Phase.RUNNING)]) == (None, frozenset())


def test_the_object_is_locked_until_its_uid_is_recorded_OPS_1() -> None:
    one, created = started("runCommand.job")
    known = one.status.engine_ref
    assert created is not None
    assert known is not None
    intent = attrs.evolve(one, status=attrs.evolve(one.status, engine_ref=attrs.evolve(known, uid="")))

    decision = reconcile_operation(intent, observed(), CONTEXT)

    (create,) = decision.creates
    assert create.manifest["metadata"]["finalizers"] == [UNRECORDED]
    assert decision.only_if_current
    assert decision.status is None


NO_RIGHT = f'User "operator" cannot patch resource "jobs" in API group "batch" in the namespace "{NS}"'


def test_the_operation_stays_until_the_object_of_its_finished_run_is_unlocked_OPS_11() -> None:
    """Without our finalizer on the Operation nobody would ever unlock the object: its deletion would hang."""
    one, created = started("runCommand.job")
    assert created is not None
    meta = attrs.evolve(one.metadata, deletion_timestamp="2026-06-01T12:00:00Z", finalizers=(FINALIZER,))
    done = attrs.evolve(one, metadata=meta, status=attrs.evolve(one.status, phase=Phase.SUCCEEDED))
    live = as_created(created)
    live["metadata"]["finalizers"] = [UNRECORDED]
    refused = Failure(created.ref, "patch", Forbidden("no"))

    first = reconcile_operation(done, observed(objects={created.ref: live}), CONTEXT)
    later = reconcile_operation(done, observed(objects={created.ref: live}, failures=(refused,)), CONTEXT)
    lacking = attrs.evolve(refused, error=Forbidden(NO_RIGHT))
    forbidden = reconcile_operation(done, observed(objects={created.ref: live}, failures=(lacking,)), CONTEXT)
    unlocked = reconcile_operation(done, observed(objects={created.ref: as_created(created)}), CONTEXT)

    assert [patch.ref for patch in first.patches] == [created.ref]
    assert first.finalizer is later.finalizer is None
    assert later.requeue == Requeue.BACKOFF
    assert forbidden.finalizer is None
    assert forbidden.requeue == Requeue.REFUSED
    assert conditions_of(forbidden)["Blocked"] == ("True", "Forbidden")
    assert unlocked.finalizer is Finalizer.REMOVE


def test_progress_is_one_of_three() -> None:
    assert {row.progress for engine in ENGINES.values() for rows in engine.tables.values() for row in rows} <= set(
        Progress
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (sync("True", "SyncInProgress", latestMoverStatus={"result": "Failed", "logs": "no space"}), "no space"),
        (
            sync("True", "SyncInProgress", latestMoverStatus={"result": "Failed"}),
            "VolSync tries again until the deadline",
        ),
        (sync("False", "Error"), "told"),
        ({"conditions": [{"type": "Synchronizing", "status": "False", "reason": "Error"}]}, "VolSync tries again"),
    ],
)
def test_what_volsync_says_of_its_failure_is_told_OPS_8(status: Any, words: str) -> None:
    assert words in message_of(judged("backup.volsync", status), "Running")

"""Scenarios of engines: what becomes of an Operation's object, and what is waited for (OPS-8, OPS-10, RUN-9).

The docstring says what the scenario is about; its name is the name of the recording in `tests/conformance/engines`.
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from kubelab.downstream.kinds import DELETE_BACKUP_REQUEST
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SECRET, SERVICE_ACCOUNT
from tests.support.engine_stage import SNAPSHOT_CLASS, EngineStage
from tests.support.resumed_workflows import resume_patch
from vworkspace_core.operations.settings import RUNNER

_JOB: Final = "runCommand.job"
_RUNBOOK: Final = "runbook.workflow"
_SYNC: Final = "backup.volsync"
_SNAPSHOT: Final = "backup.snapshot"
_IMAGE: Final = "registry.example.com/tool:1"


@attrs.frozen
class Scenario:
    """A script, and the component of `make cluster` that it wants beside Kubernetes."""

    play: Callable[[EngineStage], None]
    component: str = ""


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(component: str = "") -> Callable[[Callable[[EngineStage], None]], Callable[[EngineStage], None]]:
    """Take a scenario into the list."""

    def take(play: Callable[[EngineStage], None]) -> Callable[[EngineStage], None]:
        SCENARIOS[play.__name__] = Scenario(play, component)
        return play

    return take


@scenario()
def job_succeeds(stage: EngineStage) -> None:
    """A Job whose pod ends with status 0."""
    stage.run(_JOB, image=_IMAGE)
    stage.until_says("JobComplete")


@scenario()
def job_fails(stage: EngineStage) -> None:
    """A Job whose pod ends with status 1, and is not tried again."""
    stage.run(_JOB, image=_IMAGE, pods="fails")
    stage.until_says("BackoffLimitExceeded")


@scenario()
def job_backs_off(stage: EngineStage) -> None:
    """A Job whose pod fails, is replaced once, and fails again."""
    stage.run(_JOB, image=_IMAGE, backoffLimit=1, pods="fails")
    stage.until_says("BackoffLimitExceeded")


@scenario()
def job_exceeds_its_deadline(stage: EngineStage) -> None:
    """A Job that takes longer than it may."""
    stage.run(_JOB, image=_IMAGE, timeoutSeconds=3, pods="hangs")
    stage.until_says("DeadlineExceeded")


@scenario()
def job_is_removed_after_its_end(stage: EngineStage) -> None:
    """A Job whose time to live is over: its Event tells of its end."""
    stage.run(_JOB, image=_IMAGE, patch={"ttlSecondsAfterFinished": 1})
    stage.until_gone()


@scenario()
def job_cannot_be_scheduled(stage: EngineStage) -> None:
    """A Job whose pod no node takes, until its deadline."""
    nowhere = {"template": {"spec": {"nodeSelector": {"disk": "none"}}}}
    stage.run(_JOB, image=_IMAGE, timeoutSeconds=5, pods="unschedulable", patch=nowhere)
    stage.until_says("JobPodUnschedulable")
    stage.until_says("DeadlineExceeded")


@scenario()
def job_image_cannot_be_pulled(stage: EngineStage) -> None:
    """A Job whose image is not there, until its deadline."""
    stage.run(_JOB, image=_IMAGE, timeoutSeconds=5, pods="no-image")
    stage.until_says("JobImagePullFailed")
    stage.until_says("DeadlineExceeded")


@scenario()
def job_exceeds_a_quota(stage: EngineStage) -> None:
    """A Job for whose pod the namespace has no room, until it has."""
    stage.quota(0)
    stage.run(_JOB, image=_IMAGE)
    stage.until_says("JobQuotaExceeded")
    stage.quota(None)
    stage.until_says("JobComplete")


@scenario()
def job_lacks_its_account(stage: EngineStage) -> None:
    """A Job whose service account is not there, until it is."""
    stage.delete(ObjectRef(SERVICE_ACCOUNT, stage.namespace, RUNNER))
    stage.run(_JOB, image=_IMAGE)
    stage.until_says("JobServiceAccountMissing")
    stage.create(SERVICE_ACCOUNT.manifest(RUNNER, stage.namespace), SERVICE_ACCOUNT)
    stage.until_says("JobComplete")


@scenario()
def job_is_suspended(stage: EngineStage) -> None:
    """A Job that is suspended from the start, resumed, and suspended again while it runs."""
    stage.run(_JOB, image=_IMAGE, pods="hangs", patch={"suspend": True})
    stage.until_says("JobSuspended")
    stage.patch({"spec": {"suspend": False}})
    stage.until_says("JobPodActive")
    stage.patch({"spec": {"suspend": True}})
    stage.until_says("JobSuspended")


@scenario("argo")
def workflow_succeeds(stage: EngineStage) -> None:
    """A Workflow whose pod ends with status 0."""
    stage.workflow_template()
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_says("WorkflowSucceeded")


@scenario("argo")
def workflow_fails(stage: EngineStage) -> None:
    """A Workflow whose pod ends with status 1."""
    stage.workflow_template(pods="fails")
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_says("WorkflowFailed")


@scenario("argo")
def workflow_template_is_missing(stage: EngineStage) -> None:
    """A Workflow of a WorkflowTemplate that is not there."""
    stage.run(_RUNBOOK, workflowTemplate="nothing")
    stage.until_says("WorkflowError")


@scenario("argo")
def workflow_hangs(stage: EngineStage) -> None:
    """A Workflow whose pod does not end, until its deadline."""
    stage.workflow_template(pods="hangs")
    stage.run(_RUNBOOK, workflowTemplate="runbook", patch={"activeDeadlineSeconds": 5})
    stage.until_says("WorkflowFailed")


@scenario("argo")
def workflow_retries(stage: EngineStage) -> None:
    """A Workflow whose step is tried twice, and fails twice."""
    stage.workflow_template(pods="fails", retries=1)
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_says("WorkflowFailed")


@scenario("argo")
def workflow_fails_after_a_retry(stage: EngineStage) -> None:
    """A Workflow with a step that fails once, and one after it that fails for good."""
    stage.workflow_template(pods="fails", before="flaky")
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_says("WorkflowFailed")


@scenario("argo")
def workflow_is_stopped(stage: EngineStage) -> None:
    """A Workflow that a person stops while its pod runs."""
    stage.workflow_template(pods="hangs")
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_pod_runs()
    stage.patch({"spec": {"shutdown": "Stop"}})
    stage.until_says("WorkflowFailed")


@scenario("argo")
def workflow_is_terminated(stage: EngineStage) -> None:
    """A Workflow that a person terminates while its pod runs."""
    stage.workflow_template(pods="hangs")
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_pod_runs()
    stage.patch({"spec": {"shutdown": "Terminate"}})
    stage.until_says("WorkflowFailed")


@scenario("argo")
def workflow_is_suspended(stage: EngineStage) -> None:
    """A Workflow that is suspended from the start, and resumed."""
    stage.workflow_template()
    stage.run(_RUNBOOK, workflowTemplate="runbook", patch={"suspend": True})
    stage.until_says("WorkflowInProgress")
    stage.patch({"spec": {"suspend": None}})
    stage.until_says("WorkflowSucceeded")


@scenario("argo")
def workflow_asks(stage: EngineStage) -> None:
    """A Workflow with a step that waits to be resumed, as `argo resume` does it."""
    stage.workflow_template(before="suspended")
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until(lambda: stage.says().blocked is not None, "Workflow waits")
    live = stage.find(stage.ref)
    assert live is not None
    stage.patch(resume_patch(live))
    stage.until_says("WorkflowSucceeded")


@scenario("argo")
def workflow_is_removed_after_its_end(stage: EngineStage) -> None:
    """A Workflow whose time to live is over: its Event tells of its end."""
    stage.workflow_template()
    stage.run(_RUNBOOK, workflowTemplate="runbook", patch={"ttlStrategy": {"secondsAfterCompletion": 1}})
    stage.until_gone()


@scenario("argo")
def workflow_lacks_its_account(stage: EngineStage) -> None:
    """A Workflow whose service account is not there."""
    stage.delete(ObjectRef(SERVICE_ACCOUNT, stage.namespace, RUNNER))
    stage.workflow_template()
    stage.run(_RUNBOOK, workflowTemplate="runbook")
    stage.until_says("WorkflowError")


def _begin_snapshot(stage: EngineStage) -> None:
    stage.snapshot_class()
    stage.volume()
    stage.run(_SNAPSHOT, pvc="data", snapshotClassName=SNAPSHOT_CLASS)
    stage.until_says("VolumeSnapshotInProgress")


def _cut_snapshot(stage: EngineStage) -> None:
    _begin_snapshot(stage)
    stage.driver_cuts()
    stage.until_says("VolumeSnapshotReady")


@scenario("snapshots")
def snapshot_gets_ready(stage: EngineStage) -> None:
    """A VolumeSnapshot that the driver cuts."""
    _cut_snapshot(stage)


@scenario("snapshots")
def snapshot_fails_then_gets_ready(stage: EngineStage) -> None:
    """A VolumeSnapshot that the driver cannot cut, and then can."""
    _begin_snapshot(stage)
    stage.driver_cuts("failed to take snapshot of the volume data: rpc error: code = Internal desc = no space")
    stage.until_says("VolumeSnapshotError")
    stage.driver_cuts()
    stage.until_says("VolumeSnapshotReady")


@scenario("snapshots")
def snapshot_class_is_missing(stage: EngineStage) -> None:
    """A VolumeSnapshot of a class that is not there."""
    stage.volume()
    stage.run(_SNAPSHOT, pvc="data", snapshotClassName="nothing")
    stage.until_says("VolumeSnapshotError")


@scenario("snapshots")
def snapshot_of_an_unbound_claim(stage: EngineStage) -> None:
    """A VolumeSnapshot of a claim that has no volume yet."""
    stage.snapshot_class()
    stage.volume(bound=False)
    stage.run(_SNAPSHOT, pvc="data", snapshotClassName=SNAPSHOT_CLASS)
    stage.until_says("VolumeSnapshotError")


@scenario("snapshots")
def snapshot_of_a_missing_claim(stage: EngineStage) -> None:
    """A VolumeSnapshot of a claim that is not there."""
    stage.snapshot_class()
    stage.run(_SNAPSHOT, pvc="data", snapshotClassName=SNAPSHOT_CLASS)
    stage.until_says("VolumeSnapshotError")


@scenario("snapshots")
def snapshot_content_is_deleted(stage: EngineStage) -> None:
    """A VolumeSnapshot that is ready, and whose content a person takes away with its finalizers."""
    _cut_snapshot(stage)
    content = stage.content()
    stage.delete(content)
    stage.patch({"metadata": {"finalizers": None}}, content)
    stage.until_gone(content)
    stage.pause(5)


@scenario("snapshots")
def snapshot_is_deleted(stage: EngineStage) -> None:
    """A VolumeSnapshot that is ready, and is deleted: its content goes too."""
    _cut_snapshot(stage)
    content = stage.content()
    stage.delete()
    stage.driver_deletes(content)
    stage.until_gone()
    stage.until_gone(content)


def _sync(stage: EngineStage, **more: Any) -> None:
    stage.volume()
    stage.repository()
    stage.run(_SYNC, source="data", repository="restic", copyMethod="Direct", **more)


@scenario("volsync")
def sync_succeeds(stage: EngineStage) -> None:
    """A ReplicationSource with a manual trigger, whose mover succeeds."""
    _sync(stage)
    stage.until_says("VolSyncCompleted")
    stage.pause(5)


@scenario("volsync")
def sync_mover_fails(stage: EngineStage) -> None:
    """A ReplicationSource whose mover fails twice in half a minute."""
    _sync(stage, pods="fails")
    stage.until_says("VolSyncSyncInProgress")
    stage.pause(30)


@scenario("volsync")
def sync_by_schedule(stage: EngineStage) -> None:
    """A ReplicationSource with a schedule: it waits for the next sync."""
    _sync(stage, schedule="0 3 * * *")
    stage.until_says("VolSyncWaitingForSchedule")


@scenario("volsync")
def sync_lacks_its_repository(stage: EngineStage) -> None:
    """A ReplicationSource whose Secret is not there."""
    stage.volume()
    stage.run(_SYNC, source="data", repository="restic", copyMethod="Direct")
    stage.until_says("VolSyncError")


@scenario("velero")
def backup_lacks_its_storage(stage: EngineStage) -> None:
    """A Backup without any storage location."""
    stage.run("backup.velero")
    stage.until_says("VeleroBackupFailedValidation")


@scenario("velero")
def backup_names_a_missing_storage(stage: EngineStage) -> None:
    """A Backup into a storage location that is not there."""
    stage.run("backup.velero", storageLocation="nothing")
    stage.until_says("VeleroBackupFailedValidation")


@scenario("velero")
def backup_storage_is_unavailable(stage: EngineStage) -> None:
    """A Backup into a storage location that cannot be reached."""
    stage.storage_is_unavailable()
    stage.run("backup.velero", storageLocation="away")
    stage.until_says("VeleroBackupFailedValidation")


@scenario("velero")
def backup_completes(stage: EngineStage) -> None:
    """A Backup of one Secret, in an object storage."""
    stage.backup("secrets")
    stage.until_says("VeleroBackupCompleted")


@scenario("velero")
def backup_fails_in_part(stage: EngineStage) -> None:
    """A Backup of a pod whose hook fails."""
    stage.hook_fails()
    stage.backup("pods")
    stage.until_says("VeleroBackupPartiallyFailed")


@scenario("velero")
def backup_is_deleted(stage: EngineStage) -> None:
    """A Backup whose deletion, with its data, is requested from Velero."""
    stage.backup("secrets")
    stage.until_says("VeleroBackupCompleted")
    request = DELETE_BACKUP_REQUEST.manifest(f"{stage.namespace}-delete", "velero")
    stage.create({**request, "spec": {"backupName": stage.ref.name}}, DELETE_BACKUP_REQUEST)
    stage.until_gone()


@scenario("velero")
def backup_expires(stage: EngineStage) -> None:
    """A Backup that Velero deletes, with its data, at the end of its time to live."""
    stage.backup("secrets", ttl="15s")
    stage.until_says("VeleroBackupCompleted")
    stage.until_gone()


@scenario("velero")
def backup_object_is_deleted(stage: EngineStage) -> None:
    """A Backup whose object alone is deleted: Velero creates it again from the object storage."""
    stage.backup("secrets")
    stage.until_says("VeleroBackupCompleted")
    stage.delete()
    stage.until_gone()
    stage.until(lambda: stage.find(stage.ref) is not None, "the Backup is there again")


@scenario("velero")
def restore_completes(stage: EngineStage) -> None:
    """A Restore of a Secret that was deleted since the Backup."""
    stage.backup("secrets")
    stage.until_says("VeleroBackupCompleted")
    secret = ObjectRef(SECRET, stage.namespace, "shop")
    stage.delete(secret)
    stage.run("restore.velero", backupName=stage.ref.name, patch={"includedNamespaces": [stage.namespace]})
    stage.until_says("VeleroRestoreCompleted")
    assert stage.find(secret) is not None


@scenario("velero")
def restore_is_deleted(stage: EngineStage) -> None:
    """A Restore that is deleted: Velero takes its logs out of the object storage, and its finalizer off."""
    stage.backup("secrets")
    stage.until_says("VeleroBackupCompleted")
    stage.run("restore.velero", backupName=stage.ref.name, patch={"includedNamespaces": [stage.namespace]})
    stage.until_says("VeleroRestoreCompleted")
    stage.delete()
    stage.until_gone()


@scenario("velero")
def restore_of_a_missing_backup(stage: EngineStage) -> None:
    """A Restore of a Backup that is not there."""
    stage.run("restore.velero", backupName="nothing")
    stage.until_says("VeleroRestoreFailedValidation")

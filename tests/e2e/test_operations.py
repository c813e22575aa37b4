"""Operations from request to end, against every simulated engine, in process and over HTTP (OPS-1 to OPS-12)."""

import copy
import gzip
import json
from base64 import b64decode, b64encode
from datetime import datetime

import attrs
import pytest

from kubelab.downstream import DownstreamOutcome, Ending, WorkflowBehaviour, WorkflowStep
from kubelab.downstream.crds import downstream_crds
from kubelab.flux.crds import flux_crds
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import JOB, NAMESPACE, SECRET, SERVICE_ACCOUNT, VELERO_BACKUP
from purekube.ports import WatchEvent
from tests.support.e2e_world import BROKEN, INSTANCE, LATER, NS, OPERATOR, RELEASE, install
from tests.support.operation_requests import (
    APPROVAL_SECRET,
    AT_WORK,
    ENGINES_QUICK,
    Operating,
    operations_story,
    rules,
)
from tests.support.resumed_workflows import resume_patch
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import ALLOWED_TYPES
from vworkspace_core.operations.settings import RUNNER


def _lax(crd: Manifest) -> Manifest:
    """As an older release of ours might have left it: it lets every type in."""
    found = copy.deepcopy(dict(crd))
    if found["metadata"]["name"] == OPERATION.crd_name:
        spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        del spec["properties"]["type"]["enum"]
    return found


_LAX_CRDS = tuple(_lax(crd) for crd in crd_manifests())


@pytest.mark.slow
@operations_story(samples=True)
async def test_one_operation_of_every_template_comes_to_its_end_OPS_2(ops: Operating) -> None:
    await ops.prepare()
    done = {}

    async def run(of: str, **parameters: str) -> dict[str, object]:
        name = of.replace(".", "-").lower()
        approvals = (
            {"approvals": {"required": True, "claim": ops.claim(name, parameters)}} if of == "restore.velero" else {}
        )
        ref = ops.submit(of, name, parameters, **approvals)
        ended = await ops.reaches(ref, "Succeeded")
        done[of] = [
            condition["reason"] for condition in ended["status"]["conditions"] if condition["type"] == "Succeeded"
        ]
        return ops.outputs(ref)

    backup = await run("backup.velero")
    await run("restore.velero", backupName=str(backup["backupName"]))
    upgraded = await run("upgrade.helm")
    await run("migration.helmHookJob")
    await run("migration.workflow")
    await run("runCommand.job")
    await run("runbook.workflow")
    await run("backup.volsync")
    await run("restore.volsync")
    snapshot = await run("backup.snapshot")
    await run("restore.snapshot", snapshotName=str(snapshot["volumeSnapshotName"]))

    assert done == {
        "backup.velero": ["VeleroBackupCompleted"],
        "restore.velero": ["VeleroRestoreCompleted"],
        "upgrade.helm": ["HelmReleaseReady"],
        "migration.helmHookJob": ["JobComplete"],
        "migration.workflow": ["WorkflowSucceeded"],
        "runCommand.job": ["JobComplete"],
        "runbook.workflow": ["WorkflowSucceeded"],
        "backup.volsync": ["VolSyncCompleted"],
        "restore.volsync": ["VolSyncCompleted"],
        "backup.snapshot": ["VolumeSnapshotReady"],
        "restore.snapshot": ["ClaimBound"],
    }
    assert backup["itemsBackedUp"] == backup["totalItems"]
    assert (upgraded["fromVersion"], upgraded["toVersion"]) == ("6.6.0", "6.8.0")
    assert ops.world.running() == ["6.8.0"]


@pytest.mark.slow
@operations_story(rules(DownstreamOutcome(Ending.STALL), name="first-*"))
async def test_conflicting_operations_run_one_after_the_other_in_the_order_of_creation_OPS_5(ops: Operating) -> None:
    await ops.prepare()
    kept = ops.submit("backup.velero", "kept")
    await ops.reaches(kept, "Succeeded")
    first = ops.submit("backup.velero", "first")
    await ops.reaches(first, "Running")
    ops.submit("restore.velero", "claims", {"backupName": "x"})  # is not in order: holds nobody up
    names = ("second", "third", "fourth")
    backup = {"backupName": ops.engine_ref(kept).name}
    for name in names:
        ops.submit("restore.velero", name, backup, approvals={"required": True, "claim": ops.claim(name, backup)})
    refs = [attrs.evolve(first, name=name) for name in names]
    for ref in refs:
        told = await ops.says(ref, "Blocked", "True/ConflictingOperation")
        assert "waits for Operation" in told

    world = ops.world
    ops.engines_are(ENGINES_QUICK)
    for ref in (first, *refs):
        await ops.reaches(ref, "Succeeded")

    order = sorted(names, key=lambda name: created(world.get(attrs.evolve(first, name=name))))
    assert ops.starts() == ["kept", "first", *order]
    assert ops.running_together() == set()


def created(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"]["creationTimestamp"], manifest["metadata"]["uid"]


@pytest.mark.slow
@operations_story()
async def test_an_approval_is_waited_for_and_its_secret_counts_at_once_OPS_4(ops: Operating) -> None:
    await ops.prepare()
    backup = ops.submit("backup.velero", "kept")
    await ops.reaches(backup, "Succeeded")
    ops.approve_with(None)
    restore = ops.submit("restore.velero", "back", {"backupName": ops.engine_ref(backup).name})
    await ops.says(restore, "Blocked", "True/MissingSecret")
    ops.approve_with(APPROVAL_SECRET)
    await ops.says(restore, "Blocked", "True/AwaitingApproval")

    ops.approve_with(None)
    claim = ops.claim("back", {"backupName": ops.engine_ref(backup).name})
    ops.world.edit(restore, {"spec": {"approvals": {"required": True, "claim": claim}}})
    await ops.says(restore, "Blocked", "True/MissingSecret")
    ops.approve_with(b"another one")
    told = await ops.says(restore, "Blocked", "True/AwaitingApproval")
    assert claim.rpartition(".")[2] not in told
    assert ops.made(restore) == []
    ops.approve_with(APPROVAL_SECRET)

    await ops.reaches(restore, "Succeeded")
    assert len(ops.made(restore)) == 1


@pytest.mark.slow
@operations_story(samples=True)
async def test_an_approval_starts_one_run_and_no_other(ops: Operating) -> None:
    """It stands readable in the Operation: whoever may write Operations would use it again, for other ends too."""
    await ops.prepare()
    claim = ops.claim("run", of="runCommand.job")
    approvals = {"required": True, "claim": claim}
    first = ops.submit("runCommand.job", "run", approvals=approvals)
    await ops.reaches(first, "Succeeded")
    ops.world.delete_object(first)
    await ops.gone(first)

    again = ops.submit("runCommand.job", "run", approvals=approvals)
    assert "has been used before" in await ops.says(again, "Blocked", "True/AwaitingApproval")
    await ops.world.lever.restart()
    other = ops.submit("runCommand.job", "other", approvals=approvals)
    await ops.says(other, "Blocked", "True/AwaitingApproval")
    assert "has been used before" in await ops.says(again, "Blocked", "True/AwaitingApproval")
    assert ops.made(again) == []

    for change in (
        {"approvals": {"required": False}},
        {"approvals": None},
        {"parameters": {"image": "registry.example/evil:1"}},
    ):
        with pytest.raises(Invalid):
            ops.world.edit(again, {"spec": change})
    ops.world.edit(again, {"spec": {"approvals": {"claim": ops.claim("run", of="runCommand.job")}}})
    await ops.reaches(again, "Succeeded")


@pytest.mark.slow
@operations_story(required_bindings=frozenset({"uid"}))
async def test_a_binding_that_the_cluster_requires_is_required_OPS_4(ops: Operating) -> None:
    await ops.prepare()
    job = ops.submit(
        "runCommand.job", "run", approvals={"required": True, "claim": ops.claim("run", of="runCommand.job")}
    )
    await ops.says(job, "Blocked", "True/AwaitingApproval")

    bound = ops.claim("run", of="runCommand.job", uid=ops.world.get(job)["metadata"]["uid"])
    ops.world.edit(job, {"spec": {"approvals": {"claim": bound}}})

    await ops.reaches(job, "Succeeded")


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_a_cancelled_run_is_stopped_first_and_one_that_waits_creates_nothing_OPS_11(ops: Operating) -> None:
    await ops.prepare()
    running = ops.submit("migration.workflow", "running")
    await ops.says(running, "Running", "True/WorkflowInProgress")
    waiting = ops.submit("migration.workflow", "waiting")
    await ops.says(waiting, "Blocked", "True/ConflictingOperation")
    workflow = ops.engine_ref(running)

    ops.cancel(waiting)
    await ops.reaches(waiting, "Cancelled")
    ops.cancel(running)
    ended = await ops.reaches(running, "Cancelled")

    assert ops.world.find(workflow) is None
    assert ops.condition(running, "Cancelled") == "True/UserCancelled"
    assert ended["status"]["finishedAt"] >= ended["status"]["startedAt"]
    assert ops.made(waiting) == []


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_a_deadline_fires_across_a_restart_and_stops_the_engine_OPS_12(ops: Operating) -> None:
    await ops.prepare()
    job = ops.submit("runCommand.job", "slow", timeoutSeconds=2)
    await ops.says(job, "Running", "True/JobPodActive")
    engine = ops.engine_ref(job)
    await ops.world.lever.restart()

    ended = await ops.reaches(job, "Failed")

    assert ops.condition(job, "Failed") == "True/Timeout"
    passed = moment(ended["status"]["finishedAt"]) - moment(ended["status"]["startedAt"])
    assert passed.total_seconds() >= 2  # as soon as the machine lets it; the decision is exact in tests/unit/operations
    await ops.world.until(lambda: ops.world.find(engine) is None, "the Job stopped")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.slow
@operations_story(rules(DownstreamOutcome(Ending.PARTIAL, items=10, errors=3, warnings=1)))
async def test_a_backup_in_part_is_a_degraded_success_with_its_counts_OPS_7(ops: Operating) -> None:
    await ops.prepare()

    backup = ops.submit("backup.velero", "partial")

    await ops.reaches(backup, "Succeeded")
    assert ops.condition(backup, "Degraded") == "True/PartialFailure"
    outputs = ops.outputs(backup)
    assert (outputs["errors"], outputs["warnings"], outputs["totalItems"]) == (3, 1, 10)


@pytest.mark.slow
@operations_story(rules(AT_WORK, name="running-*"))
async def test_deleting_a_running_one_stops_it_and_a_finished_backup_stays_OPS_7_OPS_11(ops: Operating) -> None:
    await ops.prepare()
    finished, running = ops.submit("backup.velero", "finished"), ops.submit("backup.velero", "running")
    await ops.reaches(finished, "Succeeded")
    await ops.says(running, "Running", "True/VeleroBackupInProgress")
    kept, stopped = ops.engine_ref(finished), ops.engine_ref(running)

    for ref in (finished, running):
        ops.world.delete_object(ref)
        await ops.gone(ref)

    assert ops.world.get(kept)["status"]["phase"] == "Completed"
    assert ops.world.find(stopped) is None


@operations_story(rules(AT_WORK))
async def test_a_running_one_that_is_deleted_with_cascade_orphan_runs_on_OPS_11(ops: Operating) -> None:
    """The garbage collector of this server removes the finalizer that asks for it before the operator has its turn. A
    backup in another namespace has no owner reference that would show it afterwards either.
    """
    await ops.prepare()
    backup, run = ops.submit("backup.velero", "backup"), ops.submit("runCommand.job", "run")
    await ops.says(backup, "Running", "True/VeleroBackupInProgress")
    await ops.says(run, "Running", "True/JobPodActive")
    made = [ops.engine_ref(ref) for ref in (backup, run)]
    before = [ops.world.get(ref)["metadata"]["uid"] for ref in made]

    for ref in (backup, run):
        ops.world.orphan_object(ref)
        await ops.gone(ref)
    await ops.world.clock.sleep(1)

    left = [ops.world.get(ref)["metadata"] for ref in made]
    assert [meta["uid"] for meta in left] == before
    assert all("deletionTimestamp" not in meta and not meta.get("ownerReferences") for meta in left)


@operations_story(rules(AT_WORK))
async def test_a_job_whose_operation_is_orphaned_while_no_operator_runs_goes_on_OPS_11(ops: Operating) -> None:
    """Nothing but the owner reference that the garbage collector took from the Job shows it to the next operator."""
    await ops.prepare()
    run = ops.submit("runCommand.job", "run")
    await ops.says(run, "Running", "True/JobPodActive")
    job = ops.engine_ref(run)

    ops.world.orphan_object(run)
    await ops.world.lever.restart()
    await ops.gone(run)
    await ops.world.clock.sleep(1)

    left = ops.world.get(job)["metadata"]
    assert "deletionTimestamp" not in left
    assert not left.get("ownerReferences")


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_what_we_began_is_finalized_whatever_has_lost_its_labels_RES_5(ops: Operating) -> None:
    await ops.prepare()
    run = ops.submit("runCommand.job", "run")
    await ops.says(run, "Running", "True/JobPodActive")
    job = ops.engine_ref(run)
    ops.world.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"labels": {"managed-by": None}}})
    ops.world.edit(run, {"metadata": {"labels": None}})

    ops.world.delete_object(run)

    await ops.gone(run)
    await ops.gone(job)


@pytest.mark.slow
@operations_story(rules(AT_WORK), samples=True)
async def test_a_restart_between_create_and_status_neither_doubles_nor_loses_the_run_OPS_1(ops: Operating) -> None:
    await ops.prepare()
    lever = ops.world.lever
    lever.hang_after_create = JOB
    run = ops.submit("runCommand.job", "run")
    await ops.world.until(lambda: lever.hung, "the create whose answer is lost")
    assert "uid" not in ops.world.get(run)["status"]["engineRef"]

    await lever.restart()

    await ops.says(run, "Running", "True/JobPodActive")
    assert ops.world.get(run)["status"]["engineRef"]["uid"] == ops.world.get(ops.engine_ref(run))["metadata"]["uid"]
    assert len(ops.made(run)) == 1


@pytest.mark.slow
@operations_story(crds=(*crd_manifests(), *flux_crds()))
async def test_an_engine_that_is_installed_later_is_noticed_OPS_3(ops: Operating) -> None:
    await ops.prepare()
    backup = ops.submit("backup.velero", "early")
    told = await ops.says(backup, "Blocked", "True/DependencyMissing")
    assert VELERO_BACKUP.crd_name in told

    install(ops.world.hands, downstream_crds(["velero"]))

    await ops.reaches(backup, "Succeeded")


@pytest.mark.slow
@operations_story()
async def test_everything_a_request_can_lack_is_named_and_waited_for_OPS_3(ops: Operating) -> None:
    await ops.prepare(ready=False)
    run = ops.submit("runCommand.job", "early")
    await ops.says(run, "Accepted", "False/TargetNotFound")
    world = ops.world
    world.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"annotations": {ALLOWED_TYPES: "Backup"}}})

    await world.ready()
    await ops.says(run, "Accepted", "False/TemplateNotAllowed")
    world.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"annotations": {ALLOWED_TYPES: None}}})
    await ops.says(run, "Accepted", "False/CapabilityMissing")
    world.edit(INSTANCE, {"spec": {"chart": {"version": BROKEN}}})
    await world.until(lambda: world.conditions().get("Ready", "").startswith("False"), "the target not Ready")
    world.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/runcommand": "job"}}})
    await ops.says(run, "Blocked", "True/TargetNotReady")
    assert ops.made(run) == []
    world.edit(INSTANCE, {"spec": {"chart": {"version": LATER}}})

    await ops.reaches(run, "Succeeded")
    assert ops.condition(run, "Accepted") == "True/TemplateValidated"
    assert ops.condition(run, "Blocked") == "False/Unblocked"


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_an_engine_object_that_somebody_removes_is_a_failure_OPS_8(ops: Operating) -> None:
    await ops.prepare()
    run = ops.submit("runCommand.job", "run")
    await ops.says(run, "Running", "True/JobPodActive")

    ops.world.delete_object(ops.engine_ref(run))

    await ops.reaches(run, "Failed")
    assert ops.condition(run, "Failed") == "True/ExternalDeletion"


@pytest.mark.slow
@operations_story(rules(AT_WORK, name="again-*"))
async def test_a_new_operation_of_an_old_name_has_a_run_of_its_own_OPS_1(ops: Operating) -> None:
    await ops.prepare()
    old = ops.submit("backup.velero", "again")
    await ops.says(old, "Running", "True/VeleroBackupInProgress")
    before = ops.engine_ref(old)
    ops.world.delete_object(old)
    await ops.gone(old)

    new = ops.submit("backup.velero", "again")
    await ops.says(new, "Running", "True/VeleroBackupQueued")  # Velero still does what it cannot be told to stop

    assert ops.engine_ref(new) != before
    assert ops.world.find(before) is None
    assert len(ops.made(new)) == 1


@pytest.mark.slow
@operations_story(rules(DownstreamOutcome(steps=(WorkflowStep("ask", suspend=True),))))
async def test_a_suspended_workflow_says_that_it_waits_for_somebody_OPS_8(ops: Operating) -> None:
    await ops.prepare()
    book = ops.submit("runbook.workflow", "book")
    await ops.says(book, "Blocked", "True/AwaitingResume")
    assert ops.phase(book) == "Running"

    workflow = ops.engine_ref(book)
    ops.world.edit(workflow, resume_patch(ops.world.get(workflow)))

    await ops.reaches(book, "Succeeded")
    assert ops.condition(book, "Blocked") == "False/Unblocked"


@pytest.mark.slow
@operations_story(takes_hours=True)
async def test_what_is_removed_after_the_end_changes_nothing_OPS_1(ops: Operating) -> None:
    await ops.prepare()
    since = len(downstream_writes(ops))
    run = ops.submit("runCommand.job", "run")
    before = await ops.reaches(run, "Succeeded")
    job = ops.engine_ref(run)
    await ops.world.clock.sleep(60)
    written = downstream_writes(ops)[since:]
    assert len(written) <= 8, written

    ops.world.delete_object(job)  # as the Job controller does when its time to live is over
    await ops.world.clock.sleep(1200)

    assert ops.world.find(job) is None
    assert ops.world.get(run)["status"] == before["status"]
    assert len(ops.made(run)) == 1
    assert downstream_writes(ops)[since:] == written, "nothing is written in the steady state"


def downstream_writes(ops: Operating) -> list[str]:
    """What the operator wrote, but for Events and the Cluster object's status."""
    entries = ops.world.writes()
    return [f"{one.method} {one.path}" for one in entries if "/events" not in one.path and "/clusters" not in one.path]


@pytest.mark.slow
@operations_story(crds=(*_LAX_CRDS, *flux_crds(), *downstream_crds()), samples=True)
async def test_an_operation_that_cannot_be_read_is_told_so_and_can_be_deleted_REC_13(ops: Operating) -> None:
    await ops.prepare()
    manifest = ops.manifest("runCommand.job", "odd")
    ops.world.create_object({**manifest, "spec": {**manifest["spec"], "type": "Miracle"}}, OPERATION)
    odd = ObjectRef(OPERATION, NS, "odd")

    told = await ops.says(odd, "Accepted", "False/ValidationFailed")

    assert "spec.type" in told
    ops.world.delete_object(odd)
    await ops.gone(odd)
    for name in ("a/b", "..", "x?y=z", "%2e%2e"):  # names that no object can have
        target = {**manifest["spec"]["targetRef"], "name": name}
        ops.world.create_object({**manifest, "spec": {**manifest["spec"], "targetRef": target}}, OPERATION)
        await ops.says(odd, "Accepted", "False/TargetNotFound")
        ops.world.delete_object(odd)
        await ops.gone(odd)
    await ops.reaches(ops.submit("runCommand.job", "good"), "Succeeded")


@pytest.mark.slow
@operations_story(takes_hours=True)
async def test_a_backup_with_a_schedule_runs_on_and_lets_others_in_between_its_syncs_OPS_10(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    backup = ops.submit("backup.volsync", "regular", {"schedule": "*/10 * * * *"})
    await ops.says(backup, "Running", "True/VolSyncWaitingForSchedule")
    restore = ops.submit("restore.volsync", "back")
    await ops.reaches(restore, "Succeeded")

    await world.clock.sleep(7200)

    assert ops.phase(backup) == "Running", "it has no end of its own, and no deadline"
    assert ops.condition(backup, "Succeeded").startswith("True/")
    synced = [event.object["status"].get("lastSyncTime") for event in syncs(ops, backup)]
    assert len(set(synced) - {None}) >= 12
    source = ops.engine_ref(backup)
    ops.cancel(backup)
    await ops.reaches(backup, "Cancelled")
    assert world.find(source) is None
    assert len(ops.made(backup)) == 1


def syncs(ops: Operating, ref: ObjectRef) -> list[WatchEvent]:
    """Every version of its ReplicationSource that says something."""
    return [event for event in ops.world.history.events(ops.engine_ref(ref).kind) if "status" in event.object]


@pytest.mark.slow
@operations_story(takes_hours=True)
async def test_a_queue_is_read_little_and_told_truly_OPS_5(ops: Operating) -> None:
    await ops.prepare()
    world, count = ops.world, 6
    ops.engines_are(attrs.evolve(ENGINES_QUICK, workflow=WorkflowBehaviour(step_seconds=10.0)))
    since = len(world.cluster.audit)
    refs = [ops.submit("migration.workflow", f"m-{number}") for number in range(count)]

    for ended in range(count):
        await world.clock.sleep(7)  # in the middle of each one's ten seconds
        phases = [ops.phase(ref) for ref in refs]
        assert (phases.count("Succeeded"), phases.count("Running")) == (ended, 1)
        (running,) = (ref.name for ref in refs if ops.phase(ref) == "Running")
        assert {waits_for(ops, ref) for ref in refs if ops.phase(ref) == "Pending"} <= {running}
        await world.clock.sleep(3)

    reads = [one for one in list(world.cluster.audit)[since:] if one.user == OPERATOR and one.verb in _READS]
    assert len(reads) <= 4 * count * (count + 3), "each that waits looks once for each that begins"


_READS = ("get", "list")


def waits_for(ops: Operating, ref: ObjectRef) -> str:
    """The Operation that it says it waits for."""
    assert ops.condition(ref, "Blocked") == "True/ConflictingOperation"
    conditions = ops.world.get(ref)["status"]["conditions"]
    message = next(condition["message"] for condition in conditions if condition["type"] == "Blocked")
    return str(message.removeprefix("waits for Operation ").partition(" ")[0])


@pytest.mark.slow
@operations_story(takes_hours=True)
async def test_pods_that_cannot_start_are_told_by_their_cause_and_start_once_it_is_gone(ops: Operating) -> None:
    """As it was installed: nobody had made the service account, and an hour later there was a Timeout."""
    await ops.prepare()
    account = ObjectRef(SERVICE_ACCOUNT, NS, RUNNER)
    ops.world.delete_object(account)
    job = ops.ask("runCommand.job", "run", timeoutSeconds=600)
    ref = ObjectRef(OPERATION, NS, "run")

    told = await ops.says(ref, "Running", "True/JobServiceAccountMissing")
    assert f'serviceaccount "{RUNNER}" not found' in told
    assert f"vworkspace-operator manifests --rbac-only --namespace {NS}" in told
    await ops.world.until(lambda: job.result is not None, "the end of its time", seconds=900)

    assert job.result is not None
    assert job.result["outcome"] == "failed"
    assert job.result["error"].startswith("Timeout: ")
    assert "JobServiceAccountMissing" in job.result["error"]

    second = ops.submit("runCommand.job", "again")
    await ops.says(second, "Running", "True/JobServiceAccountMissing")
    ops.world.have(SERVICE_ACCOUNT.manifest(RUNNER, NS), SERVICE_ACCOUNT)
    await ops.reaches(second, "Succeeded")


@pytest.mark.slow
@operations_story(
    rules(DownstreamOutcome(Ending.STALL, "back-off pulling image", waiting="ImagePullBackOff"), kind="Job")
)
async def test_an_image_that_cannot_be_pulled_is_told(ops: Operating) -> None:
    await ops.prepare()
    ref = ops.submit("runCommand.job", "run", timeoutSeconds=90)

    assert "back-off pulling image" in await ops.says(ref, "Running", "True/JobImagePullFailed")
    await ops.reaches(ref, "Failed", seconds=200)
    assert "JobImagePullFailed" in await ops.says(ref, "Failed", "True/Timeout")


@operations_story(samples=True)
async def test_a_release_that_a_tenant_wrote_runs_nothing(ops: Operating) -> None:
    """Secrets and Operations are the tenant's to write; a privileged pod by the operator's hand is not."""
    await ops.prepare()
    release = ops.world.get(RELEASE)
    recorded = get_path(release, "status", "history", 0)
    secret = ObjectRef(SECRET, NS, f"sh.helm.release.v1.{recorded['name']}.v{recorded['version']}")
    stored = json.loads(gzip.decompress(b64decode(b64decode(ops.world.get(secret)["data"]["release"]))))
    evil = json.loads(stored["hooks"][0]["manifest"])
    evil["spec"]["template"]["spec"] |= {"hostPID": True, "nodeName": "control-plane-1"}
    stored["hooks"][0]["manifest"] = json.dumps(evil)
    data = b64encode(b64encode(gzip.compress(json.dumps(stored).encode()))).decode()
    ops.world.edit(secret, {"data": {"release": data}})

    ref = ops.submit("migration.helmHookJob", "migrate")

    assert "checksum differs" in await ops.says(ref, "Accepted", "False/HookNotFound")
    assert ops.made(ref) == []

"""The life of an Operation on the in-memory API server, story by story (OPS-1, OPS-5, OPS-7, OPS-8, OPS-11, OPS-12)."""

from datetime import timedelta
from typing import Any

import pytest

from kubelab.downstream.volsync_controller import next_run
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, JOB, NAMESPACE, VELERO_BACKUP, VOLUME_SNAPSHOT
from purekube.ports import KubeRequest, Send
from tests.support.operation_simulation import COMPLETE, Cluster, Died, moment
from tests.support.operation_worlds import GOOD, NS, SIMULATED, claim_for, target_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.operation import Phase
from vworkspace_core.operations.engines import ENGINES

DONE: dict[str, dict[str, Any]] = {
    "Backup": {"phase": "Completed", "progress": {"itemsBackedUp": 7, "totalItems": 7}},
    "Restore": {"phase": "Completed"},
    "Workflow": {"phase": "Succeeded"},
    "Job": {**COMPLETE, "succeeded": 1},
    "VolumeSnapshot": {"readyToUse": True},
    "PersistentVolumeClaim": {"phase": "Bound"},
}
CANCEL = {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}}


def finish(world: Cluster, ref: ObjectRef) -> None:
    """The downstream controller succeeds."""
    found, live = world.engine_object(ref)
    if found.kind.kind.startswith("Replication"):
        status = {"lastManualSync": live["spec"]["trigger"]["manual"], "latestMoverStatus": {"result": "Successful"}}
    else:
        status = DONE[found.kind.kind]
    if found.kind == VOLUME_SNAPSHOT:
        status = {**status, "boundVolumeSnapshotContentName": world.bind(found, live)}
    world.write_status(found, status)


def started(of: str, **more: Any) -> tuple[Cluster, ObjectRef]:
    world = Cluster(of)
    ref = world.submit(of, "op-1", **more)
    world.settle(ref)
    return world, ref


WITH_OBJECT = [of for of in SIMULATED if of not in ("upgrade.helm", "migration.helmHookJob")]


@pytest.mark.parametrize("of", WITH_OBJECT)
def test_every_engine_goes_from_creation_to_success(of: str) -> None:
    world, ref = started(of)
    found, live = world.engine_object(ref)
    known = world.operation(ref).status.engine_ref
    assert known is not None
    assert (known.name, known.uid) == (found.name, metadata(live)["uid"])
    assert "finalizers" not in metadata(live) or not any(
        "vworkspace" in finalizer for finalizer in metadata(live)["finalizers"]
    )

    finish(world, ref)
    world.settle(ref)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert world.condition(ref, "Running") == ("False", "EngineFinished")
    assert world.condition(ref, "Succeeded") is not None
    assert world.operation(ref).status.outputs


def test_a_settled_run_writes_nothing_REC_6() -> None:
    world, ref = started("backup.velero")
    world.server.audit.clear()

    for _ in range(5):
        world.pass_time(60)
        world.reconcile(ref)

    assert world.server.audit.writes(user=world.api.caller.user) == []


def test_the_intent_stands_before_the_object_does_and_the_uid_after_OPS_1() -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1")

    world.reconcile(ref)
    intent = world.operation(ref).status.engine_ref
    assert intent is not None
    assert intent.uid == ""
    assert world.engine_objects() == ()

    world.reconcile(ref)
    known = world.operation(ref).status.engine_ref
    assert known is not None
    assert known.uid == metadata(world.engine_object(ref)[1])["uid"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fatal", range(6))
def test_dying_at_any_write_neither_doubles_nor_loses_the_object_OPS_1(fatal: int, after: bool) -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1")
    world.api.fatal, world.api.after = fatal, after
    try:
        world.settle(ref)
    except Died:
        pass
    else:
        assert fatal >= 5, "the run takes five writes"

    world.settle(ref)

    assert world.phase(ref) is Phase.RUNNING
    assert {uid: len(made) for uid, made in world.created.items()} == {world.operation(ref).metadata.uid: 1}


def test_a_job_that_ended_and_was_removed_while_the_operator_was_down_is_not_run_again_OPS_1() -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1")
    world.reconcile(ref)
    world.api.fatal, world.api.after = 0, True
    with pytest.raises(Died):
        world.reconcile(ref)  # created, and dead before its uid is recorded
    job, _ = world.engine_object(ref)
    finish(world, ref)
    world.remove(job)

    world.settle(ref)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert world.get(job) is None
    assert [len(made) for made in world.created.values()] == [1]


def test_a_recreated_operation_never_touches_the_older_run_OPS_1() -> None:
    world, ref = started("backup.velero")
    finish(world, ref)
    world.settle(ref)
    old, before = world.engine_object(ref)
    world.remove(ref)
    world.settle(ref)
    assert world.get(ref) is None

    world.submit("backup.velero", "op-1")
    world.settle(ref)

    new, _ = world.engine_object(ref)
    assert new.name != old.name
    assert world.get(old) == before


def test_removed_by_somebody_else_while_running_OPS_8() -> None:
    world, ref = started("runCommand.job")
    world.remove(world.engine_object(ref)[0])

    world.settle(ref)

    assert world.condition(ref, "Failed") == ("True", "ExternalDeletion")
    assert [len(made) for made in world.created.values()] == [1]


def test_an_end_is_final_whatever_happens_downstream_OPS_1() -> None:
    world, ref = started("backup.velero")
    finish(world, ref)
    world.settle(ref)
    before = world.operation(ref).status
    backup, _ = world.engine_object(ref)

    world.write_status(backup, {"phase": "Failed"})
    world.settle(ref)
    world.remove(backup)
    world.settle(ref)
    world.edit(ref, CANCEL)
    world.settle(ref)
    world.pass_time(10**6)
    world.settle(ref)

    assert world.operation(ref).status == before


@pytest.mark.parametrize("of", ["runCommand.job", "backup.velero", "backup.snapshot", "restore.volsync"])
def test_a_deadline_fires_at_its_time_and_not_before_OPS_12(of: str) -> None:
    world, ref = started(of, timeoutSeconds=90)
    outcome = world.reconcile(ref)
    assert outcome is not None
    # Pods that do not start are looked at before: nothing that is watched tells of them (D7).
    assert outcome.decision.requeue.after == (15 if of == "runCommand.job" else 90)

    world.pass_time(89.999)
    world.settle(ref)
    assert world.phase(ref) is Phase.RUNNING

    world.pass_time(0.001)
    world.settle(ref)
    assert world.condition(ref, "Failed") == ("True", "Timeout")
    assert world.engine_objects() == (), "the engine object is stopped"
    status = world.operation(ref).status
    assert (moment(status.finished_at) - moment(status.started_at)).total_seconds() == 90


def test_a_deadline_fires_across_a_restart_before_the_object_was_recorded_OPS_12() -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1", timeoutSeconds=60)
    world.reconcile(ref)
    world.api.fatal, world.api.after = 0, True
    with pytest.raises(Died):
        world.reconcile(ref)
    world.pass_time(3600)

    world.settle(ref)

    assert world.condition(ref, "Failed") == ("True", "Timeout")
    assert world.engine_objects() == ()


def test_a_backup_that_finished_while_nobody_looked_is_a_success_after_its_deadline() -> None:
    world, ref = started("backup.velero", timeoutSeconds=60)
    finish(world, ref)
    world.pass_time(3600)

    world.settle(ref)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert len(world.engine_objects()) == 1


def test_a_backup_that_finishes_just_when_it_times_out_is_looked_at_again_first() -> None:
    world, ref = started("backup.velero", timeoutSeconds=60)
    view = world.view(ref)
    finish(world, ref)
    world.pass_time(60)

    world.reconcile(ref, view)
    world.settle(ref)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert len(world.engine_objects()) == 1


@pytest.mark.parametrize("of", WITH_OBJECT)
def test_cancelling_stops_the_engine_first_OPS_11(of: str) -> None:
    world, ref = started(of)
    job, _ = world.engine_object(ref)
    world.edit(job, {"metadata": {"finalizers": ["example.test/slow"]}})
    world.edit(ref, CANCEL)

    world.settle(ref)
    assert world.phase(ref) is Phase.RUNNING, "it waits for the object to go"
    world.edit(job, {"metadata": {"finalizers": None}})
    world.settle(ref)

    assert world.condition(ref, "Cancelled") == ("True", "UserCancelled")
    assert world.get(job) is None


def test_cancelled_between_intent_and_creation_nothing_is_created_OPS_11() -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1")
    world.reconcile(ref)
    world.edit(ref, CANCEL)

    world.settle(ref)

    assert world.phase(ref) is Phase.CANCELLED
    assert world.created == {}


def test_velero_cannot_be_told_to_stop_and_the_status_says_so_OPS_7() -> None:
    world, ref = started("backup.velero")
    world.edit(ref, CANCEL)

    world.settle(ref)

    told = [condition.message for condition in world.operation(ref).status.conditions if condition.type == "Cancelled"]
    assert "may finish" in told[0]


@pytest.mark.parametrize("of", ["backup.velero", "backup.snapshot", "restore.snapshot", "restore.volsync"])
def test_what_holds_data_survives_the_deletion_of_a_finished_operation_OPS_6_OPS_7(of: str) -> None:
    world, ref = started(of)
    finish(world, ref)
    world.settle(ref)
    world.remove(ref)

    world.settle(ref)

    assert world.get(ref) is None
    assert len(world.engine_objects()) == 1


@pytest.mark.parametrize("of", WITH_OBJECT)
def test_a_running_one_is_stopped_before_its_operation_goes_OPS_11(of: str) -> None:
    world, ref = started(of)
    world.remove(ref)

    world.settle(ref)
    for found, _ in world.engine_objects():
        world.edit(found, {"metadata": {"finalizers": None}})  # what protects a claim lets go of it
    world.settle(ref)

    assert world.get(ref) is None
    assert world.engine_objects() == ()


def test_a_backup_that_had_just_finished_survives_too_OPS_7() -> None:
    world, ref = started("backup.velero")
    finish(world, ref)
    world.remove(ref)

    world.settle(ref)

    assert world.get(ref) is None
    assert len(world.engine_objects()) == 1


def test_deleted_before_the_start_it_just_goes() -> None:
    world = Cluster()
    ref = world.submit("restore.velero", "op-1", approved=False)
    world.settle(ref)
    world.remove(ref)

    world.settle(ref)

    assert world.get(ref) is None
    assert world.created == {}


def test_an_object_of_that_name_that_is_not_ours_is_left_alone_and_waited_for_OPS_1() -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1")
    world.reconcile(ref)
    intent = world.operation(ref).status.engine_ref
    assert intent is not None
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    stranger = ObjectRef(JOB, NS, intent.name)
    world.make(JOB, {"metadata": {"name": intent.name, "namespace": NS}, "spec": {"template": {"spec": pod}}})
    before = world.get(stranger)

    world.settle(ref)
    assert world.condition(ref, "Blocked") == ("True", "NameTaken")
    assert world.get(stranger) == before
    world.remove(stranger)
    world.settle(ref)

    assert world.condition(ref, "Blocked") == ("False", "Unblocked")
    assert len(world.engine_objects()) == 1


def test_a_stranger_survives_deletion_cancellation_and_the_deadline_OPS_1() -> None:
    for ending in ("delete", "cancel", "deadline"):
        world = Cluster()
        ref = world.submit("runCommand.job", "op-1", timeoutSeconds=60)
        world.reconcile(ref)
        intent = world.operation(ref).status.engine_ref
        assert intent is not None
        pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
        world.make(JOB, {"metadata": {"name": intent.name, "namespace": NS}, "spec": {"template": {"spec": pod}}})
        if ending == "delete":
            world.remove(ref)
        elif ending == "cancel":
            world.edit(ref, CANCEL)
        else:
            world.pass_time(60)

        world.settle(ref)

        assert world.get(ObjectRef(JOB, NS, intent.name)) is not None, ending


def test_a_snapshot_counts_only_when_its_content_points_back_OPS_10() -> None:
    world, ref = started("backup.snapshot", timeoutSeconds=600)
    found, live = world.engine_object(ref)
    content = f"content-{metadata(live)['uid']}"
    world.write_status(found, {"readyToUse": True, "boundVolumeSnapshotContentName": content})

    world.settle(ref)
    assert world.condition(ref, "Running") == ("True", "VolumeSnapshotNotBound")
    world.bind(found, live)
    world.settle(ref)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert world.operation(ref).status.outputs == {
        "volumeSnapshotName": found.name,
        "volumeSnapshotContentName": content,
    }


def test_a_missing_engine_is_named_and_its_arrival_is_enough_OPS_3() -> None:
    world = Cluster("backup.velero")
    definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, VELERO_BACKUP.crd_name)
    crd = world.get(definition)
    assert crd is not None
    world.remove(definition)
    ref = world.submit("backup.velero", "op-1", parameters={})
    world.settle(ref)
    assert world.condition(ref, "Blocked") == ("True", "DependencyMissing")

    world.make(CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": VELERO_BACKUP.crd_name}, "spec": crd["spec"]})
    world.settle(ref)

    assert world.phase(ref) is Phase.RUNNING
    assert world.condition(ref, "Blocked") == ("False", "Unblocked")


def test_an_approval_that_comes_later_is_enough_OPS_4() -> None:
    world = Cluster("runCommand.job")
    ref = world.submit("runCommand.job", "op-1", approvals={"required": True})
    world.settle(ref)
    assert world.condition(ref, "Blocked") == ("True", "AwaitingApproval")

    world.edit(ref, {"spec": {"approvals": {"claim": claim_for("op-1", "runCommand.job")}}})
    world.settle(ref)

    assert world.phase(ref) is Phase.RUNNING


def test_conflicting_ones_run_in_the_order_of_creation_OPS_5() -> None:
    world = Cluster("backup.velero", migration="workflow")
    refs = []
    for name, of in (("m-1", "migration.workflow"), ("b-2", "backup.velero"), ("m-3", "migration.workflow")):
        refs.append(world.submit(of, name))
        world.pass_time(1)

    for ref in reversed(refs):
        world.settle(ref)
    assert world.phase(refs[0]) is not Phase.PENDING or world.phase(refs[2]) is Phase.PENDING

    for ref in refs:
        for other in reversed(refs):
            world.settle(other)
        running = [
            operation.metadata.name for operation in world.operations() if operation.status.phase is Phase.RUNNING
        ]
        assert running == [ref.name]
        finish(world, ref)
        world.settle(ref)

    assert [world.phase(ref) for ref in refs] == [Phase.SUCCEEDED] * 3


def test_a_recurring_backup_excludes_only_while_it_syncs_OPS_5_OPS_10() -> None:
    world = Cluster("backup.volsync", restore="volsync")
    recurring = world.submit(
        "backup.volsync", "nightly", parameters={**GOOD["backup.volsync"], "schedule": "0 3 * * *"}
    )
    world.settle(recurring)
    source, _ = world.engine_object(recurring)
    line = {"type": "Synchronizing", "message": "", "lastTransitionTime": "2026-06-01T12:00:00Z"}
    syncing = {"conditions": [{**line, "status": "True", "reason": "SyncInProgress"}]}
    waiting = {"conditions": [{**line, "status": "False", "reason": "WaitingForSchedule"}]}
    world.write_status(source, {**syncing, "lastSyncStartTime": "2026-06-01T12:00:00Z"})
    world.settle(recurring)
    world.pass_time(1)
    restore = world.submit("restore.volsync", "restore")

    world.settle(restore)
    assert world.condition(restore, "Blocked") == ("True", "ConflictingOperation")
    world.write_status(source, {**waiting, "lastSyncStartTime": None, "lastSyncTime": "2026-06-01T12:01:00Z"})
    world.settle(recurring)
    world.settle(restore)

    assert world.phase(restore) is Phase.RUNNING
    assert world.phase(recurring) is Phase.RUNNING
    assert world.condition(recurring, "Succeeded") == ("True", "EngineSucceeded")
    world.pass_time(10**7)
    world.settle(recurring)
    assert world.phase(recurring) is Phase.RUNNING, "it has no deadline"


def test_an_abandoned_operation_goes_although_its_run_may_not_be_read_any_more_OPS_11() -> None:
    world, ref = started("runCommand.job")
    made, _ = world.engine_object(ref)

    async def hidden(request: KubeRequest, proceed: Send) -> Manifest:
        if request.kind == JOB:
            raise Forbidden(f'User "u" cannot {request.verb} resource "jobs" in API group "batch"')
        return await proceed(request)

    world.api = world.api.through(hidden)
    world.admin, admin = world.admin.through(hidden), world.admin
    world.remove(ref)
    with pytest.raises(Forbidden):
        world.settle(ref)
    world.edit(ref, {"metadata": {"annotations": {"vworkspace.io/abandon": "true"}}})
    world.settle(ref)

    world.admin = admin
    assert world.get(ref) is None
    assert world.get(made) is not None
    assert world.events.events[-1].note.endswith(f"{made} was not found, or may not be read")


NIGHTLY = "0 3 * * *"


def scheduled(last: str = "2026-06-01T12:00:00Z") -> tuple[Cluster, ObjectRef]:
    """A recurring backup that waits for its next sync after the one at `last`."""
    world = Cluster("backup.volsync", restore="volsync")
    recurring = world.submit("backup.volsync", "nightly", parameters={**GOOD["backup.volsync"], "schedule": NIGHTLY})
    world.settle(recurring)
    source, _ = world.engine_object(recurring)
    line = {"type": "Synchronizing", "message": "", "lastTransitionTime": "2026-06-01T12:00:00Z"}
    waiting = {"conditions": [{**line, "status": "False", "reason": "WaitingForSchedule"}]}
    world.write_status(source, {**waiting, "lastSyncTime": last})
    world.settle(recurring)
    world.pass_time(1)
    return world, recurring


def postponed(last: str = "2026-06-01T12:00:00Z") -> tuple[Cluster, ObjectRef, ObjectRef]:
    """A recurring backup whose next sync is postponed for a Restore, which waits for that."""
    world, recurring = scheduled(last)
    restore = world.submit("restore.volsync", "restore")
    world.settle(restore)
    assert world.condition(restore, "Blocked") == ("True", "ConflictingOperation")
    world.settle(recurring)
    return world, recurring, restore


def test_a_restore_behind_a_sync_that_fails_for_ever_says_how_to_go_on_OPS_5() -> None:
    """No deadline ends it: the restore would wait without a word for what broke together with the application."""
    world, recurring = scheduled()
    source, live = world.engine_object(recurring)
    line = {"type": "Synchronizing", "message": "", "lastTransitionTime": "2026-06-01T12:00:00Z"}
    syncing = {"conditions": [{**line, "status": "True", "reason": "SyncInProgress"}]}
    world.write_status(source, {**syncing, "latestMoverStatus": {"result": "Failed", "logs": "no such bucket"}})
    world.settle(recurring)
    assert world.condition(recurring, "Running") == ("True", "VolSyncMoverFailed")
    assert live["spec"]["trigger"] == {"schedule": NIGHTLY}

    restore = world.submit("restore.volsync", "restore")
    world.settle(restore)

    blocked = next(one for one in world.operation(restore).status.conditions if one.type == "Blocked")
    assert blocked.reason == "ConflictingOperation"
    told = "waits for Operation nightly (Backup, Running), whose sync has no deadline. If it fails again and again"
    assert blocked.message.startswith(told)
    assert "kubectl" in blocked.message
    assert "ops.vworkspace.io/cancel" in blocked.message


@pytest.mark.parametrize("end", ["succeeds", "is cancelled", "is deleted"])
def test_no_scheduled_sync_begins_while_a_restore_of_the_claim_runs_OPS_5_OPS_10(end: str) -> None:
    """It would save what is half restored, and push the last good backup out of the repository."""
    world, recurring, restore = postponed()
    _, live = world.engine_object(recurring)
    assert next_run(live["spec"]["trigger"]["schedule"], moment("2026-06-01T12:00:00Z")) > world.now + timedelta(300)
    assert world.condition(recurring, "Running") == ("True", "VolSyncPostponed")
    world.settle(restore)
    assert world.phase(restore) is Phase.RUNNING
    world.settle(recurring)
    assert world.engine_object(recurring)[1] == live

    if end == "succeeds":
        finish(world, restore)
    elif end == "is cancelled":
        world.edit(restore, CANCEL)
    else:
        world.remove(restore)
    world.settle(restore)
    world.settle(restore)
    world.settle(recurring)
    _, live = world.engine_object(recurring)
    assert live["spec"]["trigger"] == {"schedule": NIGHTLY}
    assert not metadata(live).get("annotations")
    assert world.condition(recurring, "Running") == ("True", "VolSyncWaitingForSchedule")


@pytest.mark.parametrize("last", ["2025-08-06T12:00:00Z", "2025-08-05T12:00:00Z", "2025-06-01T12:00:00Z"])
def test_a_sync_is_postponed_also_when_the_last_one_was_a_year_ago_OPS_10(last: str) -> None:
    """Every sync of a yearly schedule may follow one that is nearly a year old."""
    world, recurring, _ = postponed(last)
    _, live = world.engine_object(recurring)
    assert next_run(live["spec"]["trigger"]["schedule"], moment(last)) > world.now + timedelta(60)


@pytest.mark.parametrize(
    ("last", "now", "due", "days"),
    [
        # The leap day is near, and so is the anniversary of the last sync: the later one is taken.
        ("2027-03-15T12:00:00Z", "2028-01-15T12:00:00Z", "2028-03-15T12:00:00Z", 50),
        ("2027-02-20T12:00:00Z", "2028-01-15T12:00:00Z", "2028-02-20T12:00:00Z", 40),
        # The leap day has passed since the last sync.
        ("2028-02-01T12:00:00Z", "2029-01-15T12:00:00Z", "2029-02-01T12:00:00Z", 10),
        # Nothing is later than the schedule itself, which is far enough, not known, or due at once.
        ("2028-02-01T12:00:00Z", "2029-01-30T00:00:00Z", "2029-02-01T12:00:00Z", 2),
        ("2028-02-01T12:00:00Z", "2029-01-30T00:00:00Z", "2029-01-30T11:00:00Z", None),
        ("2028-02-01T12:00:00Z", "2029-03-30T00:00:00Z", None, None),
    ],
)
def test_a_sync_that_cannot_be_postponed_comes_first_OPS_5(last: str, now: str, due: str | None, days: Any) -> None:
    """It was called postponed, and began while the Restore ran."""
    world, recurring = scheduled(last)
    _, live = world.engine_object(recurring)
    live = {**live, "status": {**live["status"], **({} if due is None else {"nextSyncTime": due})}}
    patch = ENGINES["volsync"].postpone(world.operation(recurring), live, moment(now), True)

    if days is None:
        assert patch is None
    else:
        assert patch is not None
        changed = get_path(patch, "spec", "trigger", "schedule")
        first = moment(due or now) if changed is None else next_run(changed, moment(last))
        assert first >= moment(now) + timedelta(days=days)


@pytest.mark.parametrize("collected", [False, True])
def test_what_outlives_its_operation_has_its_own_schedule_again_OPS_11(collected: bool) -> None:
    """Nothing would know afterwards that the schedule was postponed: there would be one backup a year."""
    world, recurring, _ = postponed()
    source, live = world.engine_object(recurring)
    if collected:
        world.edit(source, {"metadata": {"ownerReferences": None}})
    world.edit(recurring, {"metadata": {"annotations": {"vworkspace.io/abandon": "true"}}})
    world.remove(recurring)
    world.settle(recurring)
    kept = world.get(source)
    assert world.get(recurring) is None
    assert kept is not None
    assert (kept["spec"]["trigger"], metadata(kept)["uid"]) == ({"schedule": NIGHTLY}, metadata(live)["uid"])
    assert not metadata(kept).get("annotations")


def test_a_restore_that_changes_what_exists_waits_for_the_consent_of_its_shared_namespace_OPS_7() -> None:
    world = Cluster("restore.velero")
    instance = target_manifest("restore.velero")
    world.make(APPLICATION_INSTANCE, {**instance, "metadata": {"name": "wiki", "namespace": NS}, "status": {}})
    restore = world.submit("restore.velero", "restore")
    world.settle(restore)
    assert world.condition(restore, "Accepted") == ("False", "ValidationFailed")
    assert world.engine_objects() == ()

    consent = {"metadata": {"annotations": {"ops.vworkspace.io/velero-peers": NS}}}
    world.edit(ObjectRef(NAMESPACE, None, NS), consent)
    world.settle(restore)
    assert world.phase(restore) is Phase.RUNNING


def test_a_worker_with_an_old_copy_never_creates_a_second_object_OPS_1() -> None:
    world = Cluster()
    ref = world.submit("runCommand.job", "op-1")
    world.reconcile(ref)
    old = world.view(ref)  # holds the intent, and no object
    world.settle(ref)
    finish(world, ref)
    world.settle(ref)
    world.remove(world.engine_object(ref)[0])

    world.reconcile(ref, old)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert world.engine_objects() == ()
    assert [len(made) for made in world.created.values()] == [1]


def test_a_worker_with_an_old_copy_never_deletes_a_finished_backup_OPS_7() -> None:
    world, ref = started("backup.velero", timeoutSeconds=60)
    old = world.view(ref)
    finish(world, ref)
    world.settle(ref)
    world.pass_time(3600)

    world.reconcile(ref, old)

    assert world.phase(ref) is Phase.SUCCEEDED
    assert len(world.engine_objects()) == 1

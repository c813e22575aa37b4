"""OPS-6, OPS-8, OPS-10: the object that each small engine makes, and the whole status that it reads from it."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CORE_EVENT, POD, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT
from tests.support.operation_worlds import CONTEXT, NS, OP_UID, as_created, observed, operation, started
from vworkspace_core.api.operation import LogsRef, Operation, Phase
from vworkspace_core.operations.contract import EngineContext, EngineRefusal, EngineStatus, Listing, Progress
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.identity import target_of
from vworkspace_core.operations.preconditions import Start, UnmetPrecondition, start_or_unmet

RUNNING, SUCCEEDED, FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED


def desired(of: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of what is created."""
    one, seen = operation(of, parameters=parameters), observed(of)
    target = target_of(one, seen.objects)
    assert target is not None
    engine = ENGINES[one.spec.engine]
    template = CONTEXT.templates.find(one.spec.type, one.spec.engine)
    assert template is not None
    (made,) = engine.desired(one, target, CONTEXT.for_engine(seen, template))
    return dict(made.manifest["spec"])


def judged(of: str, status: Any, beside: Mapping[ObjectRef, Any] | None = None, **more: Any) -> EngineStatus:
    """Return what the engine reads from the object of a run with this status."""
    one, made = started(of, **more)
    assert made is not None
    live = {**as_created(made), "status": status}
    return ENGINES[one.spec.engine].observe(one, {made.ref: live, **(beside or {})})


def name_in(of: str) -> str:
    _, made = started(of)
    assert made is not None
    return made.ref.name


# --- volsync ----------------------------------------------------------------------------------------------------------

NEEDED = {"source": "data", "repository": "restic"}
MANUAL = {"manual": OP_UID}
# Without a policy VolSync keeps the newest snapshot only: one more backup must not remove those of a schedule.
KEEPS_ALL = {"within": "100y"}


@pytest.mark.parametrize(
    ("of", "parameters", "spec"),
    [
        ("backup.volsync", NEEDED,
         {"sourcePVC": "data", "trigger": MANUAL,
          "restic": {"repository": "restic", "copyMethod": "Snapshot", "retain": KEEPS_ALL}}),
        ("backup.volsync", {**NEEDED, "retain": {}},
         {"sourcePVC": "data", "trigger": MANUAL,
          "restic": {"repository": "restic", "copyMethod": "Snapshot", "retain": KEEPS_ALL}}),
        ("backup.volsync", {**NEEDED, "retain": {"last": "3"}},
         {"sourcePVC": "data", "trigger": MANUAL,
          "restic": {"repository": "restic", "copyMethod": "Snapshot", "retain": {"last": "3"}}}),
        ("backup.volsync", {**NEEDED, "schedule": "@daily"},
         {"sourcePVC": "data", "trigger": {"schedule": "@daily"},
          "restic": {"repository": "restic", "copyMethod": "Snapshot"}}),
        ("backup.volsync", {**NEEDED, "copyMethod": "Clone", "schedule": "0 3 * * *", "retain": {"daily": 7}},
         {"sourcePVC": "data", "trigger": {"schedule": "0 3 * * *"},
          "restic": {"repository": "restic", "copyMethod": "Clone", "retain": {"daily": 7}}}),
        ("restore.volsync", {"destination": "data", "repository": "restic"},
         {"trigger": MANUAL, "restic": {"repository": "restic", "copyMethod": "Direct", "destinationPVC": "data"}}),
        ("restore.volsync", {"destination": "data", "repository": "restic", "copyMethod": "Snapshot"},
         {"trigger": MANUAL, "restic": {"repository": "restic", "copyMethod": "Snapshot", "destinationPVC": "data"}}),
        ("backup.snapshot", {"pvc": "data"}, {"source": {"persistentVolumeClaimName": "data"}}),
        ("backup.snapshot", {"pvc": "data", "snapshotClassName": "csi"},
         {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "csi"}),
        ("restore.snapshot", {"snapshotName": "s-1", "size": "1Gi"},
         {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
          "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s-1"}}),
        ("restore.snapshot",
         {"snapshotName": "s-1", "size": "1Gi", "storageClassName": "fast", "accessModes": ["ReadWriteMany"]},
         {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast",
          "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s-1"}}),
    ],
)  # fmt: skip
def test_the_object_has_what_the_parameters_say_and_else_the_usual_OPS_10(
    of: str, parameters: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert desired(of, parameters) == spec


def sync(status: str = "True", reason: str = "SyncInProgress", result: str = "", **more: Any) -> dict[str, Any]:
    condition = {"type": "Synchronizing", "status": status, "reason": reason, "message": "told"}
    mover = {"latestMoverStatus": {"result": result, "logs": "a log"}} if result else {}
    return {"conditions": [{"type": "Other", "status": "True"}, condition], **mover, **more}


SILENT = {"type": "Synchronizing", "status": "False", "reason": "Error"}
OURS = {"lastManualSync": OP_UID}
AGAIN = "VolSync tries again until the deadline"
RESULTS = {"lastSyncTime": "t", "lastSyncDuration": "d", "latestImage": {"name": "i", "kind": "VolumeSnapshot"}}
TOLD = {"lastSyncTime": "t", "lastSyncDuration": "d", "latestImage": "i"}
SYNCS: list[tuple[Any, Progress, str, str, dict[str, Any]]] = [
    ({**sync(result="Successful"), **OURS, **RESULTS}, SUCCEEDED, "VolSyncCompleted", "", TOLD),
    ({**sync(result="Successful"), **OURS}, SUCCEEDED, "VolSyncCompleted", "", {}),
    ({**sync(result="Successful"), **RESULTS}, RUNNING, "VolSyncSyncInProgress", "", {}),
    ({**sync(result="Failed"), **OURS}, RUNNING, "VolSyncMoverFailed", "a log", {}),
    ({**sync("False", "WaitingForManual", "Failed")}, RUNNING, "VolSyncMoverFailed", "a log", {}),
    ({"latestMoverStatus": {"result": "Failed"}}, RUNNING, "VolSyncMoverFailed", AGAIN, {}),
    (sync("False", "Error"), RUNNING, "VolSyncError", "told", {}),
    (
        {"conditions": [{"type": "Synchronizing", "status": "False", "reason": "Error"}]},
        RUNNING,
        "VolSyncError",
        AGAIN,
        {},
    ),
    (sync("False", "CleaningUp"), RUNNING, "VolSyncCleaningUp", "", {}),
    (sync("False", "WaitingForManual"), RUNNING, "VolSyncPending", "not our trigger yet", {}),
    ({"lastSyncStartTime": "t"}, RUNNING, "VolSyncSyncInProgress", "", {}),
    ({}, RUNNING, "VolSyncPending", "not yet seen by VolSync", {}),
    (None, RUNNING, "VolSyncPending", "not yet seen by VolSync", {}),
]


@pytest.mark.parametrize(("status", "phase", "reason", "message", "outputs"), SYNCS)
def test_a_sync_is_read_from_the_mover_and_the_condition_OPS_10(
    status: Any, phase: Progress, reason: str, message: str, outputs: dict[str, Any]
) -> None:
    name = name_in("backup.volsync")
    logs = LogsRef(kind="ReplicationSource", name=name, namespace=NS)

    found = judged("backup.volsync", status)
    assert found == EngineStatus(phase, reason, message, {"replicationName": name, **outputs}, logs)


# What VolSync keeps of its mover's log after a success (VolSync 0.14: internal/controller/mover/restic/logfilter.go).
NO_SNAPSHOT = (
    "=== Initialize Dir ===\nNo eligible snapshots found\n=== No data will be restored ===\nRestic completed in 4s"
)
NO_FILE = "== Directory is empty skipping backup ==="
RESTORED = "restoring <Snapshot 0ff74383 of [/data] at 2026-06-01 03:00:01 by root@volsync> to ."


@pytest.mark.parametrize(
    ("of", "logs", "degraded"),
    [
        ("restore.volsync", NO_SNAPSHOT, "the repository has no snapshot, so that nothing was restored"),
        ("backup.volsync", NO_FILE, "the volume is empty, so that no snapshot was made"),
        ("restore.volsync", RESTORED, ""),
        ("backup.volsync", "snapshot 0ff74383 saved", ""),
        ("restore.volsync", None, ""),
    ],
)
def test_a_sync_that_moved_nothing_is_degraded_and_no_plain_success_OPS_10(
    of: str, logs: str | None, degraded: str
) -> None:
    mover = {"result": "Successful", "logs": logs}
    found = judged(of, {**sync("False", "WaitingForManual"), **OURS, "latestMoverStatus": mover})

    assert (found.phase, found.reason) == (SUCCEEDED, "VolSyncCompleted")
    assert found.degraded.partition(":")[0] == degraded
    assert found.message == found.degraded


def test_a_recurring_backup_of_an_empty_volume_says_so_OPS_10() -> None:
    mover = {"result": "Successful", "logs": NO_FILE}
    status = {**sync("False", "WaitingForSchedule"), **RESULTS, "latestMoverStatus": mover}
    found = judged("backup.volsync", status, parameters={**NEEDED, "schedule": "0 3 * * *"})

    assert found.last_run == "the last sync ended at t; the volume was empty, so that it made no snapshot"


@pytest.mark.parametrize(
    ("change", "phase", "refused"),
    [
        ({}, Phase.RUNNING, True),
        ({"source": "data"}, Phase.RUNNING, False),
        ({"repository": "another"}, Phase.RUNNING, False),
        ({"schedule": None}, Phase.RUNNING, False),
        ({}, Phase.SUCCEEDED, False),
        ({}, None, False),
    ],
)
def test_two_claims_are_not_backed_up_into_one_repository_OPS_10(
    change: dict[str, str | None], phase: Phase | None, refused: bool
) -> None:
    """VolSync gives their snapshots one host and path: a restore would fill one claim with the data of the other."""
    one = operation("backup.volsync", parameters=NEEDED)
    given = {"source": "db", "repository": "restic", "schedule": "@daily", **change}
    asked = {name: value for name, value in given.items() if value is not None}
    other = operation("backup.volsync", name="nightly", uid="b", parameters=asked)
    other = attrs.evolve(other, status=attrs.evolve(other.status, phase=phase))

    found = start_or_unmet(one, observed("backup.volsync", siblings=(other,)), CONTEXT)

    assert isinstance(found, UnmetPrecondition) == refused
    if isinstance(found, UnmetPrecondition):
        assert (found.reason, found.accepted) == ("ValidationFailed", False)
        assert "Operation nightly backs up claim db into restic" in found.message
    restore = operation("restore.volsync", parameters={"destination": "data", "repository": "restic"})
    held = start_or_unmet(restore, observed("restore.volsync", siblings=(other,)), CONTEXT)
    assert isinstance(held, Start) or held.reason == "ConflictingOperation"


def test_a_recurring_backup_tells_its_last_run_and_has_no_end_OPS_10() -> None:
    schedule = {**NEEDED, "schedule": "0 3 * * *"}
    status = {**sync("False", "WaitingForSchedule", "Successful"), **OURS, **RESULTS}
    found = judged("backup.volsync", status, parameters=schedule)

    assert (found.phase, found.last_run) == (RUNNING, "the last sync ended at t")
    assert found.message == "recurring: waits for its next sync"
    assert {name: found.outputs[name] for name in TOLD} == TOLD
    assert judged("backup.volsync", sync(), parameters=schedule).last_run == ""
    failed = judged("backup.volsync", sync("False", "WaitingForSchedule", "Failed"), parameters=schedule)
    assert failed.reason == found.reason, "a failure of before is over"
    assert judged("backup.volsync", sync(result="Failed"), parameters=schedule).reason == "VolSyncMoverFailed"
    engine, one = ENGINES["volsync"], operation("backup.volsync", parameters=schedule)
    assert (engine.recurring(one), engine.recurring(operation("backup.volsync"))) == (True, False)
    assert engine.observe(one, {}) == EngineStatus(RUNNING, "VolSyncObjectMissing")


# --- snapshots --------------------------------------------------------------------------------------------------------

BOUND = {"readyToUse": True, "boundVolumeSnapshotContentName": "c", "restoreSize": "1Gi"}
CONTENT = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, "c")


def content(uid: str | None) -> dict[ObjectRef, Any]:
    reference = {} if uid is None else {"uid": uid}
    return {CONTENT: {**VOLUME_SNAPSHOT_CONTENT.manifest("c"), "spec": {"volumeSnapshotRef": reference}}}


CLAIM_WAITS = "no volume yet; with WaitForFirstConsumer it takes a pod that uses the claim"
ONE_WAY = "VolumeSnapshotNotBound", "the content that it names does not point back at it"
PENDING = "VolumeSnapshotPending", "not yet bound to a content"


@pytest.mark.parametrize(
    ("status", "beside", "phase", "told", "outputs"),
    [
        (BOUND, content("uid-1"), SUCCEEDED, ("VolumeSnapshotReady", ""),
         {"volumeSnapshotContentName": "c", "restoreSize": "1Gi"}),
        ({**BOUND, "restoreSize": None}, content("uid-1"), SUCCEEDED, ("VolumeSnapshotReady", ""),
         {"volumeSnapshotContentName": "c"}),
        (BOUND, content("uid-2"), RUNNING, ONE_WAY, {}),
        (BOUND, content(None), RUNNING, ONE_WAY, {}),
        (BOUND, {}, RUNNING, ONE_WAY, {}),
        ({**BOUND, "error": {"message": "away"}}, content("uid-1"), SUCCEEDED, ("VolumeSnapshotReady", ""),
         {"volumeSnapshotContentName": "c", "restoreSize": "1Gi"}),
        ({**BOUND, "readyToUse": False, "error": {"message": "away"}}, {}, RUNNING,
         ("VolumeSnapshotError", "away"), {}),
        ({"error": {"time": "t"}}, {}, RUNNING,
         ("VolumeSnapshotError", "the snapshotter tries again until the deadline"), {}),
        ({**BOUND, "readyToUse": False}, {}, RUNNING, ("VolumeSnapshotInProgress", ""), {}),
        ({**BOUND, "readyToUse": "true"}, {}, RUNNING, ("VolumeSnapshotInProgress", ""), {}),
        ({"readyToUse": True}, {}, RUNNING, PENDING, {}),
        ({}, {}, RUNNING, PENDING, {}),
        (None, {}, RUNNING, PENDING, {}),
    ],
)  # fmt: skip
def test_a_snapshot_is_ready_where_its_content_points_back_OPS_10(
    status: Any, beside: dict[ObjectRef, Any], phase: Progress, told: tuple[str, str], outputs: dict[str, Any]
) -> None:
    name = name_in("backup.snapshot")

    found = judged("backup.snapshot", status, beside)
    assert found == EngineStatus(phase, *told, {"volumeSnapshotName": name, **outputs})
    one, made = started("backup.snapshot")
    assert made is not None
    asked = ENGINES["snapshot"].extra_reads(one, {made.ref: {**as_created(made), "status": status}})
    ready = (status or {}).get("readyToUse") is True and "boundVolumeSnapshotContentName" in status
    assert asked == ((CONTENT,) if ready else ())
    assert ENGINES["snapshot"].extra_reads(one, {}) == ()
    assert ENGINES["snapshot"].observe(one, {}) == EngineStatus(RUNNING, "SnapshotObjectMissing")


@pytest.mark.parametrize(
    ("phase", "progress", "told"),
    [
        ("Bound", SUCCEEDED, ("ClaimBound", "")),
        ("Lost", FAILED, ("ClaimLost", "the volume behind the claim is gone")),
        ("Pending", RUNNING, ("ClaimPending", CLAIM_WAITS)),
        (None, RUNNING, ("ClaimPending", CLAIM_WAITS)),
    ],
)  # fmt: skip
def test_a_restored_claim_is_read_by_its_phase_OPS_10(phase: Any, progress: Progress, told: tuple[str, str]) -> None:
    assert judged("restore.snapshot", {"phase": phase}) == EngineStatus(
        progress, *told, {"pvcName": name_in("restore.snapshot")}, requeue_after=30.0 if progress is RUNNING else None
    )


TOO_SMALL = "requested volume size is less than the size for the source snapshot"


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        ("ProvisioningFailed", TOO_SMALL, f"no volume yet: ProvisioningFailed: {TOO_SMALL}"),
        ("FailedBinding", "no storage class is set", "no volume yet: FailedBinding: no storage class is set"),
        ("WaitForFirstConsumer", "waiting", "no volume yet: WaitForFirstConsumer: waiting"),
        ("Provisioning", "External provisioner is provisioning", CLAIM_WAITS),
    ],
)
def test_a_restored_claim_without_a_volume_says_why_OPS_10(reason: str, message: str, told: str) -> None:
    """Only Events say it, and the deadline would end the run without a reason."""
    older = refused_pod("of before", name="a", reason="ProvisioningFailed", lastTimestamp="2026-06-01T11:59:00Z")
    beside = refused_pod(message, reason=reason, lastTimestamp="2026-06-01T12:00:00Z")
    events = beside if told == CLAIM_WAITS else {**older, **beside}

    assert judged("restore.snapshot", {"phase": "Pending"}, events).message == told
    assert judged("restore.snapshot", {"phase": "Bound"}, events).message == ""


def test_the_events_of_a_claim_are_asked_for_until_it_has_a_volume_OPS_10() -> None:
    one, made = started("restore.snapshot")
    assert made is not None
    engine, live = ENGINES["snapshot"], as_created(made)
    about = Listing(CORE_EVENT, NS, field_selector="involvedObject.uid=uid-1", limit=50)

    assert engine.diagnostics(one, {made.ref: {**live, "status": {"phase": "Pending"}}}) == (about,)
    assert engine.diagnostics(one, {made.ref: {**live, "status": {"phase": "Bound"}}}) == ()
    assert engine.diagnostics(one, {}) == ()
    backup, snapshot = started("backup.snapshot")
    assert snapshot is not None
    assert engine.diagnostics(backup, {snapshot.ref: as_created(snapshot)}) == ()


def test_a_snapshot_that_is_not_there_is_refused_or_waited_for_OPS_10() -> None:
    engine, one, seen = ENGINES["snapshot"], operation("restore.snapshot"), observed("restore.snapshot")
    target, template = target_of(one, seen.objects), CONTEXT.templates.find("Restore", "snapshot")
    assert target is not None
    assert template is not None
    snapshot = ObjectRef(VOLUME_SNAPSHOT, NS, "s-1")

    def check(objects: Any, missing: frozenset[Any] = frozenset()) -> EngineRefusal | None:
        return engine.check(one, target, EngineContext(CONTEXT.settings, template, objects, missing))

    assert engine.looks_up(one, target, CONTEXT.settings) == (snapshot,)
    assert engine.looks_up(operation("backup.snapshot"), target, CONTEXT.settings) == ()
    assert check(seen.objects) is None
    gone = check({})
    assert gone is not None
    assert (gone.reason, gone.blocks) == ("ValidationFailed", False)
    assert gone.message == "spec.parameters.snapshotName: there is no VolumeSnapshot of that name in this namespace"
    unserved = check({}, frozenset({VOLUME_SNAPSHOT}))
    assert unserved is not None
    assert (unserved.reason, unserved.blocks) == ("DependencyMissing", True)
    assert unserved.message.startswith("not installed in this cluster: volumesnapshots.snapshot.storage.k8s.io. To fix")


@pytest.mark.parametrize(
    ("size", "status", "refused"),
    [
        ("1Gi", {"restoreSize": "10Gi"}, True),
        ("10Gi", {"restoreSize": "10Gi"}, False),
        ("10240Mi", {"restoreSize": "10Gi"}, False),
        ("10G", {"restoreSize": "10Gi"}, True),
        ("1Gi", {"restoreSize": "0"}, False),
        ("1Gi", {"restoreSize": 3}, False),
        ("1Gi", {}, False),
        ("1Gi", None, False),
    ],
)
def test_a_claim_too_small_for_its_snapshot_is_refused_at_once_OPS_10(size: str, status: Any, refused: bool) -> None:
    """Its volume would never be made, and the run would end half an hour later without a reason."""
    one, seen = operation("restore.snapshot", parameters={"snapshotName": "s-1", "size": size}), observed()
    target, template = target_of(one, seen.objects), CONTEXT.templates.find("Restore", "snapshot")
    assert target is not None
    assert template is not None
    snapshot = {**VOLUME_SNAPSHOT.manifest("s-1", NS), "status": status}
    context = EngineContext(CONTEXT.settings, template, {ObjectRef(VOLUME_SNAPSHOT, NS, "s-1"): snapshot})

    refusal = ENGINES["snapshot"].check(one, target, context)
    assert (refusal is not None) == refused
    if refusal is not None:
        message = f"spec.parameters.size: must be at least 10Gi, the size of VolumeSnapshot s-1, not {size}"
        assert (refusal.reason, refusal.message, refusal.blocks) == ("ValidationFailed", message, False)


# --- jobs -------------------------------------------------------------------------------------------------------------


def job(kind: str, reason: str = "", message: str = "", status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


NO_POD = "no pod is active yet, or the next try has not begun"
NONE = {"succeededPods": 0, "failedPods": 0}
COUNTS = {"succeededPods": 1, "failedPods": 2}


@pytest.mark.parametrize(
    ("status", "phase", "told", "outputs", "again"),
    [
        ({"conditions": [job("Complete", "CompletionsReached", "well")], "succeeded": 1, "failed": 2},
         SUCCEEDED, ("JobComplete", "well"), COUNTS, None),
        ({"conditions": [job("Complete")]}, SUCCEEDED, ("JobComplete", ""), NONE, None),
        ({"conditions": [job("Failed", "BackoffLimitExceeded", "often")]}, FAILED, ("BackoffLimitExceeded", "often"),
         NONE, None),
        ({"conditions": [job("Failed")]}, FAILED,
         ("JobFailed", "with the Job's own reason where it gives one: BackoffLimitExceeded, DeadlineExceeded, …"),
         NONE, None),
        ({"conditions": [job("Failed", "odd reason", "x")]}, FAILED, ("JobFailed", "x"),
         NONE, None),
        ({"conditions": [job("Failed", "A" * 64, "x")]}, FAILED, ("A" * 64, "x"),
         NONE, None),
        ({"conditions": [job("Failed", "A" * 65, "x")]}, FAILED, ("JobFailed", "x"),
         NONE, None),
        ({"conditions": [job("Failed", "x", "y", "False"), job("Suspended")]}, RUNNING,
         ("JobSuspended", "somebody suspended the Job"), {}, 15.0),
        ({"conditions": [job("FailureTarget", "R", "soon")]}, RUNNING, ("JobFinishing", "soon"), {}, 15.0),
        ({"active": 1}, RUNNING, ("JobPodActive", ""), {}, 15.0),
        ({"active": 1, "ready": 1}, RUNNING, ("JobPodActive", ""), {}, None),
        ({"active": 0}, RUNNING, ("JobPending", NO_POD), {}, 15.0),
        (None, RUNNING, ("JobPending", NO_POD), {}, 15.0),
    ],
)  # fmt: skip
def test_a_job_is_read_by_its_final_conditions_first_OPS_8(
    status: Any, phase: Progress, told: tuple[str, str], outputs: dict[str, Any], again: float | None
) -> None:
    name = name_in("runCommand.job")
    logs = LogsRef(kind="Job", name=name, namespace=NS)

    assert judged("runCommand.job", status) == EngineStatus(
        phase, *told, {"jobName": name, **outputs}, logs, requeue_after=again
    )


def refused_pod(message: str, name: str = "e", reason: str = "FailedCreate", **times: Any) -> dict[ObjectRef, Any]:
    body = {"metadata": {"name": name}, "involvedObject": {"uid": "uid-1"}, "reason": reason, "message": message}
    return {ObjectRef(CORE_EVENT, NS, name): {**body, **times}}


def pod(owner: str = "uid-1", **status: Any) -> dict[ObjectRef, Any]:
    return {ObjectRef(POD, NS, "p"): {"metadata": {"name": "p", "ownerReferences": [{"uid": owner}]}, "status": status}}


def waiting(reason: str, message: str = "", field: str = "containerStatuses") -> dict[str, Any]:
    return {field: [{"state": {"waiting": {"reason": reason, "message": message}}}]}


@pytest.mark.parametrize(
    ("status", "beside", "reason", "message"),
    [
        ({}, refused_pod("pods is forbidden: exceeded quota"), "JobQuotaExceeded", "pods is forbidden: exceeded quota"),
        ({}, refused_pod("failed quota: x"), "JobQuotaExceeded", "failed quota: x"),
        ({}, refused_pod('serviceaccount "x" not found'), "JobServiceAccountMissing", 'serviceaccount "x" not found'),
        ({}, refused_pod("what else"), "JobPodNotCreated", "what else"),
        ({}, refused_pod("violates PodSecurity", reason="Other"), "JobPending", NO_POD),
        ({"active": 1}, refused_pod("exceeded quota"), "JobPodActive", ""),
        ({"active": 1}, pod(**waiting("ErrImagePull", "no such image")), "JobImagePullFailed",
         "pod p: ErrImagePull: no such image"),
        ({"active": 1}, pod(**waiting("InvalidImageName", field="initContainerStatuses")), "JobImagePullFailed",
         "pod p: InvalidImageName: the image cannot be pulled"),
        ({"active": 1}, pod(**waiting("RunContainerError")), "JobContainerNotStarted",
         "pod p: RunContainerError: the container cannot be started"),
        ({"active": 1}, pod(**waiting("ContainerCreating")), "JobPodActive", ""),
        ({"active": 1}, pod("uid-2", **waiting("ErrImagePull")), "JobPodActive", ""),
        ({"active": 1}, pod(conditions=[job("PodScheduled", status="False", message="full")]), "JobPodUnschedulable",
         "pod p: full"),
        ({"active": 1}, pod(conditions=[job("PodScheduled", status="False")]), "JobPodUnschedulable",
         "pod p: no node can take the pod"),
        ({"active": 1}, pod(conditions=[job("PodScheduled")]), "JobPodActive", ""),
        ({}, {**refused_pod("exceeded quota"), **pod(**waiting("ErrImagePull", "x"))}, "JobImagePullFailed",
         "pod p: ErrImagePull: x"),
        ({}, {**refused_pod("old", "a", lastTimestamp="2026-01-02"), **refused_pod("new", "b", eventTime="2026-01-03")},
         "JobPodNotCreated", "new"),
        ({}, {**refused_pod("series", "a", lastTimestamp="2026-01-01", series={"lastObservedTime": "2026-01-04"}),
              **refused_pod("late", "b", lastTimestamp="2026-01-03")}, "JobPodNotCreated", "series"),
        ({}, {**refused_pod("first", "a"), **refused_pod("second", "b")}, "JobPodNotCreated", "second"),
        ({"conditions": [job("Suspended")]}, refused_pod("exceeded quota"), "JobSuspended",
         "somebody suspended the Job"),
    ],
)  # fmt: skip
def test_what_keeps_the_pods_from_running_is_told_OPS_8(
    status: Any, beside: dict[ObjectRef, Any], reason: str, message: str
) -> None:
    found = judged("runCommand.job", status, beside)

    assert (found.phase, found.reason, found.message) == (RUNNING, reason, message)


EVENTS = Listing(CORE_EVENT, NS, field_selector="involvedObject.uid=uid-1", limit=50)
PODS = Listing(POD, NS, label_selector="batch.kubernetes.io/controller-uid=uid-1", limit=50)


@pytest.mark.parametrize(
    ("status", "listed"),
    [
        ({}, (EVENTS, PODS)),
        ({"active": 1}, (EVENTS, PODS)),
        ({"active": 1, "ready": 1}, ()),
        ({"conditions": [job("Complete")]}, ()),
        ({"conditions": [job("Failed")]}, ()),
        (None, (EVENTS, PODS)),
    ],
)
def test_pods_and_events_are_asked_for_while_no_pod_is_ready_OPS_8(status: Any, listed: tuple[Listing, ...]) -> None:
    one, made = started("runCommand.job")
    assert made is not None
    diagnostics = ENGINES["job"].diagnostics

    assert diagnostics(one, {made.ref: {**as_created(made), "status": status}}) == listed
    assert diagnostics(one, {}) == (EVENTS,)
    assert diagnostics(operation(), {}) == ()


@pytest.mark.parametrize(
    ("reason", "phase", "told"),
    [
        ("Completed", SUCCEEDED, "JobComplete"),
        ("BackoffLimitExceeded", FAILED, "BackoffLimitExceeded"),
        ("DeadlineExceeded", FAILED, "DeadlineExceeded"),
        ("PodFailurePolicy", FAILED, "PodFailurePolicy"),
        ("SuccessfulCreate", None, ""),
    ],
)
def test_the_end_of_a_job_that_is_gone_is_read_from_its_events_OPS_8(
    reason: str, phase: Progress | None, told: str
) -> None:
    one, made = started("runCommand.job")
    assert made is not None
    final = ENGINES["job"].final_status(one, refused_pod("so it was", reason=reason))

    name = made.ref.name
    message = f"Job {name} was removed before its end was seen; its Event says {reason}: so it was"
    logs = LogsRef(kind="Job", name=name, namespace=NS)
    assert final == (None if phase is None else EngineStatus(phase, told, message, {"jobName": name}, logs))
    assert ENGINES["job"].final_status(operation(), refused_pod("x", reason=reason)) is None


def deadline(parameters: dict[str, Any]) -> int:
    one: Operation = operation(parameters={"image": "x", **parameters})
    return ENGINES["job"].needs_seconds(one, {})


def test_a_job_ends_by_its_own_deadline_before_the_operation_does_OPS_12() -> None:
    assert (deadline({"timeoutSeconds": 30}), deadline({}), deadline({"timeoutSeconds": "x"})) == (90, 0, 0)
    assert desired("runCommand.job", {"image": "x", "timeoutSeconds": 30})["activeDeadlineSeconds"] == 30
    spec = desired("runCommand.job", {"image": "x"})
    assert (spec["backoffLimit"], "activeDeadlineSeconds" in spec) == (0, False)
    assert desired("runCommand.job", {"image": "x", "backoffLimit": 3})["backoffLimit"] == 3


def test_a_command_is_not_begun_again_while_its_evicted_pod_still_runs_OPS_8() -> None:
    assert desired("runCommand.job", {"image": "x", "backoffLimit": 3})["podReplacementPolicy"] == "Failed"
    assert "podReplacementPolicy" not in desired("runCommand.job", {"image": "x"}), "unknown before Kubernetes 1.28"


def container(**parameters: Any) -> dict[str, Any]:
    (found,) = desired("runCommand.job", {"image": "r/x:1", **parameters})["template"]["spec"]["containers"]
    return dict(found)


def test_a_command_runs_in_one_container_without_rights_OPS_8() -> None:
    spec = desired("runCommand.job", {"image": "r/x:1"})["template"]["spec"]
    bare = container()

    assert spec == {
        "restartPolicy": "Never",
        "serviceAccountName": "vworkspace-operation-runner",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [bare],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    assert {key: value for key, value in bare.items() if key != "resources"} == {
        "name": "run",
        "image": "r/x:1",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    full = container(command=["a"], args=["b"], env={"A": "1"}, envFrom=[{"secretRef": {"name": "s"}}])
    assert (full["command"], full["args"]) == (["a"], ["b"])
    assert (full["env"], full["envFrom"]) == ([{"name": "A", "value": "1"}], [{"secretRef": {"name": "s"}}])
    twice = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    assert container(env=twice)["env"] == [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]
    assert "env" not in container(env={})
    assert "envFrom" not in container(envFrom=[])


@pytest.mark.parametrize(
    ("schedule", "is_due"),
    [
        ("0 0 31 2 *", False),
        ("0 0 30 2 *", False),
        ("0 0 30,31 02 *", False),
        ("0 0 30/1 2/11 */1", False),
        ("0 0 31 2,4,6,9,11 *", False),
        ("0 0 20-10 * *", False),
        ("0 0 * 12-1 *", False),
        ("9-3 0 * * *", False),
        ("0 0 * * 5-1", False),
        ("0 0 20-10 * 1", False),
        ("0 0 29 2 *", True),
        ("0 0 31 2/2 *", True),
        ("0 0 31 2 1", True),
        ("0 0 31 2 */2", True),
        ("0 0 1-31 2 *", True),
        ("0 0 * * 0", True),
        ("0 0 */1 * *", True),
        ("@monthly", True),
    ],
)
def test_a_schedule_that_is_never_due_is_refused_as_volsync_would_sync_all_the_time_OPS_10(
    schedule: str, is_due: bool
) -> None:
    one = operation("backup.volsync", parameters={**NEEDED, "schedule": schedule})
    seen = start_or_unmet(one, observed("backup.volsync"), CONTEXT)

    assert isinstance(seen, Start) is is_due, seen
    if isinstance(seen, UnmetPrecondition):
        assert (seen.reason, seen.accepted) == ("ValidationFailed", False)
        assert schedule in seen.message

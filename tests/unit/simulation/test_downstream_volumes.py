"""What the simulated VolSync, snapshotter and provisioner leave, fact by fact (downstream-status 7.4, 7.5)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    SnapshotBehaviour,
    VolSyncBehaviour,
)
from kubelab.downstream.crds import downstream_crds
from kubelab.downstream.kinds import PERSISTENT_VOLUME, STORAGE_CLASS
from kubelab.downstream.volsync_controller import next_run
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import (
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    SECRET,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
)
from tests.support.downstream_world import (
    NS,
    DownstreamWorld,
    claim,
    conditions,
    destination,
    snapshot,
    snapshot_class,
    source,
)

NAMES = ("volsync", "snapshot")


def prepared(*rules: DownstreamRule) -> DownstreamWorld:
    world = DownstreamWorld(names=NAMES)
    world.prepare()
    world.behave(DownstreamBehaviour(rules))
    return world


def failing(kind: str, ending: Ending = Ending.FAIL, **outcome: Any) -> DownstreamRule:
    return DownstreamRule(DownstreamOutcome(ending, **outcome), kind)


def synchronizing(world: DownstreamWorld, name: str = "s") -> str:
    return conditions(world.status(REPLICATION_SOURCE, name)).get("Synchronizing", "")


def syncing(*rules: DownstreamRule, **spec: Any) -> DownstreamWorld:
    world = prepared(*rules)
    world.create(source(**spec), REPLICATION_SOURCE)
    world.simulator.tick(world.clock.now())
    return world


# --- VolSync -----------------------------------------------------------------------------------------------------


def test_the_states_of_a_manual_sync() -> None:
    world = syncing()
    assert synchronizing(world) == "True/SyncInProgress"
    status = world.status(REPLICATION_SOURCE, "s")
    assert status["lastSyncStartTime"]
    assert "lastManualSync" not in status
    world.run(3)
    assert synchronizing(world) == "False/CleaningUp"
    status = world.status(REPLICATION_SOURCE, "s")
    assert status["lastManualSync"] == "one"
    assert status["lastSyncDuration"] == "3s"
    assert status["latestMoverStatus"]["result"] == "Successful"
    assert "lastSyncStartTime" not in status
    assert status["restic"] == {}, "seven days after its creation it is pruned for the first time"
    world.settle()
    assert synchronizing(world) == "False/WaitingForManual"
    assert "observedGeneration" not in world.status(REPLICATION_SOURCE, "s")


def test_a_trigger_changed_during_a_sync_makes_the_older_sync_count() -> None:
    world = syncing()
    world.run(1)
    world.patch(REPLICATION_SOURCE, "s", {"spec": {"trigger": {"manual": "two"}}})
    world.settle()
    status = world.status(REPLICATION_SOURCE, "s")
    assert status["lastManualSync"] == "two"
    assert status["lastSyncTime"] == "2026-01-01T00:00:04Z", "there was one sync only"


def test_a_trigger_changed_while_idle_makes_a_sync_of_its_own() -> None:
    world = syncing()
    world.settle()
    before = world.status(REPLICATION_SOURCE, "s")["lastSyncTime"]
    world.patch(REPLICATION_SOURCE, "s", {"spec": {"trigger": {"manual": "two"}}})
    world.run(1)
    assert world.status(REPLICATION_SOURCE, "s")["lastManualSync"] == "one"
    world.settle()
    status = world.status(REPLICATION_SOURCE, "s")
    assert status["lastManualSync"] == "two"
    assert status["lastSyncTime"] > before


@pytest.mark.slow
def test_a_failing_mover_is_never_final() -> None:
    world = syncing(failing("ReplicationSource", message="wrong password"))
    world.run(3600)
    status = world.status(REPLICATION_SOURCE, "s")
    assert status["latestMoverStatus"] == {"result": "Failed", "logs": "wrong password"}
    assert synchronizing(world) == "True/SyncInProgress"
    assert "lastManualSync" not in status
    world.behave(DownstreamBehaviour())
    world.settle()
    status = world.status(REPLICATION_SOURCE, "s")
    assert (status["lastManualSync"], status["latestMoverStatus"]["result"]) == ("one", "Successful")


def test_a_mover_that_fails_twice_succeeds_then() -> None:
    world = syncing(failing("ReplicationSource", times=2))
    world.settle()
    results = [get_path(state, "status", "latestMoverStatus", "result") for state in world.states(REPLICATION_SOURCE)]
    assert [result for index, result in enumerate(results) if result not in results[:index]] == [
        None,
        "Failed",
        "Successful",
    ]


def test_an_error_is_told_and_tried_again() -> None:
    world = syncing(failing("ReplicationSource", Ending.ERROR, times=1))
    world.run(3)
    assert synchronizing(world) == "False/Error"
    world.settle()
    assert synchronizing(world) == "False/WaitingForManual"


@pytest.mark.parametrize(("kind", "name"), [(PERSISTENT_VOLUME_CLAIM, "data"), (SECRET, "repo")])
def test_what_a_sync_needs_has_to_exist(kind: Any, name: str) -> None:
    world = DownstreamWorld(names=NAMES)
    others = ((PERSISTENT_VOLUME_CLAIM, claim()), (SECRET, SECRET.manifest("repo", NS)))
    for other, manifest in others:
        if other != kind:
            world.create(manifest, other)
    world.create(source(), REPLICATION_SOURCE)
    world.run(60)
    assert synchronizing(world) == "False/Error"
    message = world.status(REPLICATION_SOURCE, "s")["conditions"][0]["message"]
    assert message == f'{kind.kind} "{name}" not found'
    world.create(dict(others)[kind], kind)
    world.settle()
    assert synchronizing(world) == "False/WaitingForManual"


def test_references_need_not_exist_where_that_is_set() -> None:
    world = DownstreamWorld(DownstreamBehaviour(volsync=VolSyncBehaviour(checks_references=False)), names=NAMES)
    world.create(source(), REPLICATION_SOURCE)
    world.settle()
    assert world.status(REPLICATION_SOURCE, "s")["lastManualSync"] == "one"


def test_a_schedule_syncs_at_once_and_then_when_it_is_due() -> None:
    world = syncing(trigger={"schedule": "0 3 * * *"})
    world.settle()
    status = world.status(REPLICATION_SOURCE, "s")
    assert synchronizing(world) == "False/WaitingForSchedule"
    assert status["nextSyncTime"] == "2026-01-01T03:00:00Z"
    world.run(24 * 3600)
    status = world.status(REPLICATION_SOURCE, "s")
    assert status["lastSyncTime"] == "2026-01-01T03:00:03Z"
    assert status["nextSyncTime"] == "2026-01-02T03:00:00Z"
    assert "lastManualSync" not in status


def test_a_manual_trigger_wins_over_a_schedule() -> None:
    world = syncing(trigger={"schedule": "* * * * *", "manual": "one"})
    world.settle()
    world.writes()
    world.run(3600)
    assert world.writes() == 0
    assert synchronizing(world) == "False/WaitingForManual"


def test_without_a_trigger_it_syncs_without_end() -> None:
    world = syncing(trigger=None)
    world.run(60)
    times = {get_path(state, "status", "lastSyncTime") for state in world.states(REPLICATION_SOURCE)}
    assert len(times) > 10


def test_a_paused_one_stays_in_progress() -> None:
    world = syncing(paused=True)
    world.run(3600)
    assert synchronizing(world) == "True/SyncInProgress"
    world.patch(REPLICATION_SOURCE, "s", {"spec": {"paused": False}})
    world.settle()
    assert world.status(REPLICATION_SOURCE, "s")["lastManualSync"] == "one"


def test_without_a_mover_there_is_an_error() -> None:
    world = syncing(restic=None)
    assert synchronizing(world) == "False/Error"


@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [("Direct", "PersistentVolumeClaim", "data"), ("Snapshot", "VolumeSnapshot", "volsync-d-dst-20260101000004")],
)
def test_a_destination_names_its_latest_image(method: str, kind: str, name: str) -> None:
    world = prepared()
    world.create(destination(copyMethod=method), REPLICATION_DESTINATION)
    world.settle()
    image = world.status(REPLICATION_DESTINATION, "d")["latestImage"]
    assert (image["kind"], image["name"]) == (kind, name)


@pytest.mark.parametrize(
    ("schedule", "following"),
    [
        ("* * * * *", "2026-01-01 00:01"),
        ("*/15 * * * *", "2026-01-01 00:15"),
        ("0 3 * * *", "2026-01-01 03:00"),
        ("30 2 1-7 * 1", "2026-01-02 02:30"),
        ("0 0 * * 0", "2026-01-04 00:00"),
        ("0 0 */1 * 0", "2026-01-04 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("5,10 12 * * *", "2026-01-01 12:05"),
        ("@hourly", "2026-01-01 01:00"),
        ("@weekly", "2026-01-04 00:00"),
        ("@yearly", "2027-01-01 00:00"),
    ],
)
def test_when_a_schedule_is_due(schedule: str, following: str) -> None:
    moment = next_run(schedule, datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC))
    if schedule.startswith("30 2"):  # days of month and of week both named: either will do
        moment = next_run(schedule, moment)
    assert f"{moment:%Y-%m-%d %H:%M}" == following


@pytest.mark.parametrize("schedule", ["* * * *", "0 0 * * 7", "61 * * * *", "a * * * *", "0 0 31 2 *", ""])
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        next_run(schedule, datetime(2026, 1, 1, tzinfo=UTC))


# --- snapshots ---------------------------------------------------------------------------------------------------


def cut(*rules: DownstreamRule, **spec: Any) -> DownstreamWorld:
    world = prepared(*rules)
    world.create(snapshot(**spec), VOLUME_SNAPSHOT)
    world.simulator.tick(world.clock.now())
    return world


def test_a_snapshot_is_bound_in_both_directions_before_it_is_ready() -> None:
    world = cut()
    live = world.get(VOLUME_SNAPSHOT, "v")
    name = live["status"]["boundVolumeSnapshotContentName"]
    assert live["status"]["readyToUse"] is False
    content = world.get(VOLUME_SNAPSHOT_CONTENT, name, None)
    assert content["spec"]["volumeSnapshotRef"]["uid"] == live["metadata"]["uid"]
    assert get_path(content, "status", "readyToUse") is None
    world.settle()
    status = world.status(VOLUME_SNAPSHOT, "v")
    assert status["readyToUse"] is True
    assert status["restoreSize"] == "2Gi"
    assert set(status) == {"boundVolumeSnapshotContentName", "creationTime", "readyToUse", "restoreSize"}
    content = world.get(VOLUME_SNAPSHOT_CONTENT, name, None)
    assert content["status"]["restoreSize"] == 2 * 1024**3
    assert content["status"]["readyToUse"] is True


def test_an_error_stands_until_a_later_try_succeeds() -> None:
    world = cut(failing("VolumeSnapshot", message="quota", times=3))
    world.run(1)
    status = world.status(VOLUME_SNAPSHOT, "v")
    assert "quota" in status["error"]["message"]
    assert status["readyToUse"] is False
    world.settle()
    status = world.status(VOLUME_SNAPSHOT, "v")
    assert "error" not in status
    assert status["readyToUse"] is True


@pytest.mark.slow
def test_an_error_that_stays_is_tried_again_for_ever_and_not_written_again() -> None:
    world = cut(failing("VolumeSnapshot"))
    world.run(3600)
    world.writes()
    world.run(86_400)
    assert world.writes() == 0
    assert world.simulator.next_work() is not None
    assert "error" in world.status(VOLUME_SNAPSHOT, "v")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"pvc": "ghost"}, "cannot get claim from snapshot"),
        ({"volumeSnapshotClassName": "ghost"}, '"ghost" not found'),
        ({"volumeSnapshotClassName": None}, "cannot find default snapshot class"),
        (
            {"source": {"volumeSnapshotContentName": "ghost"}, "volumeSnapshotClassName": None},
            "VolumeSnapshotContent is missing",
        ),
    ],
)
def test_what_a_snapshot_needs_has_to_exist(spec: dict[str, Any], text: str) -> None:
    assert text in cut(**spec).status(VOLUME_SNAPSHOT, "v")["error"]["message"]


def test_a_claim_that_is_not_bound_cannot_be_cut_and_is_once_it_is() -> None:
    world = DownstreamWorld(names=NAMES)
    world.create(snapshot_class(), VOLUME_SNAPSHOT_CLASS)
    world.create(snapshot(), VOLUME_SNAPSHOT)
    world.behave(DownstreamBehaviour((failing("PersistentVolumeClaim", times=3),)))
    world.create(claim(), PERSISTENT_VOLUME_CLAIM)
    world.run(2)
    assert "not yet bound" in world.status(VOLUME_SNAPSHOT, "v")["error"]["message"]
    world.settle()
    assert world.status(VOLUME_SNAPSHOT, "v")["readyToUse"] is True


def test_the_default_class_is_written_into_the_spec() -> None:
    world = prepared()
    world.create(snapshot_class("usual", default=True), VOLUME_SNAPSHOT_CLASS)
    world.create(snapshot(volumeSnapshotClassName=None), VOLUME_SNAPSHOT)
    world.settle()
    assert world.get(VOLUME_SNAPSHOT, "v")["spec"]["volumeSnapshotClassName"] == "usual"


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
def test_the_deletion_policy_decides_whether_the_data_stays(policy: str, stays: bool) -> None:
    world = prepared()
    world.create(snapshot_class("mine", policy), VOLUME_SNAPSHOT_CLASS)
    world.create(snapshot(volumeSnapshotClassName="mine"), VOLUME_SNAPSHOT)
    world.settle()
    name = world.status(VOLUME_SNAPSHOT, "v")["boundVolumeSnapshotContentName"]
    world.delete(VOLUME_SNAPSHOT, "v")
    world.settle()
    assert world.find(VOLUME_SNAPSHOT, "v") is None
    assert (world.find(VOLUME_SNAPSHOT_CONTENT, name, None) is not None) == stays


def content(name: str = "made", to: str = "v") -> dict[str, Any]:
    reference = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "name": to, "namespace": NS}
    spec = {"deletionPolicy": "Retain", "driver": "csi.example", "source": {"snapshotHandle": "h"}}
    return {**VOLUME_SNAPSHOT_CONTENT.manifest(name), "spec": {**spec, "volumeSnapshotRef": reference}}


def test_a_snapshot_of_a_given_content_binds_only_when_that_points_back() -> None:
    given: dict[str, Any] = {"source": {"volumeSnapshotContentName": "made"}, "volumeSnapshotClassName": None}
    world = prepared()
    world.create(content(), VOLUME_SNAPSHOT_CONTENT)
    uid = world.create(snapshot(**given), VOLUME_SNAPSHOT)["metadata"]["uid"]
    world.create(snapshot("other", **given), VOLUME_SNAPSHOT)
    world.run(1)
    assert world.status(VOLUME_SNAPSHOT, "v")["readyToUse"] is True
    assert world.get(VOLUME_SNAPSHOT_CONTENT, "made", None)["spec"]["volumeSnapshotRef"]["uid"] == uid
    assert "bound to a different snapshot" in world.status(VOLUME_SNAPSHOT, "other")["error"]["message"]


def test_contents_are_left_out_where_their_kind_is_not_served() -> None:
    crds = [crd for crd in downstream_crds() if crd["spec"]["names"]["kind"] != "VolumeSnapshotContent"]
    world = DownstreamWorld(names=NAMES, crds=crds)
    world.prepare()
    world.create(snapshot(), VOLUME_SNAPSHOT)
    world.settle()
    assert world.status(VOLUME_SNAPSHOT, "v")["readyToUse"] is True
    world.delete(VOLUME_SNAPSHOT, "v")
    world.settle()
    assert world.find(VOLUME_SNAPSHOT, "v") is None


# --- claims ------------------------------------------------------------------------------------------------------


def from_snapshot(name: str = "v") -> dict[str, Any]:
    return claim("restored", dataSource={"apiGroup": VOLUME_SNAPSHOT.group, "kind": "VolumeSnapshot", "name": name})


def test_a_claim_from_a_snapshot_is_bound_once_the_snapshot_is_ready() -> None:
    world = prepared(failing("VolumeSnapshot", times=4))
    world.create(from_snapshot(), PERSISTENT_VOLUME_CLAIM)
    world.run(60)
    assert world.status(PERSISTENT_VOLUME_CLAIM, "restored")["phase"] == "Pending"
    world.create(snapshot(), VOLUME_SNAPSHOT)
    world.run(3)
    assert world.status(PERSISTENT_VOLUME_CLAIM, "restored")["phase"] == "Pending"
    world.settle()
    live = world.get(PERSISTENT_VOLUME_CLAIM, "restored")
    assert live["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    volume = world.get(PERSISTENT_VOLUME, live["spec"]["volumeName"], None)
    assert volume["spec"]["claimRef"]["uid"] == live["metadata"]["uid"]


def test_a_claim_that_waits_for_a_pod_stays_pending() -> None:
    world = prepared()
    class_ = {**STORAGE_CLASS.manifest("late"), "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}
    world.create(class_, STORAGE_CLASS)
    world.create(claim("late", storageClassName="late"), PERSISTENT_VOLUME_CLAIM)
    world.run(3600)
    assert world.status(PERSISTENT_VOLUME_CLAIM, "late") == {"phase": "Pending"}


def test_a_deleted_claim_goes_with_its_volume() -> None:
    world = prepared()
    name = world.get(PERSISTENT_VOLUME_CLAIM, "data")["spec"]["volumeName"]
    world.delete(PERSISTENT_VOLUME_CLAIM, "data")
    world.settle()
    assert world.find(PERSISTENT_VOLUME_CLAIM, "data") is None
    assert world.find(PERSISTENT_VOLUME, name, None) is None


def test_claims_are_left_alone_where_that_is_set() -> None:
    world = DownstreamWorld(DownstreamBehaviour(snapshot=SnapshotBehaviour(binds_claims=False)), names=NAMES)
    world.create(claim(), PERSISTENT_VOLUME_CLAIM)
    world.run(60)
    assert world.status(PERSISTENT_VOLUME_CLAIM, "data") == {"phase": "Pending"}

"""OPS-3: whoever waits for an object goes on once it is there, or has become what it has to be, whoever made it.

An Operation that has not started looks at more than its target: a backup to restore, a snapshot, the class of
snapshots, what carries the name of its engine object. Nothing of that has to carry our labels. All of it wakes at
once; the look at everything, every ten minutes, is no answer to somebody who has just done what they were told.
"""

from typing import Final

import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.names import engine_object_name
from purekube.apimachinery.resources import VELERO_BACKUP, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS
from tests.support.e2e_world import NAME, NS
from tests.support.operation_requests import Operating, operations_story

VELERO_NAMESPACE: Final = "velero"
AT_ONCE: Final = 5
"""Seconds; nothing but the change itself wakes anybody in this time."""
OF_THE_TARGET: Final = {
    "app.vworkspace.io/managed-by": "control-plane",
    "app.vworkspace.io/application-instance": NAME,
    "app.vworkspace.io/application-namespace": NS,
}


def backup(name: str, labels: dict[str, str]) -> Manifest:
    """As Velero's sync brings it from the object storage: another cluster's, which is complete."""
    return {
        **VELERO_BACKUP.manifest(name, VELERO_NAMESPACE),
        "metadata": {"name": name, "namespace": VELERO_NAMESPACE, "labels": labels},
        "spec": {"includedNamespaces": [NS]},
        "status": {"phase": "Completed"},
    }


def restore(ops: Operating, name: str, of: str) -> ObjectRef:
    given = {"backupName": of}
    return ops.submit("restore.velero", name, given, approvals={"required": True, "claim": ops.claim(name, given)})


async def refused(ops: Operating, ref: ObjectRef, told: str) -> None:
    assert told in await ops.says(ref, "Accepted", "False/ValidationFailed")
    await ops.world.clock.sleep(AT_ONCE)  # whatever else was under way has passed


async def goes_on(ops: Operating, ref: ObjectRef) -> None:
    await ops.world.until(lambda: ops.phase(ref) not in ("Pending", "None"), f"{ref.name} goes on", seconds=AT_ONCE)


@pytest.mark.slow
@operations_story()
async def test_a_backup_that_velero_brings_later_is_restored(ops: Operating) -> None:
    await ops.prepare()
    ref = restore(ops, "later", "brought")
    await refused(ops, ref, "there is no Backup velero/brought")
    ops.world.create_object(backup("brought", OF_THE_TARGET), VELERO_BACKUP)
    await goes_on(ops, ref)


@pytest.mark.slow
@operations_story()
async def test_a_backup_that_becomes_the_targets_is_restored(ops: Operating) -> None:
    await ops.prepare()
    ops.world.create_object(backup("brought", {}), VELERO_BACKUP)
    ref = restore(ops, "later", "brought")
    await refused(ops, ref, "is not one of application")
    ops.world.edit(ObjectRef(VELERO_BACKUP, VELERO_NAMESPACE, "brought"), {"metadata": {"labels": OF_THE_TARGET}})
    await goes_on(ops, ref)


@pytest.mark.slow
@operations_story()
async def test_a_snapshot_that_comes_later_is_restored(ops: Operating) -> None:
    await ops.prepare()
    ref = ops.submit("restore.snapshot", "later", {"snapshotName": "taken"})
    await refused(ops, ref, "there is no VolumeSnapshot of that name")
    spec = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "csi"}
    ops.world.create_object({**VOLUME_SNAPSHOT.manifest("taken", NS), "spec": spec}, VOLUME_SNAPSHOT)
    await goes_on(ops, ref)


@pytest.mark.slow
@operations_story()
async def test_a_class_of_snapshots_that_comes_later_is_used(ops: Operating) -> None:
    await ops.prepare()
    ref = ops.submit("backup.velero", "later", {"snapshotClassName": "late"})
    await refused(ops, ref, "there is no VolumeSnapshotClass late")
    made = {"driver": "simulated.csi.example", "deletionPolicy": "Retain"}
    ops.world.create_object({**VOLUME_SNAPSHOT_CLASS.manifest("late"), **made}, VOLUME_SNAPSHOT_CLASS)
    await goes_on(ops, ref)


@pytest.mark.slow
@operations_story()
async def test_a_name_that_becomes_free_is_taken(ops: Operating) -> None:
    """What stands in the way is nobody's that we know; when it goes, the Operation starts."""
    await ops.prepare()
    ref = ops.submit("backup.velero", "blocked", approvals={"required": True})
    await ops.says(ref, "Blocked", "True/AwaitingApproval")
    name = engine_object_name(ref.name, ops.world.get(ref)["metadata"]["uid"])
    ops.world.create_object(backup(name, {}), VELERO_BACKUP)
    ops.world.edit(ref, {"spec": {"approvals": {"claim": ops.claim(ref.name, of="backup.velero")}}})
    await ops.says(ref, "Blocked", "True/NameTaken")
    await ops.world.clock.sleep(AT_ONCE)
    ops.world.delete_object(ObjectRef(VELERO_BACKUP, VELERO_NAMESPACE, name))
    await goes_on(ops, ref)

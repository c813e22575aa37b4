"""Operations from request to end, against every simulated engine, in process and over HTTP (OPS-1 to OPS-12)."""

import pytest

from tests.e2e.operating import Operating, operations_on_every_face

pytestmark = pytest.mark.timeout(180)


@operations_on_every_face()
async def test_one_operation_of_every_template_comes_to_its_end_OPS_2(ops: Operating) -> None:
    await ops.prepare()
    done = {}

    async def run(of: str, **parameters: str) -> dict[str, object]:
        name = of.replace(".", "-").lower()
        approvals = {"approvals": {"required": True, "claim": ops.claim(name)}} if of == "restore.velero" else {}
        ref = ops.submit(of, name, parameters, **approvals)
        ended = await ops.reaches(ref, "Succeeded")
        done[of] = [one["reason"] for one in ended["status"]["conditions"] if one["type"] == "Succeeded"]
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

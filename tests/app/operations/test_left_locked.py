"""OPS-1, OPS-7: an engine object that is locked, and whose Operation is gone, is unlocked: nobody else would do it."""

from typing import Any

import anyio

from kubelab.clock import VirtualClock
from kubelab.downstream.crds import downstream_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, metadata
from purekube.apimachinery.resources import JOB, VELERO_BACKUP
from purekube.controller.ownership import is_locked, locked
from tests.support.furnished import furnish
from tests.support.operation_worlds import NS, operation_manifest, target_labels
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import APPLICATION_NAMESPACE, OPERATION_UID
from vworkspace_core.instances.context import Settings

POD = {"containers": [{"name": "run", "image": "x"}], "restartPolicy": "Never"}
JOB_SPEC = {"template": {"spec": POD}}


def made(kind: Kind, name: str, namespace: str, uid: str, **more: Any) -> dict[str, Any]:
    labels = target_labels(**{OPERATION_UID: uid, APPLICATION_NAMESPACE: NS})
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return locked({**kind.manifest(name, namespace), "metadata": meta, **more})


@run_by(run)
async def test_what_no_operation_made_any_more_is_unlocked_OPS_7() -> None:
    """Velero copies a Backup with its finalizers into the object storage, and from there into any cluster."""
    clock = VirtualClock()
    server = ApiServer(now=clock.now)
    admin = InProcessKube(server)
    furnish(admin, (*crd_manifests(), *downstream_crds()), NS, "velero", gated=True)
    given = operation_manifest("backup.velero")
    one = {**given, "metadata": {name: given["metadata"][name] for name in ("name", "namespace", "labels")}}
    living = await admin.create(one, kind=OPERATION, field_manager="odoo")

    async def left() -> set[str]:
        objects = [*(await admin.list(VELERO_BACKUP)).items, *(await admin.list(JOB)).items]
        return {str(metadata(each)["name"]) for each in objects if is_locked(each)}

    async def make(kind: Kind, name: str, namespace: str, uid: str = "gone", **more: Any) -> None:
        await admin.create(made(kind, name, namespace, uid, **more), kind=kind, field_manager="velero-server")

    await make(VELERO_BACKUP, "synced-before", "velero", spec={})
    await make(VELERO_BACKUP, "known", "velero", str(metadata(living)["uid"]), spec={})
    api: Any = InProcessKube(server, caller=Caller("operator", agent="operator/1"))
    manager = Manager(api, clock, OperatorSettings(Settings(cluster_id="c-1")), random=lambda: 0.5)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        await anyio.sleep(10)
        assert await left() == {"known"}

        await make(VELERO_BACKUP, "synced-later", "velero", spec={})
        await make(JOB, "created-late", NS, spec=JOB_SPEC)
        await anyio.sleep(10)
        assert await left() == {"known"}
        group.cancel_scope.cancel()

"""RUN-11: upgrades that have ended cost their application no requests, however many and large they are."""

from typing import Any

import anyio

from kubelab.clock import VirtualClock
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.ports import PatchType
from tests.support.builders import chart, instance_manifest
from tests.support.furnished import furnish
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.instances.context import Settings

CLUSTER = "cluster-1"
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
REF = ObjectRef(APPLICATION_INSTANCE, "n", "crm")


def upgrade(name: str) -> dict[str, Any]:
    """An Operation that is too large to be cached whole."""
    manifest = OPERATION.manifest(name, "n")
    manifest["metadata"]["labels"] = LABELS
    patch = {f"key{number}": "x" * 1000 for number in range(40)}
    spec = {"targetRef": {"name": "crm"}, "type": "Upgrade", "engine": "helm", "parameters": {"valuesPatch": patch}}
    return {**manifest, "spec": spec}


async def ended(admin: InProcessKube, name: str) -> None:
    await admin.create(upgrade(name), kind=OPERATION, field_manager="odoo")
    moment = "2026-01-01T00:00:00Z"
    status = {"phase": "Succeeded", "startedAt": moment, "finishedAt": moment, "observedGeneration": 1}
    manifest = {**OPERATION.manifest(name, "n"), "status": status}
    await admin.apply_status(manifest, kind=OPERATION, field_manager="vworkspace-operator")


def test_upgrades_that_have_ended_are_not_read_again() -> None:
    async def main() -> None:
        clock = VirtualClock()
        server = ApiServer(now=clock.now)
        admin = InProcessKube(server)
        furnish(admin, (*crd_manifests(), *flux_crds()), "n", gated=True)
        for number in range(10):
            await ended(admin, f"upgrade-{number}")
        api = InProcessKube(server, caller=Caller("operator", agent="operator/1"))
        manager = Manager(api, clock, OperatorSettings(Settings(cluster_id=CLUSTER)), random=lambda: 0.5)
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_ready()
            manifest = instance_manifest("crm", "n", metadata={"labels": LABELS}, chart=chart("1.0.0"))
            await admin.create(manifest, kind=APPLICATION_INSTANCE, field_manager="odoo")
            await anyio.sleep(60)
            server.audit.clear()
            patch = {"spec": {"chart": {"version": "1.0.1"}}}
            await admin.patch(REF, patch, patch_type=PatchType.MERGE, field_manager="odoo")
            await anyio.sleep(60)

            asked = [entry.path for entry in server.audit if entry.user == "operator"]
            assert [path for path in asked if "/helmreleases" in path], "it was reconciled"
            assert not [path for path in asked if "/operations" in path]
            group.cancel_scope.cancel()

    run(main)

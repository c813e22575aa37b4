"""RUN-4: a standby keeps its caches warm and nothing else, and begins with everything when it leads."""

from typing import Any

import anyio
import pytest

from kubelab.clock import VirtualClock
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube_run.controller.manager import Election
from tests.support.builders import chart, instance_manifest
from tests.support.furnished import furnish
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings

CLUSTER = "cluster-1"
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}


def instance(name: str) -> dict[str, Any]:
    return instance_manifest(name, "n", metadata={"labels": LABELS}, chart=chart("1.0.0"))


@pytest.mark.slow
@run_by(run)
async def test_a_standby_collects_no_work_and_a_leader_begins_with_all_of_it() -> None:
    clock = VirtualClock()
    server = ApiServer(now=clock.now)
    admin = InProcessKube(server)
    furnish(admin, (*crd_manifests(), *flux_crds()), "n", gated=True)
    may_write = anyio.Event()
    api = InProcessKube(server, caller=Caller("operator", agent="operator/1"))
    settings = OperatorSettings(Settings(cluster_id=CLUSTER))
    manager = Manager(api, clock, settings, election=Election(may_write.wait), random=lambda: 0.5)

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        for number in range(50):
            await admin.create(instance(f"gone-{number}"), kind=APPLICATION_INSTANCE, field_manager="odoo")
            await admin.delete(ObjectRef(APPLICATION_INSTANCE, "n", f"gone-{number}"))
        await admin.create(instance("stays"), kind=APPLICATION_INSTANCE, field_manager="odoo")
        await anyio.sleep(3600)

        stats = [pool.stats().queue for pool in manager.worker_pools.values()]
        assert [(queue.adds, sum(queue.ready.values()), queue.delayed) for queue in stats] == [(0, 0, 0)] * len(stats)
        assert not server.audit.writes(user="operator")
        assert len(manager.informers.store(APPLICATION_INSTANCE)) == 1, "and yet it knows what there is"

        may_write.set()
        await anyio.sleep(1)
        written = {entry.path.split("/")[-1] for entry in server.audit.writes(user="operator")}
        assert {"stays", "status"} <= written
        live = await admin.get(ObjectRef(APPLICATION_INSTANCE, "n", "stays"))
        assert live["metadata"]["finalizers"]
        await manager.finish()
        group.cancel_scope.cancel()

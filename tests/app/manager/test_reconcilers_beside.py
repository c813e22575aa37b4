"""PH-7, RUN-4: the manager runs reconcilers in Python beside its own kinds: standby, election, metrics, drain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import attrs
import pytest

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.reconcilers import Object, Reconciler, Request, Result
from purekube_run.controller.manager import Election
from tests.support.controller_site import SHOP, ShopSpec, ShopStatus
from tests.support.furnished import furnish
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.instances.context import Settings

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, None]):
    """Takes ten seconds for each."""

    kind = SHOP
    called: list[str] = attrs.field(factory=list)
    steps: list[str] = attrs.field(factory=list)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.steps.append("opened")
        yield
        self.steps.append("closed")

    async def daemon(self, object: Shop) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.steps.append(f"daemon of {object.metadata.name} ended")

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        self.called.append(request.object.metadata.name)
        await anyio.sleep(10)
        return Result(ShopStatus("r-1"))


@pytest.mark.slow
@run_by(run)
async def test_the_manager_runs_a_reconciler_once_it_is_elected_and_lets_it_finish() -> None:
    shops = Shops()
    clock = VirtualClock()
    server = ApiServer(now=clock.now)
    admin, api = InProcessKube(server), InProcessKube(server)
    furnish(admin, (*crd_manifests(), SHOP.crd()), "team")
    may_write, settings = anyio.Event(), OperatorSettings(Settings(cluster_id="cluster-1"))
    election = Election(may_write.wait)
    manager = Manager(api, clock, settings, election=election, controllers=[shops], random=lambda: 0.5)

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        for name in ("one", "two"):
            await admin.create(
                {**SHOP.kind.manifest(name, "team"), "spec": {}}, kind=SHOP.kind, field_manager="kubectl"
            )
        await anyio.sleep(600)
        assert not shops.called
        may_write.set()
        await anyio.sleep(5)
        assert set(shops.called) == {"one", "two"}
        await manager.finish()
        for name in ("one", "two"):
            live = await admin.get(ObjectRef(SHOP.kind, "team", name))
            assert get_path(live, "status", "remoteId") == "r-1", "what was in hand is finished, and told"
        stats = manager.worker_pools["controller-shops"].stats()
        assert stats.results["success"] == 2
        watched = [informer.kind for informer in manager.components.further]
        assert watched == [SHOP.kind]
        group.cancel_scope.cancel()
    assert shops.steps == ["opened", "daemon of one ended", "daemon of two ended", "closed"]

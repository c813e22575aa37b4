"""PH-7: a reconciler and a watcher as `run --controllers` runs them: in process, over HTTP, and on a kube-apiserver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.ownership import owner_reference
from purekube.ports import KubeApi
from purekube.reconcilers import Cause, Constant, Object, Reconciler, Request, Result, Terminal
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.extensions import ExtensionManager
from tests.support.box_site import FACES, QUICK, BoxSite
from tests.support.controller_site import SHOP, Audit, ShopSpec, ShopStatus
from tests.support.run_by import run_by
from vworkspace_core.api.labels import FIELD_MANAGER

pytestmark = pytest.mark.parametrize("face", [pytest.param(face, id=name) for name, face in FACES.items()])

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, int]):
    """Makes a ConfigMap of each shop, and fails as often as it is told to."""

    kind = SHOP
    owns = (CONFIG_MAP,)
    retry = Constant(0.05)
    api: KubeApi
    failures: list[Exception] = attrs.field(factory=list)
    causes: list[Cause] = attrs.field(factory=list)
    unheld: list[str] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Shop, int]) -> Result[int]:
        shop = request.object
        self.causes.append(request.cause)
        if not shop.metadata.finalizers:
            self.unheld.append(shop.metadata.name)
        if request.deleting or request.settled:
            return Result()
        if self.failures:
            raise self.failures.pop(0)
        if shop.spec.replicas > 50:
            raise Terminal("TooMany", "at most 50 replicas")
        meta, owner = shop.metadata, {"ownerReferences": [owner_reference(shop.kind, shop.metadata)]}
        manifest = CONFIG_MAP.manifest(meta.name, meta.namespace, owner, data={"image": shop.spec.image})
        await self.api.apply(manifest, kind=CONFIG_MAP, field_manager="shops")
        return Result(ShopStatus("r-1", shop.spec.replicas), state=len(self.causes))


@asynccontextmanager
async def running(site: BoxSite, *controllers: Any) -> AsyncIterator[ExtensionManager]:
    """Controllers at work while the block runs."""
    events = BackgroundEvents(site.api, site.clock, instance="test", field_manager=FIELD_MANAGER)
    options = ManagerOptions(Random(0).random)
    made = ExtensionManager(site.api, site.clock, events, options, controllers=controllers)
    async with anyio.create_task_group() as group:
        group.start_soon(events.run)
        group.start_soon(made.run)
        await made.wait_ready()
        yield made
        group.cancel_scope.cancel()


@pytest.mark.slow
@run_by("face", QUICK)
async def test_a_shop_from_creation_to_deletion_with_failures_and_a_restart(site: BoxSite) -> None:
    await site.install(SHOP.crd())
    failures: list[Exception] = [ConnectionError("no route")]
    shops, audit = Shops(site.api, failures), Audit()
    async with running(site, shops, audit) as controllers:
        ref = await site.create(SHOP.kind, "shop", spec={"image": "web:1", "replicas": 2})
        await site.until_ready(ref)
        await site.until(lambda: _says(audit, ("add", 2)))
        at_work: Any = controllers.extensions.python[0].controller
        await site.edit(ref, {"spec": {"replicas": 51}})
        assert await site.until_reason(ref, "TooMany", "Stalled") == "at most 50 replicas"
        await site.until(lambda: _says(audit, ("update", 2, 51)))
        await site.edit(ref, {"spec": {"replicas": 3}})
        await site.until_ready(ref)
        await site.until(lambda: _says(audit, ("update", 51, 3)))
        child = ObjectRef(CONFIG_MAP, ref.namespace, "shop")
        await site.admin.delete(child)
        await site.until_there(child)
        await site.until(lambda: _has(site, ref, ("example.com/shops", "example.com/audit")))
    assert not at_work.unheld, "the finalizer was on before every call"
    before = get_path(await site.get(ref), "metadata", "resourceVersion")

    later, again = Shops(site.api), Audit()
    async with running(site, later, again) as controllers:
        at_work = controllers.extensions.python[0].controller
        await site.until(lambda: _says(again, ("sync", 3)))
        await site.until(lambda: _called(at_work))
        await site.clock.sleep(0.3)
        assert get_path(await site.get(ref), "metadata", "resourceVersion") == before, "a restart writes nothing"
        await site.admin.delete(ref)
        await site.until_gone(ref)
    assert at_work.causes == [Cause.SYNCED, Cause.CHANGED]
    assert again.told == [("sync", 3), ("delete", 3)]
    assert audit.told[0] == ("add", 2)
    assert audit.told[-1] == ("update", 51, 3)


async def _says(audit: Audit, what: tuple[Any, ...]) -> bool:
    return what in audit.told


async def _called(shops: Shops) -> bool:
    return bool(shops.causes)


async def _has(site: BoxSite, ref: ObjectRef, finalizers: tuple[str, ...]) -> bool:
    return set(get_path(await site.get(ref), "metadata", "finalizers") or ()) == set(finalizers)

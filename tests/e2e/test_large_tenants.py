"""RUN-11: large objects of a tenant are worked on like any others, and not held: each is read when its turn comes."""

from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest

from kubelab.clock import VirtualClock, virtual_loop
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE
from purekube.controller.informer.outline import HELD_WHOLE
from purekube.reconcilers import Object, Reconciler, Request, Result
from purekube.reconcilers.decide_pure import composite_of
from purekube_run.reconcilers.extensions import ExtensionManager
from tests.e2e.test_memory import LABELS, process, upgradable, upgrade_of
from tests.support.box_site import NS as NAMESPACE_OF_BOXES
from tests.support.box_site import QUICK as SOON
from tests.support.box_site import BoxSite, in_process
from tests.support.boxes import box_of, config
from tests.support.controller_site import ControllerSite, play
from tests.support.e2e_world import FIRST, LATER, NS, QUICK, World, instance
from tests.support.run_by import run_by
from tests.support.servers import START
from tests.support.shop import SHOP, ShopSpec, ShopStatus, shop
from vworkspace_app.manager.manager import Manager
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION

pytestmark = pytest.mark.slow

LARGE = 400 * 1024


def large(name: str, size: int = LARGE, *, mark: str = "") -> dict[str, Any]:
    values = {"source": "inline", "inline": {"text": mark + "x" * size}}
    whole = instance(metadata={"name": name, "namespace": NS, "labels": LABELS})
    return {**whole, "spec": {**whole["spec"], "values": values, "release": {"name": name, "namespace": NS}}}


def played(story: Callable[[World, Manager], Any]) -> None:
    async def main() -> None:
        world = World.create(VirtualClock(), QUICK)
        async with process(world) as manager:
            await story(world, manager)

    anyio.run(main, backend_options={"loop_factory": virtual_loop(START)})


def values_of(world: World, name: str) -> Any:
    return get_path(world.get(ObjectRef(HELM_RELEASE, NS, name)), "spec", "values", "text")


@run_by(played)
async def test_a_tenants_large_instance_is_installed_changed_and_removed_as_any_other_RUN_11(
    world: World, manager: Manager
) -> None:
    world.create_object(large("big"), APPLICATION_INSTANCE)
    await world.until(lambda: world.running() == [FIRST], "it runs")
    assert values_of(world, "big") == "x" * LARGE
    ref = ObjectRef(APPLICATION_INSTANCE, NS, "big")
    patch = {"spec": {"values": {"inline": {"text": "changed" + "x" * LARGE}}}}
    world.edit(ref, patch)
    await world.until(lambda: str(values_of(world, "big")).startswith("changed"), "the change arrives")
    await world.clock.sleep(60)
    world.forget_writes()
    await world.clock.sleep(3_600)
    assert not [write for write in world.writes() if "big" in str(write)], "settled is settled"
    for kind in (APPLICATION_INSTANCE, HELM_RELEASE):
        assert manager.informers.store(kind).bytes < HELD_WHOLE
    world.edit(ref, {"spec": {"values": {"inline": {"text": "small"}}}})
    await world.until(lambda: values_of(world, "big") == "small", "what was large may become small")
    world.delete_object(ref)
    await world.until(lambda: not world.running(), "it goes")


@run_by(played)
async def test_a_large_operation_is_carried_out_and_removed_as_any_other_RUN_11(world: World, manager: Manager) -> None:
    note = {"metadata": {"annotations": {"example.com/note": "x" * (200 * 1024)}}}
    world.create_object(upgradable("app"), APPLICATION_INSTANCE)
    await world.until(lambda: world.running() == [FIRST], "it runs")
    ref = ObjectRef(OPERATION, NS, "app")
    upgrade = upgrade_of("app")
    world.create_object({**upgrade, "metadata": {**upgrade["metadata"], **note["metadata"]}}, OPERATION)
    await world.until(lambda: world.running() == [LATER], "it is upgraded")
    await world.until(lambda: get_path(world.get(ref), "status", "phase") == "Succeeded", "it says so")
    await world.clock.sleep(60)
    world.forget_writes()
    await world.clock.sleep(3_600)
    assert not [write for write in world.writes() if "operations" in str(write)], "settled is settled"
    assert manager.informers.store(OPERATION).bytes < HELD_WHOLE
    world.delete_object(ref)
    await world.until(lambda: world.find(ref) is None, "it goes")


def stored(running: ExtensionManager, kind: Kind) -> int:
    """How many bytes the caches of the only composite hold of a kind."""
    (one,) = running.extensions.composites
    return sum(store.bytes for store in one.informers.stores(kind))


async def until_text(site: BoxSite, ref: ObjectRef, text: str, *path: str) -> None:
    async def has_text() -> bool:
        return bool(get_path(await site.get(ref), *path) == text)

    await site.until(has_text)


async def settled(site: BoxSite, *refs: ObjectRef) -> bool:
    """Return whether an hour changes none of them."""
    before = [await site.get(ref) for ref in refs]
    await site.clock.sleep(3_600)
    return None not in before and before == [await site.get(ref) for ref in refs]


@run_by(in_process, SOON)
async def test_large_children_of_a_box_are_kept_up_changed_and_removed_and_not_held_RUN_11(site: BoxSite) -> None:
    box = box_of(config("own", "own", {"p": "${self.spec.image}"}))
    own = ObjectRef(CONFIG_MAP, NAMESPACE_OF_BOXES, "own")
    await site.install(box.crd)
    async with site.running(box) as running:
        shop = await site.create(box.kind, "shop", spec={"image": "x" * LARGE, "parts": []})
        await site.until_ready(shop)
        await until_text(site, own, "x" * LARGE, "data", "p")
        await site.edit(own, {"data": {"p": None}})
        await until_text(site, own, "x" * LARGE, "data", "p")
        await site.admin.delete(own)
        await until_text(site, own, "x" * LARGE, "data", "p")
        await site.edit(shop, {"spec": {"image": "y" + "x" * LARGE}})
        await until_text(site, own, "y" + "x" * LARGE, "data", "p")
        await site.until_ready(shop)
        await site.clock.sleep(60)
        assert await settled(site, shop, own)
        assert max(stored(running, kind) for kind in (box.kind, CONFIG_MAP)) < HELD_WHOLE
        await site.edit(shop, {"spec": {"image": "small"}})
        await until_text(site, own, "small", "data", "p")
        await site.admin.delete(shop)
        await site.until_gone(shop, own)


@run_by(in_process, SOON)
async def test_large_children_of_a_pure_reconciler_are_kept_up_and_not_held_RUN_11(site: BoxSite) -> None:
    settings = ObjectRef(CONFIG_MAP, NAMESPACE_OF_BOXES, "settings")
    await site.install(SHOP.crd())
    async with site.running(composite_of(shop)) as running:
        mine = await site.create(SHOP.kind, "mine", spec={"image": "x" * LARGE})
        await until_text(site, settings, "x" * LARGE, "data", "image")
        await site.until_ready(mine)
        await site.admin.delete(settings)
        await until_text(site, settings, "x" * LARGE, "data", "image")
        await site.until_ready(mine)
        await site.clock.sleep(60)
        assert await settled(site, mine, settings)
        assert max(stored(running, kind) for kind in (SHOP.kind, CONFIG_MAP)) < HELD_WHOLE
        await site.edit(mine, {"spec": {"image": "small"}})
        await until_text(site, settings, "small", "data", "image")
        await site.admin.delete(mine)
        await site.until_gone(mine, settings)


@attrs.define
class Reader(Reconciler[Object[ShopSpec, ShopStatus], None]):
    """Notes how long the field of each object is that it is called with."""

    kind = SHOP
    lengths: list[int] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Object[ShopSpec, ShopStatus], None]) -> Result[None]:
        self.lengths.append(len(request.object.spec.image))
        return Result()


@run_by(play)
async def test_a_reconciler_is_called_with_the_whole_of_a_large_object_which_is_not_held_RUN_11(
    site: ControllerSite,
) -> None:
    reader = Reader()
    async with site.running(reader) as running:
        mine = await site.create(spec={"image": "x" * LARGE})
        await site.until_ready(mine)
        await site.edit(mine, {"spec": {"image": "x" * (LARGE + 1)}})
        await site.until_ready(mine)
        assert reader.lengths[0] == LARGE
        assert reader.lengths[-1] == LARGE + 1
        (store,) = (runner.store for runner in running.informers if runner.kind == SHOP.kind)
        assert store.bytes < HELD_WHOLE
        calls = len(reader.lengths)
        await site.clock.sleep(3_600)
        assert len(reader.lengths) == calls, "settled is settled"
        await site.admin.delete(mine)
        await site.until_gone(mine)

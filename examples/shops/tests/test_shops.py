"""Shops in a cluster in memory, and in a service that is a real HTTP server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from shops.api import SHOP, Shop
from shops.reconciler import Shops
from shops.service import HttpShopService
from tests.service import Service, served

from kubelab import ApiServer, InProcessKube
from purekube import CUSTOM_RESOURCE_DEFINITION, ObjectRef
from purekube.ports import NotFound, PatchType
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.machine import SystemClock
from purekube_run.reconcilers.extensions import ExtensionManager
from vworkspace_core.api.labels import FIELD_MANAGER


@attrs.define
class World:
    """A cluster, and the service."""

    kube: InProcessKube
    service: Service

    @asynccontextmanager
    async def operator(self, look_again: float = 600.0) -> AsyncIterator[None]:
        """Run the operator until the block ends."""
        clock = SystemClock()
        events = BackgroundEvents(self.kube, clock, instance="test", field_manager=FIELD_MANAGER)
        shops = Shops(HttpShopService(self.service.url), look_again)
        options = ManagerOptions(Random(0).random)
        made = ExtensionManager(self.kube, clock, events, options, controllers=[shops])
        async with anyio.create_task_group() as group:
            group.start_soon(events.run)
            group.start_soon(made.run)
            yield
            group.cancel_scope.cancel()

    async def create(self, **spec: Any) -> ObjectRef:
        manifest = {**SHOP.kind.manifest("corner", "default"), "spec": {"title": "Corner shop", **spec}}
        await self.kube.create(manifest, kind=SHOP.kind, field_manager="kubectl")
        return ObjectRef(SHOP.kind, "default", "corner")

    async def shop(self, ref: ObjectRef) -> Shop | None:
        try:
            return SHOP.read(await self.kube.get(ref))
        except NotFound:
            return None

    async def until(self, ref: ObjectRef, condition: str, reason: str) -> Shop:
        """Wait until a condition of the present generation is True for a reason."""
        with anyio.fail_after(30):
            while True:
                shop = await self.shop(ref)
                if shop is not None and (found := shop.condition(condition)) is not None:
                    said = found.status, found.reason, found.observed_generation
                    if said == ("True", reason, shop.metadata.generation):
                        return shop
                await anyio.sleep(0.02)


def play(story: Callable[[World], Awaitable[None]]) -> None:
    """Run a story in a world of its own."""

    async def main() -> None:
        with served() as service:
            world = World(InProcessKube(ApiServer(now=SystemClock().now)), service)
            await world.kube.create(SHOP.crd(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")
            await story(world)

    anyio.run(main)


def test_a_shop_is_made_changed_and_removed() -> None:
    async def story(world: World) -> None:
        async with world.operator():
            ref = await world.create()
            shop = await world.until(ref, "Ready", "Succeeded")
            uid = shop.metadata.uid
            assert shop.status.remote_id == f"r-{uid}"
            assert world.service.shops[uid] == {"title": "Corner shop", "shelves": 1}
            await world.kube.patch(
                ref, {"spec": {"shelves": 3}}, patch_type=PatchType.MERGE, field_manager="kubectl-edit"
            )
            await world.until(ref, "Ready", "Succeeded")
            assert world.service.shops[uid]["shelves"] == 3
            await world.kube.delete(ref)
            with anyio.fail_after(30):
                while await world.shop(ref) is not None:
                    await anyio.sleep(0.02)
            assert world.service.shops == {}

    play(story)


def test_a_shop_that_the_service_refuses_is_stalled_and_not_asked_for_again() -> None:
    async def story(world: World) -> None:
        async with world.operator():
            shop = await world.until(await world.create(shelves=51), "Stalled", "Refused")
            stalled = shop.condition("Stalled")
            assert stalled is not None
            assert stalled.message == "at most 50 shelves"
            assert world.service.asked == ["PUT"]

    play(story)


def test_a_service_out_of_order_is_told_and_asked_again() -> None:
    async def story(world: World) -> None:
        world.service.broken = True
        async with world.operator():
            ref = await world.create()
            shop = await world.until(ref, "Reconciling", "Retrying")
            ready = shop.condition("Ready")
            assert ready is not None
            assert "500" in ready.message
            world.service.broken = False
            await world.until(ref, "Ready", "Succeeded")

    play(story)


def test_what_changes_in_the_service_is_found_at_the_next_look_and_mended() -> None:
    async def story(world: World) -> None:
        async with world.operator(look_again=0.05):
            shop = await world.until(await world.create(), "Ready", "Succeeded")
            with anyio.fail_after(30):
                while "GET" not in world.service.asked:
                    await anyio.sleep(0.02)
                assert world.service.asked.count("PUT") == 1
                world.service.shops.clear()
                while shop.metadata.uid not in world.service.shops:
                    await anyio.sleep(0.02)

    play(story)


def test_a_restart_asks_the_service_nothing_and_writes_nothing() -> None:
    async def story(world: World) -> None:
        async with world.operator():
            shop = await world.until(await world.create(), "Ready", "Succeeded")
        async with world.operator():
            await anyio.sleep(0.3)
        again = await world.shop(shop.ref)
        assert again is not None
        assert again.metadata.resource_version == shop.metadata.resource_version
        assert world.service.asked == ["PUT"]

    play(story)


@pytest.mark.parametrize("spec", [{"title": ""}, {"title": "x", "shelves": 0}])
def test_the_api_server_refuses_what_the_classes_do_not_allow(spec: dict[str, Any]) -> None:
    assert SHOP.problems({**SHOP.kind.manifest("corner", "default"), "spec": spec})

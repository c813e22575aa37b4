"""The tests of somebody who has written a reconciler: as they stand here, they could stand in a project of theirs."""

from typing import Protocol, TypeAlias

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purekube.ports import Forbidden
from purekube.reconcilers import Object, Reconciler, Request, Result, Terminal, resource
from purekube_kit import FakeCluster, laws, objects_of
from tests.support.effort import effort

# --- the reconciler --------------------------------------------------------------------------------------------------


@attrs.frozen
class ShopSpec:
    """A shop in somebody's service."""

    image: str
    replicas: int = 1


@attrs.frozen
class ShopStatus:
    """What the service says of it."""

    remote_id: str = ""


Shop: TypeAlias = Object[ShopSpec, ShopStatus]
SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)


class ShopService(Protocol):
    """What is asked of the service."""

    async def put(self, key: str, spec: ShopSpec) -> str: ...

    async def remove(self, key: str) -> None: ...


@attrs.frozen
class Shops(Reconciler[Shop, str]):
    """Keeps a shop in the service for each object."""

    service: ShopService
    kind = SHOP

    async def reconcile(self, request: Request[Shop, str]) -> Result[str]:
        shop = request.object
        if request.deleting:
            await self.service.remove(shop.metadata.uid)
            return Result()
        if shop.spec.replicas > 50:
            raise Terminal("SpecTooLarge", "at most 50 replicas")
        found = await self.service.put(shop.metadata.uid, shop.spec)
        return Result(status=ShopStatus(remote_id=found), requeue_after=600, state=found)


# --- its tests -------------------------------------------------------------------------------------------------------


class FakeShops:
    """The service, in memory."""

    def __init__(self) -> None:
        self.there: dict[str, ShopSpec] = {}
        self.is_away = False

    async def put(self, key: str, spec: ShopSpec) -> str:
        if self.is_away:
            raise ConnectionError("the service does not answer")
        self.there[key] = spec
        return f"remote-{key}"

    async def remove(self, key: str) -> None:
        self.there.pop(key, None)


def test_kit_shop_is_ready() -> None:
    shops = FakeShops()
    with FakeCluster(SHOP) as cluster:
        cluster.run(Shops(shops))
        shop = cluster.until(cluster.create(SHOP, "shop", image="r/x:1", replicas=3), "Ready", within=60)

    assert shop.status.remote_id == f"remote-{shop.metadata.uid}"
    assert shops.there == {shop.metadata.uid: shop.spec}


def test_kit_shop_waits_for_its_service_and_comes_back() -> None:
    shops = FakeShops()
    with FakeCluster(SHOP) as cluster:
        cluster.run(Shops(shops))
        shops.is_away = True
        shop = cluster.create(SHOP, "shop", image="r/x:1")
        shop = cluster.until(shop, lambda shop: shop.condition("Ready") is not None)
        assert "the service does not answer" in str(shop.condition("Ready"))

        shops.is_away = False
        cluster.until(shop, within=300)


def test_kit_shop_that_is_too_large_is_stalled_until_somebody_changes_it() -> None:
    with FakeCluster(SHOP) as cluster:
        cluster.run(Shops(FakeShops()))
        shop = cluster.until(cluster.create(SHOP, "shop", image="r/x:1", replicas=51), "Stalled")
        written = len(cluster.writes)
        cluster.after(3600)
        assert len(cluster.writes) == written

        cluster.until(cluster.change(shop, replicas=50))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_kit_shop_is_removed_once_however_the_process_dies(moment: str) -> None:
    shops = FakeShops()
    with FakeCluster(SHOP) as cluster:
        cluster.run(Shops(shops))
        shop = cluster.until(cluster.create(SHOP, "shop", image="r/x:1"))
        cluster.fault("shops", kill="before" if moment == "before" else "after", times=1)
        cluster.delete(shop)
        cluster.until_gone(shop)

    assert shops.there == {}


def test_kit_shop_tells_what_it_may_not_do() -> None:
    with FakeCluster(SHOP) as cluster:
        cluster.run(Shops(FakeShops()))
        refused = cluster.fault("shops", verb="apply status", refuse=Forbidden("shops/status is forbidden"))
        shop = cluster.create(SHOP, "shop", image="r/x:1")
        cluster.after(10)
        assert cluster.get(shop).conditions == ()

        refused.heal()
        cluster.until(shop, within=600)


@pytest.mark.slow
@settings(max_examples=effort(0.12))
@given(objects_of(SHOP, replicas=st.integers(0, 60)))
def test_kit_shop_keeps_the_laws(shop: Shop) -> None:
    laws.hold(Shops(FakeShops()), shop, outside=lambda shops: shops.service.there)

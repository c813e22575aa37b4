"""The reconciler that `bench.reconcilers` measures: shops with an id in a service, which answers at once.

vworkspace-operator controllers run bench.reconciled_shops:Shops
"""

import hashlib
from typing import TypeAlias

import attrs

from purekube.reconcilers import Object, Reconciler, Request, Result, resource


@attrs.frozen
class ShopSpec:
    """The spec of a shop."""

    title: str
    shelves: int = 1


@attrs.frozen
class ShopStatus:
    """The service's answer."""

    remote_id: str = ""
    shelves: int = 0


Shop: TypeAlias = Object[ShopSpec, ShopStatus]
SHOP = resource("shops.example.com", "v1", "Shop", ShopSpec, ShopStatus)


def put(uid: str, title: str, shelves: int) -> str:
    """Imitate the service: its answer depends on what it is sent."""
    return hashlib.sha256(f"{uid}/{title}/{shelves}".encode()).hexdigest()[:16]


class Shops(Reconciler[Shop, None]):
    """The reconciler. Finalizer, conditions, retries and the rest are the framework's."""

    kind = SHOP

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        if request.deleting or request.settled:
            return Result()
        shop = request.object
        found = put(shop.metadata.uid, shop.spec.title, shop.spec.shelves)
        return Result(ShopStatus(found, shop.spec.shelves))

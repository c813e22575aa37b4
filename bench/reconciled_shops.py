"""What `bench.reconcilers` measures: shops that have an id in a service, which answers at once.

vworkspace-operator controllers run bench.reconciled_shops:Shops
"""

import hashlib
from typing import TypeAlias

import attrs

from vworkspace_core.reconcilers import Object, Reconciler, Request, Result, resource


@attrs.frozen
class ShopSpec:
    """A shop."""

    title: str
    shelves: int = 1


@attrs.frozen
class ShopStatus:
    """What the service said."""

    remote_id: str = ""
    shelves: int = 0


Shop: TypeAlias = Object[ShopSpec, ShopStatus]
SHOP = resource("shops.example.com", "v1", "Shop", ShopSpec, ShopStatus)


def put(uid: str, title: str, shelves: int) -> str:
    """The service: what it answers depends on what it is sent."""
    return hashlib.sha256(f"{uid}/{title}/{shelves}".encode()).hexdigest()[:16]


class Shops(Reconciler[Shop, None]):
    """Finalizer, conditions, retries and the rest are not written here."""

    kind = SHOP

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        if request.deleting or request.settled:
            return Result()
        shop = request.object
        found = put(shop.metadata.uid, shop.spec.title, shop.spec.shelves)
        return Result(ShopStatus(found, shop.spec.shelves))

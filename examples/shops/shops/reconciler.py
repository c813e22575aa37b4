"""Shops of the cluster, made true in the service."""

import attrs

from purekube.reconcilers import Cause, Reconciler, Request, Result, Terminal
from shops.api import SHOP, Shop, ShopStatus
from shops.service import Refused, ShopService


@attrs.frozen
class Shops(Reconciler[Shop, str]):
    """A reconciler that keeps a shop at the service for each Shop object.

    The service does not report changes, so each shop is compared every `look_again` seconds. The state is the ETag of
    the service's last answer.
    """

    service: ShopService
    look_again: float = 600.0
    kind = SHOP

    async def reconcile(self, request: Request[Shop, str]) -> Result[str]:
        """Put the shop, or remove it."""
        shop = request.object
        if request.deleting:
            await self.service.remove(shop.metadata.uid)
            return Result()
        if request.settled:
            return Result(requeue_after=self.look_again)
        etag = request.state if request.cause is Cause.RESYNCED else None
        if etag is not None and await self.service.is_unchanged(shop.metadata.uid, etag):
            return Result(requeue_after=self.look_again, state=etag)
        try:
            found = await self.service.put(shop.metadata.uid, shop.spec)
        except Refused as error:
            raise Terminal("Refused", str(error)) from error
        return Result(ShopStatus(found.id, found.address), requeue_after=self.look_again, state=found.etag)

"""The service of shops: the requests that the reconciler sends, and their implementation over HTTP."""

from typing import Any, Protocol

import attrs
import httpx2

from shops.api import ShopSpec


@attrs.frozen
class RemoteShop:
    """A shop as the service has it. `etag` changes with every change of it."""

    id: str
    address: str
    etag: str


class Refused(Exception):
    """The service does not take such a shop: only another spec can help."""


class ShopService(Protocol):
    """The requests that the reconciler sends. Each may raise errors of the network."""

    async def put(self, uid: str, spec: ShopSpec) -> RemoteShop:
        """Create or change the shop so that it matches the spec. Raises Refused."""
        ...

    async def is_unchanged(self, uid: str, etag: str) -> bool:
        """Report whether the shop exists and still has this ETag."""
        ...

    async def remove(self, uid: str) -> None:
        """Delete the shop, if it exists."""
        ...


@attrs.frozen
class HttpShopService:
    """The service at `url`."""

    url: str
    seconds: float = 10.0

    async def put(self, uid: str, spec: ShopSpec) -> RemoteShop:
        """Send a PUT, which may be repeated."""
        answer = await self._send("PUT", uid, json={"title": spec.title, "shelves": spec.shelves})
        if answer.status_code == 422:
            raise Refused(str(answer.json()["message"]))
        answer.raise_for_status()
        found = answer.json()
        return RemoteShop(found["id"], found["address"], answer.headers["ETag"])

    async def is_unchanged(self, uid: str, etag: str) -> bool:
        """GET with If-None-Match: 304 is yes."""
        answer = await self._send("GET", uid, headers={"If-None-Match": etag})
        return answer.status_code == 304

    async def remove(self, uid: str) -> None:
        """DELETE; a shop that is not there is removed."""
        answer = await self._send("DELETE", uid)
        if answer.status_code != 404:
            answer.raise_for_status()

    async def _send(self, method: str, uid: str, **what: Any) -> httpx2.Response:
        async with httpx2.AsyncClient(base_url=self.url, timeout=self.seconds) as client:
            return await client.request(method, f"/shops/{uid}", **what)

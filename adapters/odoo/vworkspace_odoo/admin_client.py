"""A client of the embedded control plane's admin API, by which tests do what Odoo does (PULL-11).

Odoo adds jobs (units of work) for the operator in a cluster, and reads their results.
"""

import ssl
from collections.abc import Mapping
from typing import Any

import httpx2

from purekube.apimachinery.errors import OperatorError, Permanent, Unavailable
from purekube.apimachinery.secret_material import redact
from vworkspace_odoo.tls import default_verify


class AdminClient:
    """A client of the admin API of an embedded control plane at `url`.

    Calls raise Permanent if the request is refused, and Unavailable if it is not answered.
    """

    def __init__(self, url: str, token: str, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._client = httpx2.AsyncClient(
            base_url=url.rstrip("/") + "/api/admin/",
            headers={"Authorization": f"Bearer {token}"},
            verify=default_verify(url) if ssl_context is None else ssl_context,
        )

    def __repr__(self) -> str:
        return f"AdminClient({redact(str(self._client.base_url))!r})"

    async def aclose(self) -> None:
        """Close the connections to the control plane."""
        await self._client.aclose()

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request to `path`, which is relative to `/api/admin/`, and return the decoded JSON of its answer."""
        try:
            answer = await self._client.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise Unavailable(f"{method} {redact(str(self._client.base_url))}{path}: {type(error).__name__}") from error
        if answer.status_code != 200:
            raise _refused(method, f"{self._client.base_url}{path}", answer)
        return answer.json()


def _refused(method: str, url: str, answer: httpx2.Response) -> OperatorError:
    said = str(redact(f"{method} {url}: {answer.status_code} {answer.text[:200]}"))
    return Permanent(said, status=answer.status_code)

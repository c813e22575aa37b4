"""The access of a measurement to an API server, and a client that costs little."""

import http.client
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import attrs

from kubelab.http.serving import kubeconfig

AGENT = "bench/1"


@attrs.frozen
class Access:
    """An API server's address; the tokens of administrator and operator, and the authority's PEM, if it has them."""

    url: str
    admin: str = attrs.field(default="", repr=False)
    operator: str = attrs.field(default="", repr=False)
    authority: str = ""

    def kubeconfig(self, token: str) -> dict[str, Any]:
        """Return the kubeconfig of the token's user."""
        return kubeconfig(self.url, token or None, authority=self.authority.encode() or None)


class Client:
    """One kept-alive connection, as the administrator."""

    def __init__(self, access: Access | str) -> None:
        self._access = found = Access(access) if isinstance(access, str) else access
        parts = urlsplit(found.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            trust = ssl.create_default_context(cadata=found.authority)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=240, context=trust
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=240)

    def send(self, method: str, path: str, body: bytes | None = None, media: str = "application/json") -> bytes:
        """Send a request that must succeed, and return its answer."""
        self._connection.request(method, path, body, {"content-type": media, **self._headers()})
        reply = self._connection.getresponse()
        told = reply.read()
        assert reply.status < 300, told
        return told

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield the lines of an answer as they arrive."""
        self._connection.request("GET", path, headers=self._headers())
        reply = self._connection.getresponse()
        while row := reply.readline():
            yield row

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _headers(self) -> dict[str, str]:
        known = {"authorization": f"Bearer {self._access.admin}"} if self._access.admin else {}
        return {"user-agent": AGENT, **known}

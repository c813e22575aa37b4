"""The embedded API server in a thread of its own, for tests that block: raw HTTP, subprocesses."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from kubelab.cluster.serving import serving_thread
from kubelab.http.serving import serve_forever
from kubelab.server import ApiServer
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from purekube_kit.kube_apiserver import RealServer


def wall_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


@contextmanager
def served(server: ApiServer, **options: Any) -> Iterator[str]:
    """The URL of a server that serves until the block is left. `options` are those of `serve`."""
    with serving_thread(lambda ready: serve_forever(server, ready=ready, **options)) as thread:
        yield thread.url


@attrs.frozen
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.raw)


class Wire:
    """One kept-alive connection to a URL."""

    def __init__(self, url: str, token: str = "", trust: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.connection = (
            http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
            if trust is None
            else http.client.HTTPSConnection(parts.hostname, parts.port, timeout=PATIENCE, context=trust)
        )
        self._credentials = {"authorization": f"Bearer {token}"} if token else {}

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request; a body that is no text or bytes goes as JSON. Header names with `_` for `-`."""
        raw = body if isinstance(body, str | bytes | None) else json.dumps(body)
        named = {**self._credentials, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if raw is not None:
            named.setdefault("content-type", "application/json")
        self.connection.request(method, path, raw, named)
        reply = self.connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        return Answer(reply.status, found, reply.read())

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


@contextmanager
def wired_to(server: "RealServer", token: str = "") -> Iterator[Wire]:
    """A connection to a kube-apiserver, as its administrator unless a token is given."""
    with wired(server.url, token or server.token, ssl.create_default_context(cadata=server.authority.decode())) as wire:
        yield wire


@contextmanager
def wired(url: str, token: str = "", trust: ssl.SSLContext | None = None) -> Iterator[Wire]:
    """A connection that is closed when the block is left."""
    wire = Wire(url, token, trust)
    try:
        yield wire
    finally:
        wire.close()

"""Registries as applications meet them: with TLS, credentials, an untrusted authority, and faults on demand.

`/v2/` is the pinned OCI registry, which has none of these; `/charts/` is an HTTP chart repository in this process. Four
listeners share both. A fault is set for the first segment of a path, which each test chooses for itself.
"""

import base64
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

import attrs

from kubelab.http.authority import certificates_for
from kubelab.http.certificates import Certificates

HOST: Final = "127.0.0.2"
"""A loopback address for which registry clients do not fall back to HTTP, as they do for 127.0.0.1."""
USER: Final = "puller"
PASSWORD: Final = "correct-horse"
_BASIC: Final = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_DROPPED: Final = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "content-length"})


@attrs.define
class Shared:
    """The state that the listeners share: the OCI registry's port, files by path, faults by first path segment."""

    registry: int
    files: dict[str, bytes] = attrs.field(factory=dict)
    faults: dict[str, int] = attrs.field(factory=dict)


@attrs.frozen
class Addresses:
    """The host and port of each listener, and the authority (PEM) that signed the trusted ones."""

    plain: str
    trusted: str
    private: str
    untrusted: str
    authority: str


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shared: Shared
    asks: bool
    scheme: str

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_any(self) -> None:
        """Answer any request."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        place = self.path.removeprefix("/v2/").removeprefix("/charts/").removeprefix("/-/faults/").partition("/")[0]
        if self.path.startswith("/-/faults/"):
            self._set_fault(place, json.loads(body or b"0"))
        elif self.asks and self.headers.get("authorization") != _BASIC:
            self._say(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', {"www-authenticate": 'Basic realm="charts"'})
        elif place in self.shared.faults:
            status = self.shared.faults[place]
            code = "UNAUTHORIZED" if status == 401 else "UNAVAILABLE"
            self._say(status, json.dumps({"errors": [{"code": code}]}).encode())
        elif self.path.startswith("/charts/"):
            self._serve_file(body)
        else:
            self._forward(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = do_any

    def _set_fault(self, place: str, status: int) -> None:
        if status:
            self.shared.faults[place] = status
        else:
            self.shared.faults.pop(place, None)
        self._say(204, b"")

    def _serve_file(self, body: bytes) -> None:
        match self.command, self.shared.files.get(self.path):
            case "PUT", _:
                self.shared.files[self.path] = body
                self._say(201, b"")
            case _, None:
                self._say(404, b"not found")
            case _, content:
                self._say(200, content, {"content-type": "application/octet-stream"})

    def _forward(self, body: bytes) -> None:
        behind = http.client.HTTPConnection("127.0.0.1", self.shared.registry, timeout=60)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in (*_DROPPED, "authorization")}
        behind.request(self.command, self.path, body, {**headers, "host": self.headers["host"]})
        answer = behind.getresponse()
        content = answer.read()
        kept = {key: value for key, value in answer.getheaders() if key.lower() not in _DROPPED}
        length = answer.getheader("content-length", "") if self.command == "HEAD" else ""
        self._say(answer.status, content, kept, length)
        behind.close()

    def _say(self, status: int, content: bytes, headers: Mapping[str, str] = {}, length: str = "") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if status != 204:
            self.send_header("content-length", length or str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @classmethod
    def listening(cls, shared: Shared, certificates: Certificates | None, *, asks: bool) -> Self:
        """Return a new listener that already serves."""
        handler = type("Handler", (_Handler,), {"shared": shared, "asks": asks})
        server = cls((HOST, 0), handler)
        if certificates is not None:
            context = certificates.server_context()
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing: clients that do not trust the certificate break the connection."""

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server_address[1]}"


@contextmanager
def serving(registry: int) -> Iterator[Addresses]:
    """Serve the registry on that port of 127.0.0.1 through four listeners while the block runs."""
    shared = Shared(registry)
    ours, theirs = (certificates_for((HOST,), datetime.now(UTC)) for _ in range(2))
    servers = [
        _Server.listening(shared, None, asks=False),
        _Server.listening(shared, ours, asks=False),
        _Server.listening(shared, ours, asks=True),
        _Server.listening(shared, theirs, asks=False),
    ]
    try:
        plain, trusted, private, untrusted = (server.address for server in servers)
        yield Addresses(plain, trusted, private, untrusted, ours.authority.decode())
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()

"""The service of shops as a real HTTP server, in the process of the test."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs

MOST = 50


@attrs.define
class Service:
    """The shops that the service holds, and the requests that it got. While `broken`, it answers 500."""

    url: str = ""
    shops: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)
    broken: bool = False

    def answer(self, method: str, uid: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the answer to one request."""
        self.asked.append(method)
        if self.broken:
            return 500, {"message": "out of order"}
        if method == "DELETE":
            return (204, {}) if self.shops.pop(uid, None) is not None else (404, {"message": "no such shop"})
        if method == "GET":
            return (200, self.shops[uid]) if uid in self.shops else (404, {"message": "no such shop"})
        desired = json.loads(body)
        if desired["shelves"] > MOST:
            return 422, {"message": f"at most {MOST} shelves"}
        self.shops[uid] = desired
        return 200, {"id": f"r-{uid}", "address": f"{self.url}/shops/{uid}"}

    def etag(self, uid: str) -> str:
        """Return the ETag of a shop's present content."""
        return '"' + hashlib.sha256(json.dumps(self.shops.get(uid)).encode()).hexdigest()[:16] + '"'


@contextmanager
def served() -> Iterator[Service]:
    """Serve until the block ends."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            uid = self.path.rpartition("/")[2]
            status, found = service.answer(self.command, uid, body)
            if status == 200 and self.headers.get("If-None-Match") == service.etag(uid):
                status = 304
            content = b"" if status in (204, 304) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("ETag", service.etag(uid))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A conversion webhook over HTTPS whose answers a test chooses, for the embedded API server and for a real one."""

import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs

from kubelab.http.authority import certificates_for

Convert = Callable[[dict[str, Any], str], Any]
"""One object and the apiVersion that is asked for; what is to be answered for it."""


@attrs.define
class Webhook:
    """`convert` makes each object; `answer`, where it is set, the whole answer to a review."""

    url: str
    authority: bytes = attrs.field(repr=False)
    convert: Convert
    answer: Callable[[dict[str, Any]], Any] | None = None
    reviews: list[dict[str, Any]] = attrs.field(factory=list)

    def conversion(self, path: str = "/convert") -> dict[str, Any]:
        """`spec.conversion` of a CRD."""
        client = {"url": f"{self.url}{path}", "caBundle": b64encode(self.authority).decode()}
        return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}

    def answered(self, review: dict[str, Any]) -> Any:
        """The answer to one review."""
        self.reviews.append(review)
        if self.answer is not None:
            return self.answer(review)
        request = review["request"]
        converted = [self.convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


@contextmanager
def conversion_webhook(folder: Path, convert: Convert) -> Iterator[Webhook]:
    """It listens until the block is left."""
    made = certificates_for(("localhost", "127.0.0.1"), datetime.now(UTC))
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    webhook = Webhook("", made.authority, convert)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(webhook.answered(review)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    webhook.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield webhook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

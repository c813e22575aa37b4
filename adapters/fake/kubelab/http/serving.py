"""The HTTP server of the embedded API server: the HTTP handler, run by uvicorn at one address."""

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from kubelab.http.app import HttpHandler
from kubelab.http.certificates import Certificates
from kubelab.http.listener import bind, serve_until_cancelled, url_of
from kubelab.http.webhook_calls import Services
from kubelab.model.calls import Caller
from kubelab.model.records import GroupResource, StoredChange
from kubelab.server import ApiServer

# apiserver: server/secure_serving.go, Serve. With uvicorn's 5 seconds, clients that reuse connections hit closed ones.
_IDLE_SECONDS = 90
"""The seconds for which kube-apiserver keeps an idle connection open."""


async def serve_forever(
    server: ApiServer,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    ready: Callable[[str], None] = lambda url: None,
    tokens: Mapping[str, Caller] | None = None,
    gc_delay: float | None = 0.05,
    bookmark_interval: float = 30.0,
    services: Services | None = None,
    tls: Certificates | None = None,
) -> None:
    """Serve `server` over HTTP until cancelled. `ready` is called with the URL once requests are accepted.

    Port 0 takes a free port. Raises OSError (with errno) when the address cannot be bound. `tokens` maps bearer tokens
    to callers; without `tokens` every caller is the administrator. `gc_delay` is how many seconds after a write garbage
    is collected, None for an API server without a garbage collector. Watches get a bookmark every `bookmark_interval`
    seconds. `services` maps (namespace, name) of in-cluster services to base URLs, for admission webhooks. With `tls`,
    a certificate and its key, the server speaks HTTPS; otherwise plain HTTP. On cancellation open watches end cleanly
    before the connections close.
    """
    listener = bind(host, port)
    handler = HttpHandler(server, tokens=tokens, bookmark_interval=bookmark_interval, services=services)
    url = url_of(host, listener, "http" if tls is None else "https")
    config = uvicorn.Config(
        handler,
        lifespan="off",
        log_config=None,
        access_log=False,
        # Streams have ended before; what is left after a second is a client that does not read.
        timeout_graceful_shutdown=1,
        timeout_keep_alive=_IDLE_SECONDS,
        ssl_context_factory=None if tls is None else _shows(tls),
    )
    with _collecting(server, gc_delay):
        await serve_until_cancelled(config, listener, ready=lambda: ready(url), ending=server.streams.end)


@contextmanager
def _collecting(server: ApiServer, delay: float | None) -> Iterator[None]:
    """Run the garbage collector `delay` seconds after each write, sooner than the real controller would."""
    if delay is None:
        yield
        return
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def collect() -> None:
        nonlocal timer
        timer = None
        server.run_gc()

    def on_change(where: GroupResource, change: StoredChange) -> None:
        nonlocal timer
        if timer is None:
            # One run collects for all writes in the meantime; a run for each write would be quadratic when a namespace
            # ends.
            timer = loop.call_later(delay, collect)

    stop = server.store.observe(on_change)
    try:
        yield
    finally:
        stop()
        if timer is not None:
            timer.cancel()


def kubeconfig(url: str, token: str | None = None, *, authority: bytes | None = None) -> dict[str, Any]:
    """Return a kubeconfig for the API server at `url`, with one cluster, one user and one context.

    `token` is the user's bearer token; None means that the user has no credential. `authority` is the certificate, as
    PEM, of the authority that signed the server's certificate.
    """
    name = "kubelab"
    trusted = {} if authority is None else {"certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, **trusted}}],
        "users": [{"name": name, "user": {} if token is None else {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
    }


def _shows(tls: Certificates) -> Callable[..., ssl.SSLContext]:
    return lambda *_: tls.server_context()

"""Running the HTTP face: bind, tell when ready, serve, end cleanly."""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import anyio
import uvicorn

from vworkspace_fake.apiserver.calls import Caller
from vworkspace_fake.apiserver.http.app import HttpFace
from vworkspace_fake.apiserver.http.certificates import Certificates
from vworkspace_fake.apiserver.http.webhooks import Services
from vworkspace_fake.apiserver.records import Change
from vworkspace_fake.apiserver.server import ApiServer
from vworkspace_fake.apiserver.store import GroupResource

__all__ = ["kubeconfig", "serve"]


async def serve(
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
    """Serve until cancelled; `ready` is called with the URL when requests are taken.

    Port 0 takes a free one. Raises OSError (with errno) when the address cannot be bound. `tokens` maps bearer
    tokens to callers; without it every caller is the administrator. `gc_delay` is how many seconds after a
    write garbage is collected, None for a bare API server. `services` maps (namespace, name) of in-cluster
    services to base URLs, for admission webhooks. `tls` is the certificate to show; without it the server
    speaks plain HTTP. On cancellation open watches end cleanly before the connections close.
    """
    listener = _bind(host, port)
    face = HttpFace(server, tokens=tokens, bookmark_interval=bookmark_interval, services=services)
    url = f"{'http' if tls is None else 'https'}://{_shown(host)}:{listener.getsockname()[1]}"
    runner = _Runner(
        uvicorn.Config(
            face,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
            ssl_context_factory=None if tls is None else _shows(tls),
        ),
        lambda: ready(url),
    )
    serving = asyncio.ensure_future(runner.serve(sockets=[listener]))
    try:
        with _collecting(server, gc_delay):
            await asyncio.shield(serving)
    finally:
        with anyio.CancelScope(shield=True):
            runner.should_exit = True
            server.streams.end()
            await serving
            listener.close()


@contextmanager
def _collecting(server: ApiServer, delay: float | None) -> Iterator[None]:
    """Collect garbage `delay` seconds after a write, whoever writes: like a real controller, but quicker."""
    if delay is None:
        yield
        return
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def collect() -> None:
        nonlocal timer
        timer = None
        server.run_gc()

    def on_change(where: GroupResource, change: Change) -> None:
        nonlocal timer
        if timer is None:
            timer = loop.call_later(delay, collect)

    stop = server.store.observe(on_change)
    try:
        yield
    finally:
        stop()
        if timer is not None:
            timer.cancel()


def kubeconfig(url: str, token: str | None = None, *, authority: bytes | None = None) -> dict[str, Any]:
    """A kubeconfig for the served address, with one cluster, user and context.

    `authority` is the certificate, as PEM, of whom the server's own is signed by.
    """
    name = "vworkspace"
    trusted = {} if authority is None else {"certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, **trusted}}],
        "users": [{"name": name, "user": {} if token is None else {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
    }


class _Runner(uvicorn.Server):
    """A uvicorn server that leaves signals to the program and says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Signals are the program's: it cancels us."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self._ready()


def _shows(tls: Certificates) -> Callable[..., ssl.SSLContext]:
    return lambda *_: tls.server_context()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only where the protocol is named; without that every answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host

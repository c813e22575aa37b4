"""Running the HTTP face: bind, tell when ready, serve, end cleanly."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import uvicorn

from vworkspace_fake.apiserver.calls import Caller
from vworkspace_fake.apiserver.http.app import HttpFace
from vworkspace_fake.apiserver.server import ApiServer

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
) -> None:
    """Serve until cancelled; `ready` is called with the URL when requests are taken.

    Port 0 takes a free one. Raises OSError (with errno) when the address cannot be bound. On cancellation
    open watches end cleanly before the connections close.
    """
    listener = _bind(host, port)
    face = HttpFace(server, tokens=tokens, gc_delay=gc_delay, bookmark_interval=bookmark_interval)
    url = f"http://{_shown(host)}:{listener.getsockname()[1]}"
    runner = _Runner(uvicorn.Config(face, lifespan="off", log_config=None, access_log=False), lambda: ready(url))
    serving = asyncio.ensure_future(runner.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        with anyio.CancelScope(shield=True):
            runner.should_exit = True
            server.streams.end()
            await serving
            listener.close()


def kubeconfig(url: str, token: str | None = None) -> dict[str, Any]:
    """A kubeconfig for the served address, with one cluster, user and context."""
    name = "vworkspace"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {} if token is None else {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
    }


class _Runner(uvicorn.Server):
    """A uvicorn server that leaves signals to the program and says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def capture_signals(self) -> Any:
        """Signals are the program's: it cancels us."""
        from contextlib import nullcontext

        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self._ready()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host

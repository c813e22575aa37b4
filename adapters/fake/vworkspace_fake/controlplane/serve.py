"""Serving the embedded control plane with uvicorn, under whatever asyncio task runs it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import anyio
import uvicorn

from vworkspace_fake.controlplane.http import control_plane_app
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_fake.controlplane.waiting import LongPolls

__all__ = ["serve"]


async def serve(
    server: ControlPlaneServer, host: str, port: int, *, admin_token: str, ready: Callable[[str], None]
) -> None:
    """Serve until cancelled; `ready` is called with the base URL once connections are accepted.

    Port 0 takes a free one. Raises OSError when the address cannot be had. On cancellation open polls are
    ended with an empty answer and connections are closed.
    """
    polls = LongPolls(server)
    app = control_plane_app(server, polls, admin_token=admin_token)
    listener = _listen(host, port)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, date_header=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    engine = _Engine(config)
    engine.announce = lambda: ready(_url(host, listener))
    running = asyncio.ensure_future(engine.serve(sockets=[listener]))
    try:
        # Shielded: a cancelled uvicorn would leave its connections behind.
        await asyncio.shield(running)
    finally:
        polls.close()
        engine.should_exit = True
        with anyio.CancelScope(shield=True):
            await running
        listener.close()


class _Engine(uvicorn.Server):
    """uvicorn without its signal handlers: this process has its own."""

    announce: Callable[[], None]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.announce()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _url(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"

"""The HTTP listener of the embedded API server and of the embedded control plane: bind, serve, end cleanly."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import anyio
import uvicorn


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 takes a free port. Raises OSError (with errno) for an unavailable address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's delay only if the protocol is explicit; with the delay every answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # After a restart, connections in TIME-WAIT would hold the port (RFC 9293, section 3.6.1).
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def url_of(host: str, listener: socket.socket, scheme: str = "http") -> str:
    """Return the base URL of a listening socket: `scheme`, the name or address `host`, and the port of the socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"


async def serve_until_cancelled(
    config: uvicorn.Config, listener: socket.socket, *, ready: Callable[[], None], ending: Callable[[], None]
) -> None:
    """Serve the application in `config` with uvicorn on the socket `listener`, until this task is cancelled.

    `ready` is called in this task once requests are accepted. On cancellation `ending` is called, which must end the
    open responses; then uvicorn shuts down and closes its connections cleanly.
    """
    started = asyncio.Event()
    runner = _Runner(config, started.set)
    serving = asyncio.ensure_future(runner.serve(sockets=[listener]))
    starting = asyncio.ensure_future(started.wait())
    with listener:
        try:
            await asyncio.wait((serving, starting), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                ready()
            # uvicorn itself must not be cancelled, or its connections stay open: the end below stops it.
            await asyncio.shield(serving)
        finally:
            starting.cancel()
            with anyio.CancelScope(shield=True):
                runner.end()
                ending()
                await serving


class _Runner(uvicorn.Server):
    """A uvicorn server that leaves signals to the program, reports when it listens, and ends without a pause."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Ask the server to end."""
        self.should_exit = True
        self._ended.set()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Install no signal handlers: the program handles signals and cancels this server."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, then call `ready`."""
        await super().startup(sockets)
        self._ready()

    # uvicorn looks every 0.1 s whether it is to end, pauses for 0.1 s once it is, and looks every 0.1 s whether its
    # connections are closed (uvicorn/server.py): the end of each test with a server would take 0.2 s.
    async def main_loop(self) -> None:
        """Update the date header every second, until the end."""
        while not await self.on_tick(0):
            with anyio.move_on_after(1.0):
                await self._ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the connections; cancel requests that last longer than the grace period."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with anyio.move_on_after(self.config.timeout_graceful_shutdown):
            while self.server_state.connections or self.server_state.tasks:
                await asyncio.sleep(0.005)
        for task in self.server_state.tasks:
            task.cancel()

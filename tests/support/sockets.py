"""A port under test over real sockets, and clients that say as much of a request as a test wants."""

import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal

from purekube_run.process.http import ConnectionLimits, PeerCertificate, bind, serve
from tests.support.patience import PATIENCE

LONG = ConnectionLimits(connections=8, head=3600.0, body=3600.0, whole=3600.0, idle=3600.0)
"""No deadline comes to pass: what makes room is the limit alone."""


@contextmanager
def served(
    application: Any,
    limits: ConnectionLimits,
    tls: ssl.SSLContext | None = None,
    knows: Callable[[PeerCertificate], bool] = lambda certificate: True,
) -> Iterator[tuple[str, int]]:
    listener = bind("127.0.0.1", 0)
    address = listener.getsockname()

    async def run(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        await serve(application, listener, limits=limits, tls=tls, knows=knows, ready=task_status.started)

    with start_blocking_portal() as portal:
        future, _ = portal.start_task(run)
        try:
            yield address
        finally:
            future.cancel()


def connect(stack: ExitStack, address: tuple[str, int], source: str = "") -> socket.socket:
    """A connection, from another address of this machine where `source` names one."""
    came_from = (source, 0) if source else None
    return stack.enter_context(socket.create_connection(address, timeout=PATIENCE, source_address=came_from))


def ask(connection: socket.socket, path: str = "/", body: bytes = b"", *, length: int | None = None) -> None:
    head = f"{'POST' if body or length else 'GET'} {path} HTTP/1.1\r\nhost: h\r\ncontent-length: "
    connection.sendall(f"{head}{len(body) if length is None else length}\r\n\r\n".encode() + body)


def status(connection: socket.socket) -> int:
    """The status of the answer; 0 where the connection ends without one."""
    try:
        line = connection.makefile("rb").readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


def wait_for(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


def ends(connection: socket.socket) -> bool:
    """Waits until the server has ended the connection."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def context(stack: ExitStack, made: Any) -> ssl.SSLContext:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ssl_context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return ssl_context

"""Running a server or the operator as a process: addresses, signals, and errors that say what to do."""

import errno
import signal
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from vworkspace_app.problems import USAGE, CommandError, alone

__all__ = ["address", "refused", "run_until_signal"]


def address(listen: str) -> tuple[str, int]:
    """Host and port of HOST:PORT (`[::1]:0` for IPv6). Raises CommandError for anything else."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--listen {listen}: give HOST:PORT, such as 127.0.0.1:8001", status=USAGE)
    return host, int(port)


def run_until_signal(
    work: Callable[[], Awaitable[None]], *, listen: str = "", stopping: Callable[[], None] = lambda: None
) -> bool:
    """Run `work` until it ends, or until SIGINT or SIGTERM cancels it; tells whether a signal did.

    `stopping` is called when a signal comes, before anything ends; a second signal ends the process at once. Raises
    CommandError when the address `listen` cannot be had.
    """
    try:
        return anyio.run(_with_signals, work, stopping)
    except BaseExceptionGroup as group:
        error = alone(group)
        if listen and isinstance(error, OSError):
            raise refused(error, listen) from error
        raise


async def _with_signals(work: Callable[[], Awaitable[None]], stopping: Callable[[], None]) -> bool:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            await group.start(_watch_signals, scope, stopping)
            await work()
            group.cancel_scope.cancel()
    return scope.cancelled_caught


async def _watch_signals(
    scope: anyio.CancelScope, stopping: Callable[[], None], *, task_status: TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            stopping()
            scope.cancel()
            return


def refused(error: OSError, listen: str) -> CommandError:
    """Why the address `listen` cannot be had, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return CommandError(f"{listen} is in use: stop what listens there, or choose another HOST:PORT")
        case errno.EACCES:
            return CommandError(f"{listen} may not be listened on: choose a port above 1023")
        case errno.EADDRNOTAVAIL:
            return CommandError(f"{listen} is no address of this machine: choose another HOST:PORT")
        case _:
            return CommandError(f"cannot listen on {listen}: {error.strerror or error}")

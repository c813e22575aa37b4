"""Running a server or the operator as a process: addresses, signals, and errors that say what to do."""

import errno
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio
import structlog
from anyio.abc import TaskStatus

from vworkspace_app.process.errors import USAGE, CommandError, alone

T = TypeVar("T")

_log = structlog.get_logger("operator")


def address(listen: str) -> tuple[str, int]:
    """Host and port of HOST:PORT (`[::1]:0` for IPv6). Raises CommandError for anything else."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--listen {listen}: give HOST:PORT, such as 127.0.0.1:8001", status=USAGE)
    return host, int(port)


def run_until_signal(work: Callable[[], Awaitable[None]], *, listen: str = "") -> bool:
    """Run `work` until it ends, or until SIGINT or SIGTERM cancels it; tells whether a signal did.

    A second signal ends the process at once. Raises CommandError when the address `listen` cannot be had.
    """
    with _telling_of_addresses(listen):
        return anyio.run(_with_signals, work)


def run_until_stopped(
    work: Callable[[anyio.Event], Awaitable[None]],
    *,
    grace: float,
    listen: str = "",
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run `work` until it ends. SIGINT and SIGTERM set its event, and cancel it `grace` seconds later (RUN-4).

    `stopping` is called when the signal comes, before anything ends. A second signal ends the process at once. Raises
    CommandError when something had to be cancelled, and when the address `listen` cannot be had.
    """

    async def graceful() -> None:
        stop = anyio.Event()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                await group.start(_watch_for_stop, stop, scope, grace, stopping)
                await work(stop)
                group.cancel_scope.cancel()
        if scope.cancelled_caught:
            raise CommandError(f"stopped, with work unfinished after the grace period of {grace:g} s")

    with _telling_of_addresses(listen):
        anyio.run(graceful)


@asynccontextmanager
async def beside(work: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run `work` while the block runs, and cancel it then."""
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        yield
        group.cancel_scope.cancel()


async def unless(stop: anyio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None when `stop` comes first, which cancels it."""
    result: T | None = None
    async with anyio.create_task_group() as group:

        async def cancel() -> None:
            await stop.wait()
            group.cancel_scope.cancel()

        group.start_soon(cancel)
        result = await work
        group.cancel_scope.cancel()
    return result


@contextmanager
def _telling_of_addresses(listen: str) -> Iterator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        error = alone(group)
        if listen and isinstance(error, OSError):
            raise refused(error, listen) from error
        raise


async def _watch_for_stop(
    stop: anyio.Event,
    scope: anyio.CancelScope,
    grace: float,
    stopping: Callable[[], None],
    *,
    task_status: TaskStatus[None],
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        number = await anext(aiter(signals))
    # From here on a signal does what it does by default: it ends the process. Only then the first one is told, since
    # whoever reads of it may send the second.
    _log.info("stopping: what is in hand is finished first", signal=signal.Signals(number).name, grace=grace)
    stopping()
    stop.set()
    await anyio.sleep(grace)
    scope.cancel()


async def _with_signals(work: Callable[[], Awaitable[None]]) -> bool:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            await group.start(_watch_signals, scope)
            await work()
            group.cancel_scope.cancel()
    return scope.cancelled_caught


async def _watch_signals(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
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

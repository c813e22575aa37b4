"""The running of asynchronous work until it ends or a signal arrives."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio
import structlog
from anyio.abc import TaskStatus

from purekube.apimachinery.errors import unwrap_group
from purekube_run.process.command_line import CommandError, cannot_listen

T = TypeVar("T")

_log = structlog.get_logger("operator")


def run_until_signal(work: Callable[[], Awaitable[None]], *, listen: str = "") -> bool:
    """Run `work` until it ends, or until SIGINT or SIGTERM cancels it. Return whether a signal cancelled it.

    A second signal ends the process immediately. `listen` is the address at which `work` serves, if it serves. Raises
    CommandError if `work` fails because that address cannot be bound.
    """
    with _explaining_addresses(listen):
        return anyio.run(_with_signals, work)


def run_until_stopped(
    work: Callable[[anyio.Event], Awaitable[None]],
    *,
    grace: float,
    drain: float = 0.0,
    listen: str = "",
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run `work` until it ends, and let SIGINT and SIGTERM stop it in two steps (RUN-4).

    First, `drain` seconds after the signal, the event that `work` gets as its argument is set. If `work` still runs
    `grace` seconds later, it is cancelled. `stopping` is called when the signal arrives. A second signal ends the
    process immediately. Raises CommandError if `work` had to be cancelled, or if the address `listen` cannot be bound.
    """

    async def graceful() -> None:
        stop = anyio.Event()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                await group.start(_watch_for_stop, stop, scope, grace, drain, stopping)
                await work(stop)
                group.cancel_scope.cancel()
        if scope.cancelled_caught:
            raise CommandError(f"stopped, with work unfinished after the grace period of {grace:g} s")

    with _explaining_addresses(listen):
        anyio.run(graceful)


@asynccontextmanager
async def run_in_background(work: Callable[[], Coroutine[Any, Any, object]]) -> AsyncIterator[None]:
    """Run `work` while the block of `async with` runs, then cancel it."""
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        yield
        group.cancel_scope.cancel()


async def run_unless_stopped(stop: anyio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`. If `stop` is set before `work` ends, cancel `work` and return None."""
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
def _explaining_addresses(listen: str) -> Iterator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        error = unwrap_group(group)
        if listen and isinstance(error, OSError):
            raise cannot_listen(error, listen) from error
        raise


async def _watch_for_stop(
    stop: anyio.Event,
    scope: anyio.CancelScope,
    grace: float,
    drain: float,
    stopping: Callable[[], None],
    *,
    task_status: TaskStatus[None],
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        number = await anext(aiter(signals))
    # From here on a signal has its default effect: it ends the process. The first signal is logged only now, since a
    # reader of the log may send the second one.
    _log.info("stopping: what is in hand is finished first", signal=signal.Signals(number).name, grace=grace)
    stopping()
    await anyio.sleep(drain)
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

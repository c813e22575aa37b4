"""Calls of user code: each in its own task, within a time limit, with every exception contained.

User code that cancels itself, or lets the cancellation of an awaited task propagate, would otherwise cancel the worker
and with it all other workers. A call counts as ended only when its task has ended, so that it never overlaps the next
call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeAlias, TypeVar

import anyio
import attrs
import structlog

T = TypeVar("T")

_log = structlog.get_logger("operator")

_AGAIN: Final = 1.0
"""The seconds after which a cancelled task of user code that does not end is cancelled again."""
LEFT_ALONE: Final = 10.0
"""The maximum seconds to wait for a cancelled task of user code, which may still clean up."""


@attrs.frozen
class CallReturned(Generic[T]):
    """The outcome of a call of user code that returned a value."""

    value: T


@attrs.frozen
class CallRaised:
    """The outcome of a call of user code that raised an error."""

    error: BaseException


@attrs.frozen
class CutOff:
    """The outcome of a call of user code that was cancelled because it exceeded its time limit."""

    seconds: float


Answer: TypeAlias = CallReturned[T] | CallRaised | CutOff


async def isolated(work: Callable[[], Awaitable[T]], *, limit: float | None) -> Answer[T]:
    """Run `work` in its own task and return its outcome. After `limit` seconds, cancel the task; None means no limit.

    Exceptions become part of the outcome, except those that end the process, which are raised.
    """
    task = asyncio.create_task(guarded(work))
    try:
        with anyio.move_on_after(limit):
            await asyncio.wait({task})
        if not task.done():
            await _end(task, None)
            return CutOff(limit or 0.0)
    finally:
        if not task.done():  # the worker itself is cancelled
            await _end(task, LEFT_ALONE)
    if task.cancelled():
        return CallRaised(asyncio.CancelledError())
    return task.result()


async def guarded(work: Callable[[], Awaitable[T]]) -> CallReturned[T] | CallRaised:
    """Run `work` in the current task and return its outcome. Only exceptions that end the process are raised."""
    try:
        return CallReturned(await work())
    # asyncio lets a SystemExit in a task end the whole loop (asyncio/tasks.py, Task.__step).
    except (Exception, asyncio.CancelledError, SystemExit, GeneratorExit) as error:
        return CallRaised(error)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise
        return CallRaised(group)


async def _end(task: "asyncio.Task[CallReturned[T] | CallRaised]", patience: float | None) -> None:
    """Cancel a task again and again until it ends, or for `patience` seconds.

    A task that survives its first cancellation is logged: until it ends, its object must not be reconciled again.
    """
    waited = 0.0
    with anyio.CancelScope(shield=True):
        while not task.done() and (patience is None or waited < patience):
            task.cancel()
            await asyncio.wait({task}, timeout=_AGAIN)
            waited += _AGAIN
            if not task.done() and waited == _AGAIN:
                _log.warning("a call that is cancelled goes on; its object is not worked on until it ends")

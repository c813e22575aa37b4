"""Calls of code that is not ours: in a task of their own, within a time limit, and whatever they raise stays there.

A task of its own: code that cancels itself, or lets the cancellation of something that it awaited through, would
otherwise take the worker with it, and all the others. A call is over when its task is: nothing of it goes on beside the
next one.
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
"""Seconds after which a task that does not end is cancelled again."""
_LEFT_ALONE: Final = 10.0
"""For how long the end of the process waits for such a task."""


@attrs.frozen
class Answered(Generic[T]):
    """What it returned."""

    value: T


@attrs.frozen
class Refused:
    """What it raised."""

    error: BaseException


@attrs.frozen
class CutOff:
    """It took longer than this."""

    seconds: float


Answer: TypeAlias = Answered[T] | Refused | CutOff


async def isolated(work: Callable[[], Awaitable[T]], *, limit: float | None) -> Answer[T]:
    """Do `work` for `limit` seconds at most; raises nothing of it but what ends the process."""
    task = asyncio.create_task(_guarded(work))
    try:
        with anyio.move_on_after(limit):
            await asyncio.wait({task})
        if not task.done():
            await _end(task, None)
            return CutOff(limit or 0.0)
    finally:
        if not task.done():  # the worker itself is cancelled
            await _end(task, _LEFT_ALONE)
    if task.cancelled():
        return Refused(asyncio.CancelledError())
    return task.result()


async def _guarded(work: Callable[[], Awaitable[T]]) -> Answered[T] | Refused:
    try:
        return Answered(await work())
    except (Exception, asyncio.CancelledError, SystemExit, GeneratorExit) as error:
        return Refused(error)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:
            raise
        return Refused(group)


async def _end(task: "asyncio.Task[Answered[T] | Refused]", patience: float | None) -> None:
    """Cancel until it ends: a key is not worked on twice. One that never ends is told of, once."""
    waited = 0.0
    with anyio.CancelScope(shield=True):
        while not task.done() and (patience is None or waited < patience):
            task.cancel()
            await asyncio.wait({task}, timeout=_AGAIN)
            waited += _AGAIN
            if not task.done() and waited == _AGAIN:
                _log.warning("a call that is cancelled goes on; its object is not worked on until it ends")

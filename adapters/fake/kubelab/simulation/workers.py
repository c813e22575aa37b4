"""The number of objects on which a simulated controller works at once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

Together: TypeAlias = "Callable[[Sequence[Callable[[], Awaitable[None]]]], Awaitable[None]]"
"""A function that runs pieces of work on different objects, and returns when all of them are done."""


async def in_turn(pieces: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run the functions one after the other, in order, so that a simulation can be replayed."""
    for piece in pieces:
        await piece()


def workers(count: int) -> Together:
    """Return a runner of up to `count` functions at once, as controllers with so many workers. Needs asyncio's event
    loop.
    """

    async def together(pieces: Sequence[Callable[[], Awaitable[None]]]) -> None:
        import asyncio

        waiting = iter(pieces)

        async def worker() -> None:
            for piece in waiting:
                await piece()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(count, len(pieces))):
                tasks.create_task(worker())

    return together

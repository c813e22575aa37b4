"""How many objects a simulated controller works on at once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

Together: TypeAlias = "Callable[[Sequence[Callable[[], Awaitable[None]]]], Awaitable[None]]"
"""How pieces of work on different objects are done; returns when all of them are."""


async def in_turn(pieces: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """One after the other, in order: what a simulation replays."""
    for piece in pieces:
        await piece()


def workers(count: int) -> Together:
    """Up to `count` at once, as controllers with so many workers do. Needs asyncio's event loop."""

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

"""Simulated controllers against any API server: lists, watches and works until it is cancelled.

asyncio is imported only when `follow_and_work` is called: simulations under a virtual clock drive the simulators
without any event loop.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from vworkspace_core.apimachinery.errors import Expired, OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.ports import Clock, KubeApi, WatchEventType

if TYPE_CHECKING:
    import asyncio


_RELIST_SECONDS: Final = 1.0

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


class Simulator(Protocol):
    """What a set of simulated controllers has to offer to be run beside an API server."""

    @property
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds that are listed and watched, each with its label selector."""
        ...

    def tell_with(self, look_again: Callable[[], None]) -> None:
        """Have `look_again` called when something came to be due other than by what is observed."""
        ...

    def observe(self, kind: Kind, manifest: Manifest, now: datetime) -> None:
        """Take in one object as it is now."""
        ...

    def forget(self, ref: ObjectRef, now: datetime) -> None:
        """Take in that an object is gone."""
        ...

    def known(self, kind: Kind) -> Sequence[ObjectRef]:
        """References to the observed objects of a kind."""
        ...

    async def work(self, now: datetime) -> bool:
        """Do what is due at `now`; whether there was anything."""
        ...

    def next_wake_up(self) -> datetime | None:
        """When something is due next, if nothing changes until then."""
        ...


async def follow_and_work(api: KubeApi, clock: Clock, simulator: Simulator) -> None:
    """Simulate until cancelled. Needs asyncio's event loop.

    An API server that is away is tried again every second; a kind that is not served is waited for.
    """
    import asyncio

    changed = asyncio.Event()
    simulator.tell_with(changed.set)
    async with asyncio.TaskGroup() as tasks:
        for kind, selector in simulator.watched:
            tasks.create_task(_observe(api, clock, simulator, kind, selector, changed))
        while True:
            changed.clear()
            now = clock.now()
            while await simulator.work(now):
                now = clock.now()
            await _rest(clock, simulator, changed)


async def _rest(clock: Clock, simulator: Simulator, changed: "asyncio.Event") -> None:
    """Until something changes or is due."""
    import asyncio

    due = simulator.next_wake_up()
    waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(changed.wait())}
    if due is not None:
        seconds = max(0.0, (due - clock.now()).total_seconds())
        waits.add(asyncio.ensure_future(clock.sleep(seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _observe(
    api: KubeApi, clock: Clock, simulator: Simulator, kind: Kind, selector: str, changed: "asyncio.Event"
) -> None:
    """List, then watch, for ever."""
    while True:
        try:
            version = await _list(api, clock, simulator, kind, selector, changed)
            await _watch(api, clock, simulator, kind, selector, version, changed)
        except Expired:
            continue
        except OperatorError:
            pass  # away, or the kind is not served yet
        await clock.sleep(_RELIST_SECONDS)


async def _list(
    api: KubeApi, clock: Clock, simulator: Simulator, kind: Kind, selector: str, changed: "asyncio.Event"
) -> str:
    page = await api.list(kind, label_selector=selector)
    present = {ref_of(manifest, kind) for manifest in page.items}
    for manifest in page.items:
        simulator.observe(kind, manifest, clock.now())
    for ref in set(simulator.known(kind)) - present:
        simulator.forget(ref, clock.now())
    changed.set()
    return page.resource_version


async def _watch(
    api: KubeApi,
    clock: Clock,
    simulator: Simulator,
    kind: Kind,
    selector: str,
    version: str,
    changed: "asyncio.Event",
) -> None:
    """Take in changes until the server ends the stream."""
    async for event in api.watch(kind, label_selector=selector, resource_version=version):
        match event.type:
            case WatchEventType.BOOKMARK:
                continue
            case WatchEventType.DELETED:
                simulator.forget(ref_of(event.object, kind), clock.now())
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                simulator.observe(kind, event.object, clock.now())
        changed.set()

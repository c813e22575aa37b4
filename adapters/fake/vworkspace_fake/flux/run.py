"""The simulated Flux against any API server: lists, watches and works until it is cancelled.

asyncio is imported only when `run` is called: simulations under a virtual clock use
`vworkspace_fake.flux.simulator` without any event loop.
"""

from typing import TYPE_CHECKING, Any, Final

from vworkspace_core.errors import Expired, OperatorError
from vworkspace_core.manifest import Kind, ref_of
from vworkspace_core.ports import Clock, KubeApi, WatchEventType
from vworkspace_fake.flux.simulator import FluxSimulator
from vworkspace_fake.flux.triggers import CONFIG_KINDS, RECONCILED_KINDS, WATCH_LABEL

if TYPE_CHECKING:
    import asyncio

__all__ = ["run"]

_RELIST_SECONDS: Final = 1.0


async def run(api: KubeApi, clock: Clock, simulator: FluxSimulator | None = None) -> None:
    """Simulate Flux until cancelled. Keep `simulator` (made with the same `api`) to change its behaviour meanwhile.

    Needs asyncio's event loop. An API server that is away is tried again every second; a kind that is
    not served is waited for.
    """
    import asyncio

    flux = simulator or FluxSimulator(api)
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for kind in (*RECONCILED_KINDS, *CONFIG_KINDS):
            tasks.create_task(_observe(api, clock, flux, kind, changed))
        while True:
            changed.clear()
            now = clock.now()
            while await flux.work(now):
                now = clock.now()
            await _rest(clock, flux, changed)


async def _rest(clock: Clock, flux: FluxSimulator, changed: "asyncio.Event") -> None:
    """Until something changes or is due."""
    import asyncio

    due = flux.next_wake_up()
    waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(changed.wait())}
    if due is not None:
        seconds = max(0.0, (due - clock.now()).total_seconds())
        waits.add(asyncio.ensure_future(clock.sleep(seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _observe(api: KubeApi, clock: Clock, flux: FluxSimulator, kind: Kind, changed: "asyncio.Event") -> None:
    """List, then watch, for ever."""
    while True:
        try:
            version = await _list(api, clock, flux, kind, changed)
            await _watch(api, clock, flux, kind, version, changed)
        except Expired:
            continue
        except OperatorError:
            pass  # away, or the kind is not served yet
        await clock.sleep(_RELIST_SECONDS)


async def _list(api: KubeApi, clock: Clock, flux: FluxSimulator, kind: Kind, changed: "asyncio.Event") -> str:
    page = await api.list(kind, label_selector=_selector(kind))
    present = {ref_of(manifest, kind) for manifest in page.items}
    for manifest in page.items:
        flux.observe(kind, manifest, clock.now())
    for ref in set(flux.known(kind)) - present:
        flux.forget(ref, clock.now())
    changed.set()
    return page.resource_version


async def _watch(
    api: KubeApi, clock: Clock, flux: FluxSimulator, kind: Kind, version: str, changed: "asyncio.Event"
) -> None:
    """Take in changes until the server ends the stream."""
    async for event in api.watch(kind, label_selector=_selector(kind), resource_version=version):
        match event.type:
            case WatchEventType.BOOKMARK:
                continue
            case WatchEventType.DELETED:
                flux.forget(ref_of(event.object, kind), clock.now())
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                flux.observe(kind, event.object, clock.now())
        changed.set()


def _selector(kind: Kind) -> str:
    return WATCH_LABEL if kind in CONFIG_KINDS else ""

"""Simulated controllers run against any API server: they list and watch objects and reconcile them until cancelled.

Listing and watching work as in client-go's Reflector.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, Protocol

import attrs

from kubelab.simulation.simulator import Simulator
from purekube.apimachinery.errors import Expired, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ref_of
from purekube.ports import Clock, KubeApi, WatchEvent, WatchEventType

if TYPE_CHECKING:
    import asyncio


class ReflectorTarget(Protocol):
    """A receiver of the objects of one kind and of their changes."""

    def replace(self, items: Sequence[Manifest]) -> None:
        """Replace all known objects of the kind by `items`."""
        ...

    def handle(self, event: WatchEvent) -> None:
        """Handle an object that was added, modified or deleted."""
        ...


async def reflect(
    api: KubeApi,
    kind: Kind,
    target: ReflectorTarget,
    pause: Callable[[], Awaitable[None]],
    *,
    label_selector: str = "",
    namespace: str | None = None,
) -> Never:
    """List and watch a kind, and pass every change to `target`, until cancelled.

    When the watch ends or the server returns an error, await `pause` and list the kind again. After the error that the
    watch's resourceVersion is too old (410), list without a pause (W-11). `label_selector` and `namespace` limit the
    objects; by default all objects of the kind are watched.
    """
    while True:
        try:
            page = await api.list(kind, namespace=namespace, label_selector=label_selector)
            target.replace(page.items)
            stream = api.watch(
                kind, namespace=namespace, label_selector=label_selector, resource_version=page.resource_version
            )
            async for event in stream:
                if event.type is not WatchEventType.BOOKMARK:
                    target.handle(event)
        except Expired:
            continue
        except OperatorError:
            pass
        await pause()


_RELIST_SECONDS: Final = 1.0


async def run_simulator(api: KubeApi, clock: Clock, simulator: Simulator) -> None:
    """Run the simulated controllers in `simulator` against the API server `api`, until cancelled.

    The function needs asyncio's event loop. If the API server does not answer, or does not serve a kind yet, the kind
    is listed again every second.
    """
    import asyncio

    changed = asyncio.Event()
    simulator.set_waker(changed.set)
    async with asyncio.TaskGroup() as tasks:
        for kind, selector in simulator.watched:
            observer = _Observer(simulator, clock, kind, changed)
            pause = partial(clock.sleep, _RELIST_SECONDS)
            tasks.create_task(reflect(api, kind, observer, pause, label_selector=selector))
        while True:
            changed.clear()
            now = clock.now()
            while await simulator.work(now):
                now = clock.now()
            await _rest(clock, simulator, changed)


async def _rest(clock: Clock, simulator: Simulator, changed: "asyncio.Event") -> None:
    """Wait until an observed object changes or a pass is due."""
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


@attrs.frozen
class _Observer:
    """A reflector target that passes the changes of one kind to the simulator."""

    simulator: Simulator
    clock: Clock
    kind: Kind
    changed: "asyncio.Event"

    def replace(self, items: Sequence[Manifest]) -> None:
        present = {ref_of(manifest, self.kind) for manifest in items}
        for manifest in items:
            self.simulator.observe(self.kind, manifest, self.clock.now())
        for ref in set(self.simulator.known(self.kind)) - present:
            self.simulator.forget(ref, self.clock.now())
        self.changed.set()

    def handle(self, event: WatchEvent) -> None:
        if event.type is WatchEventType.DELETED:
            self.simulator.forget(ref_of(event.object, self.kind), self.clock.now())
        else:
            self.simulator.observe(self.kind, event.object, self.clock.now())
        self.changed.set()

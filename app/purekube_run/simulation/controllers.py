"""The simulated controllers of a cluster, such as Flux or that of Deployments.

They poll their watches, which costs nothing while nothing changes.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import attrs

from kubelab.clock import VirtualTimeLoop
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.failure import ApiFailure
from kubelab.simulation.effects import list_all
from kubelab.simulation.simulator import Simulator
from kubelab.storage.watch_stream import WatchStream
from purekube.apimachinery.manifest import Kind, ref_of
from purekube.ports import WatchEventType

_MOST_ROUNDS = 1_000
_EPSILON = 1e-6
"""The minimum seconds until a timer fires, so that time passes before the same work is due again."""


class NoEnd(RuntimeError):
    """The error raised when simulated controllers stay busy forever without time passing.

    They undo each other's writes, or their own.
    """


@attrs.define(eq=False)
class _Feed:
    """The watch of one kind by one simulated controller. `stream` is None until the API server serves the kind."""

    simulator: Simulator
    kind: Kind
    selector: str
    stream: WatchStream | None = None


class SimulatedControllers:
    """The simulated controllers of one API server, which run when `work` is called."""

    def __init__(self, api: InProcessKube, simulators: Sequence[Simulator], now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self.simulators = simulators
        self._feeds = [_Feed(each, kind, selector) for each in simulators for kind, selector in each.watched]
        self._ready: dict[int, _Feed] = dict(enumerate(self._feeds))
        self._numbers = {id(feed): number for number, feed in enumerate(self._feeds)}
        self._resources = -1
        self._due: datetime | None = None
        """The result of `next_wake_up` at the end of the last `work`."""
        self._alarm: asyncio.TimerHandle | None = None

    def work(self) -> bool:
        """Run the simulated controllers until they have no more work at the present time. Return whether they had any.

        Raises NoEnd if they do not stop.
        """
        worked = False
        for _ in range(_MOST_ROUNDS):
            self._due = self.next_wake_up()
            if not self._has_work:
                return worked
            observed = self._observe()
            passed = any(self._pass(simulator) for simulator in self.simulators)
            if not observed and not passed:
                return worked
            worked = True
        raise NoEnd("the simulated controllers do not come to an end")

    @property
    def _has_work(self) -> bool:
        """Report whether there may be work now.

        That is so if a watch has events, if a simulated controller is due, or if the kinds that are served have
        changed.
        """
        if self._ready or self._resources != self._api.server.registry.generation:
            return True
        return self._due is not None and self._due <= self._now()

    def _pass(self, simulator: Simulator) -> bool:
        due, now = simulator.next_wake_up(), self._now()
        return due is not None and due <= now and run_sync(simulator.work(now))

    def forget(self) -> None:
        """Let the simulated controllers list all objects again, as after a restart."""
        for number, feed in enumerate(self._feeds):
            if feed.stream is not None:
                feed.stream.end()
            self._ready[number] = feed

    def plan(self, loop: VirtualTimeLoop) -> bool:
        """Set a timer of `loop` for the next time at which a simulated controller is due, so that virtual time advances
        to it.

        Return False if no controller is ever due, or if a timer is already set for that time or earlier; otherwise
        True. Call this only after `work`, which has found out that time.
        """
        if (due := self._due) is None:
            return False
        moment = max((due - loop.start).total_seconds(), loop.time() + _EPSILON)
        if self._alarm is not None:
            if loop.time() < self._alarm.when() <= moment:
                return False
            self._alarm.cancel()
        self._alarm = loop.call_at(moment, do_nothing)
        return True

    def next_wake_up(self) -> datetime | None:
        """Return the time at which the next simulated controller is due, or None if none is.

        A change of an object may make a controller due earlier.
        """
        first = None
        for simulator in self.simulators:
            due = simulator.next_wake_up()
            if due is not None and (first is None or due < first):
                first = due
        return first

    def next_work(self) -> datetime | None:
        """Return the time at which a simulated controller has work next, or None if it never has.

        Unlike `next_wake_up`, this ignores runs at regular intervals.
        """
        return min((due for each in self.simulators if (due := each.next_work()) is not None), default=None)

    def _observe(self) -> bool:
        """Pass the pending watch events to the simulators. Return whether any watch was ready to read."""
        if self._resources != self._api.server.registry.generation:
            self._resources = self._api.server.registry.generation
            self._ready |= {number: feed for number, feed in enumerate(self._feeds) if feed.stream is None}
        ready, self._ready = self._ready, {}
        for number in sorted(ready):
            self._read(ready[number])
        return bool(ready)

    def _read(self, feed: _Feed) -> None:
        if feed.stream is None or feed.stream.ended:
            self._list(feed)
            return
        for event in feed.stream.drain():
            if event.type is WatchEventType.DELETED:
                feed.simulator.forget(ref_of(event.object, feed.kind), self._now())
            elif event.type is not WatchEventType.BOOKMARK:
                feed.simulator.observe(feed.kind, event.object, self._now())

    def _list(self, feed: _Feed) -> None:
        """List all objects of the kind in `feed` and watch later changes.

        Do nothing if the API server does not serve the kind.
        """
        feed.stream = None
        objects = run_sync(list_all(self._api, feed.kind, selector=feed.selector))
        present = {ref_of(manifest, feed.kind): manifest for manifest in objects}
        for manifest in present.values():
            feed.simulator.observe(feed.kind, manifest, self._now())
        for ref in feed.simulator.known(feed.kind):
            if ref not in present:
                feed.simulator.forget(ref, self._now())
        try:
            feed.stream = self._api.open_watch(
                feed.kind, label_selector=feed.selector, resource_version=str(self._api.server.store.version)
            )
        except ApiFailure:
            return
        feed.stream.on_ready = partial(self._note, feed)

    def _note(self, feed: _Feed) -> None:
        self._ready[self._numbers[id(feed)]] = feed


def do_nothing() -> None:
    """Do nothing. This is the callback of timers whose only purpose is that virtual time advances to them."""

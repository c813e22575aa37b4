"""The engine of simulated controllers: it observes objects through a `KubeApi`, and runs reconcile passes over them.

A simulator is polled: `tick(now)` does everything that is due and returns; nothing runs in between. With the in-memory
API server it needs no event loop. `kubelab.simulation.running` runs a simulator against any API server.

The engine below is shared: the work queue with its backoff, the observed objects, and the passes in progress. A
subclass for a set of controllers defines the kinds that they watch and reconcile. It also answers the passes' requests
to systems other than the API server, such as a registry.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Final

import attrs

from kubelab.inprocess import run_sync
from kubelab.simulation.effects import ControllerResult, Effect, PassStep, Question, Sleep, failed, list_all
from kubelab.simulation.queue import DueTimes, FailureBackoff, Together, in_turn
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.ports import KubeApi

_log = logging.getLogger(__name__)

_MAX_STEPS: Final = 10_000


class ObservedObjects(dict[ObjectRef, Manifest]):
    """The objects that simulated controllers have listed or watched, each in the state in which it was last seen.

    A subclass may keep indexes of the objects.
    """

    def put(self, ref: ObjectRef, manifest: Manifest) -> None:
        """Store an object's present state."""
        self[ref] = manifest

    def drop(self, ref: ObjectRef) -> Manifest | None:
        """Remove an object. Return its last state, or None if the object was not known."""
        return self.pop(ref, None)


@attrs.frozen
class ControllerPass:
    """A reconcile pass that is about to begin. `field_manager` is the manager of all its writes.

    `steps` is the generator that yields the requests of the pass (reads, writes, pauses), is sent the answers, and
    returns the result of the pass.
    """

    field_manager: str
    steps: PassStep[ControllerResult]


@attrs.define
class _UnderWay:
    """A reconcile pass in progress, which sleeps until `until`.

    If the object changes meanwhile, `again` is set, and another pass follows this one.
    """

    begun: ControllerPass
    until: datetime
    again: bool = False


class Simulator(ABC):
    """The engine that runs simulated controllers. `title` names the controllers in errors.

    `together` runs the passes over the objects that are due: `in_turn` runs them one by one, and the result of
    `workers(n)` runs up to `n` of them at once, as real controllers do. `objects` stores the observed objects.
    """

    title: ClassVar[str] = "the simulated controllers"
    recovers: bool = False

    def __init__(self, api: KubeApi, objects: ObservedObjects | None = None, *, together: Together = in_turn) -> None:
        self._objects = ObservedObjects() if objects is None else objects
        self._api = api
        self._together = together
        self._due = DueTimes()
        self._passes: dict[ObjectRef, _UnderWay] = {}
        self._failures: Counter[ObjectRef] = Counter()
        self._last_errors: dict[ObjectRef, str] = {}
        self._now: datetime | None = None
        self._wake: Callable[[], None] = lambda: None

    # --- what a set of controllers is ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def watched(self) -> Sequence[tuple[Kind, str]]:
        """The kinds whose objects the simulated controllers list and watch, each with the label selector to use."""

    @property
    @abstractmethod
    def backoff(self) -> FailureBackoff:
        """The rule for the delays after which a failed pass over an object is repeated."""

    @property
    def watch_latency_seconds(self) -> float:
        """The seconds from the first observation of a new object until a pass over it may begin; 0 by default.

        They imitate the time that a real watch needs to report the object.
        """
        return 0.0

    @abstractmethod
    def _affected(self, ref: ObjectRef, old: Manifest | None, new: Manifest | None) -> Iterable[ObjectRef]:
        """Return the objects to reconcile after the object `ref` changed from `old` to `new`.

        `old` or `new` is None if the object did not exist before or does not exist now.
        """

    @abstractmethod
    def _begin(self, ref: ObjectRef, now: datetime) -> ControllerPass:
        """Return a new reconcile pass over the object `ref`.

        The simulator passes only the reference: the pass reads the object itself.
        """

    @abstractmethod
    async def _answer(self, question: Question[Any]) -> Any:
        """Return the answer to a question that a reconcile pass asks. May raise the errors of `KubeApi`."""

    # --- observing -------------------------------------------------------------------------------------------------

    @property
    def errors(self) -> dict[ObjectRef, str]:
        """A mapping from each object whose last pass failed to that pass's error."""
        return dict(self._last_errors)

    def known(self, kind: Kind) -> Sequence[ObjectRef]:
        """Return references to the observed objects of a kind."""
        return tuple(ref for ref in self._objects if ref.kind == kind)

    def set_waker(self, wake: Callable[[], None]) -> None:
        """Set the function to call when an object becomes due for a reason other than an observed change.

        `run_simulator` sets a function that ends its waiting, so that the pass over the object begins at once.
        """
        self._wake = wake

    def observe(self, kind: Kind, manifest: Manifest, now: datetime) -> None:
        """Record an object's present state, as a watch would report it.

        If the state has changed, queue the objects that have to be reconciled because of it.
        """
        ref = ref_of(manifest, kind)
        old = self._objects.get(ref)
        if old == manifest:
            return
        self._now = now
        self._objects.put(ref, manifest)
        if self.watch_latency_seconds > 0 and (old is None or _uid(old) != _uid(manifest)):
            self._due.hold(ref, now + timedelta(seconds=self.watch_latency_seconds))
        self._trigger(self._affected(ref, old, manifest), now)

    def forget(self, ref: ObjectRef, now: datetime) -> None:
        """Record that an object was deleted, and queue the objects that have to be reconciled because of it."""
        old = self._objects.drop(ref)
        self._due.drop(ref)
        self._failures.pop(ref, None)
        self._last_errors.pop(ref, None)
        self._trigger(self._affected(ref, old, None), now)

    def _trigger(self, refs: Iterable[ObjectRef], now: datetime) -> None:
        for ref in refs:
            busy = self._passes.get(ref)
            if busy is not None:
                # client-go: util/workqueue/queue.go: an object that changes while it is processed is queued again by
                # Done.
                busy.again = True
            else:
                self._due.add(ref, now)

    def crash(self) -> None:
        """Drop the passes in progress, the queue and the observed objects, as a crash of the controllers does."""
        self._passes.clear()
        self._objects.clear()
        self._due.clear()
        self._failures.clear()

    # --- working ---------------------------------------------------------------------------------------------------

    def next_wake_up(self) -> datetime | None:
        """Return when the next pass begins or continues if no object changes until then, or None if there is none.

        A pass in progress continues when its sleep ends.
        """
        return self._first(self._due.first())

    def next_work(self) -> datetime | None:
        """Return when the next pass with work left begins or continues, or None if there is none.

        A pass in progress counts, and continues when its sleep ends. Passes that only follow at the end of a regular
        interval do not count.
        """
        return self._first(self._due.first_work())

    def _first(self, due: datetime | None) -> datetime | None:
        if not self._passes:
            return due
        busy = (item.until for item in self._passes.values())
        return min((*busy, *(() if due is None else (due,))), default=None)

    async def work(self, now: datetime) -> bool:
        """Begin and continue the passes that are due at `now`. Return whether any pass was due."""
        self._now = now
        due = self._due.at(now)
        await self._together([partial(self._take, ref, now) for ref in due])
        busy = sorted(ref for ref, item in self._passes.items() if item.until <= now)
        await self._together([partial(self._resume, ref) for ref in busy])
        return bool(due or busy)

    async def _take(self, ref: ObjectRef, now: datetime) -> None:
        """Begin a pass over an object that is due, unless another pass over this object is in progress.

        If passes run at once, the object may have been deleted before its pass begins, and may change while it runs.
        """
        if not self._due.take(ref):
            return
        busy = self._passes.get(ref)
        if busy is not None:
            busy.again = True
            return
        item = self._passes[ref] = _UnderWay(self._begin(ref, now), now)
        await self._continue(ref, item, None, now)

    async def _resume(self, ref: ObjectRef) -> None:
        item = self._passes.get(ref)
        if item is not None:
            await self._continue(ref, item, item.until, item.until)

    async def _continue(self, ref: ObjectRef, item: _UnderWay, answer: Any, now: datetime) -> None:
        """Perform the effects of a pass until the pass sleeps or ends.

        `answer` is sent to the pass first; for a new pass it is None.
        """
        stop = await self._converse(item.begun, answer)
        if isinstance(stop, Sleep):
            item.until = now + timedelta(seconds=stop.seconds)
            return
        if self._passes.get(ref) is not item:
            return
        del self._passes[ref]
        self._finish(ref, stop, now)
        if item.again:
            self._due.add(ref, now)

    async def _converse(self, begun: ControllerPass, answer: Any) -> Sleep | ControllerResult:
        """Perform the effects of a pass until the pass sleeps or ends. Return the Sleep or the result.

        An error of the API server that the pass does not catch ends the pass with that error. Any other exception is
        raised or, with `recovers`, logged and made the result.
        """
        following: Callable[[], Effect] = partial(begun.steps.send, answer)
        try:
            while not isinstance(effect := following(), Sleep):
                try:
                    if isinstance(effect, Question):
                        answer = await self._answer(effect)
                    else:
                        answer = await effect.perform(self._api, begun.field_manager)
                except OperatorError as error:
                    following = partial(begun.steps.throw, error)
                else:
                    following = partial(begun.steps.send, answer)
        except StopIteration as end:
            result: ControllerResult = end.value
            return result
        except OperatorError as error:
            return failed(error.message)
        except Exception as error:
            if not self.recovers:
                raise
            _log.exception("%s: a pass failed", self.title)
            return failed(f"panic: {error} [recovered]")
        return effect

    def _finish(self, ref: ObjectRef, result: ControllerResult, now: datetime) -> None:
        self._last_errors.pop(ref, None)
        if result.error:
            self._last_errors[ref] = result.error
        seconds = self._delay(ref, result)
        if seconds is not None:
            self._due.add(ref, now + timedelta(seconds=seconds), interval=not result.retries)

    def _delay(self, ref: ObjectRef, result: ControllerResult) -> float | None:
        if not result.backoff:
            # controller-runtime forgets an object's failures after a pass that does not ask for backoff.
            self._failures.pop(ref, None)
            return result.requeue_after
        self._failures[ref] += 1
        return self.backoff.delay(self._failures[ref])

    # --- without an event loop -------------------------------------------------------------------------------------

    def tick(self, now: datetime) -> None:
        """List all watched objects, and run everything that is due at `now`, until nothing is due any more.

        Unlike `advance`, the method is synchronous, so it needs a `KubeApi` whose calls never suspend.
        """
        run_sync(self.advance(now))

    async def advance(self, now: datetime) -> None:
        """List all watched objects, and run everything that is due at `now`, until nothing is due any more.

        Raises RuntimeError if this does not come to an end. `tick` does the same without an event loop.
        """
        for _ in range(_MAX_STEPS):
            await self.refresh(now)
            if not await self.work(now):
                return
        raise RuntimeError(f"no end of work for {self.title}")

    async def refresh(self, now: datetime) -> None:
        """List all watched objects, and pass each one to `observe`.

        Objects that no longer exist are passed to `forget`.
        """
        present: set[ObjectRef] = set()
        for kind, selector in self.watched:
            for manifest in await list_all(self._api, kind, selector=selector):
                present.add(ref_of(manifest, kind))
                self.observe(kind, manifest, now)
        for ref in self._objects.keys() - present:
            self.forget(ref, now)


def _uid(manifest: Manifest) -> str:
    return str(metadata(manifest).get("uid", ""))

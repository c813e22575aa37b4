"""The boxes whose kinds this process reconciles: how their controllers are loaded and unloaded (PH-10).

A box is an operator for one kind that is defined in YAML, here by an OperatorBox object.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs
import structlog

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.structuring import read_meta
from purekube.boxes.box import Box
from purekube.boxes.rollouts.members import ParentReadings
from purekube.boxes.rollouts.revised import RevisedBox
from purekube.boxes.rollouts.revisions import Assignments, BroughtTo, Revision, assignments_of
from purekube.composites.composite import status_writer
from purekube.composites.status_writers import StatusWriter, shared_statuses
from purekube.ports import Clock, EventSink, KubeApi, KubeRequest, Send
from purekube_run.boxes.trial import Judge
from purekube_run.composites.caches import external_informers, informers_of
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.lookups import all_of
from purekube_run.controller.manager import ControllerManager
from purekube_run.controller.runner import ManagerOptions, Runner

_log = structlog.get_logger("operator")

Follower: TypeAlias = Callable[[CompositeReconciler, bool], None]
"""A function that is called with the reconciler of a box's kind: with True when it is loaded, False when unloaded."""


@attrs.define
class WriteBudget:
    """A middleware of the API client that limits the rate of one box's writes in favour of other boxes (PH-10).

    The middleware permits `per_second` writes a second on average, and up to `burst` at once. Further writes wait.
    While no other box writes, the rate is `alone` times as high. `last_writes` has the monotonic time of the last write
    of each box by its name; all boxes of a process share it.
    """

    clock: Clock
    name: str
    last_writes: dict[str, float]
    per_second: float = 50.0
    burst: int = 100
    alone: float = 10.0
    _next: float = float("-inf")
    """The monotonic time at which the last write would have been sent at an even rate."""

    async def __call__(self, request: KubeRequest, send: Send) -> Manifest:
        """Send a request with `send`. A write waits first until the limit permits it; reads never wait."""
        if request.writes:
            now = self.clock.monotonic()
            rate = self.per_second * (1.0 if self._has_rivals(now) else self.alone)
            self._next = max(self._next, now - self.burst / rate) + 1 / rate
            self.last_writes[self.name] = max(now, self._next)
            if self._next > now:
                await self.clock.sleep(self._next - now)
        return await send(request)

    def _has_rivals(self, now: float) -> bool:
        """Report whether another box has written within the last second, or waits for its turn."""
        return any(last > now - 1.0 for name, last in self.last_writes.items() if name != self.name)


@attrs.define(eq=False)
class ServedBox:
    """A box whose parents (the objects of its kind) this process reconciles, with the state of their controller.

    `compiled` names the box's revisions (stored versions of its definition) that the controller runs, each with the
    hash of the CRDs with which it was compiled.
    `assignments` determine which revision reconciles each parent. `judge` tries new revisions by dry runs.
    """

    compiled: Mapping[str, str]
    reconciler: CompositeReconciler
    assignments: Assignments
    judge: Judge
    since: float
    """The monotonic time at which the caches of the box's controller began to be filled."""
    runner: Runner | None = None
    readings: ParentReadings = attrs.field(factory=ParentReadings, repr=False)

    @property
    def revisions(self) -> tuple[str, ...]:
        """The names of the box's revisions that the controller runs."""
        return tuple(self.compiled)

    @property
    def kind(self) -> Kind:
        """The kind that the box defines, whose objects are the box's parents."""
        return self.reconciler.composite.kind

    @property
    def obstacle(self) -> str:
        """The reason why the objects of the box's kind are not reconciled yet.

        Empty once every cache of the box's controller has synced.
        """
        if any(informer.missing for informer in self.reconciler.parents):
            return f"the API server does not serve {self.kind.crd_name} yet"
        late = next(self._late, None)
        return "" if late is None else f"its caches of {late.kind.crd_name.rstrip('.')} are being filled"

    def filling(self, now: float) -> float | None:
        """Return for how many seconds the caches of the box's controller have been syncing, or None if all have synced.

        `now` is the present monotonic time in seconds.
        """
        return None if next(self._late, None) is None else now - self.since

    @property
    def _late(self) -> Iterator[InformerRunner]:
        caches = (self.reconciler.informers, self.reconciler.externals, self.reconciler.shared)
        return (each for informers in caches for each in informers if not each.has_synced)


class ServedBoxes:
    """The registry of boxes whose parents (the objects of a box's kind) this process reconciles.

    It loads and unloads the controllers of the parents in `manager`. `changed` is called with the name of a box when
    one of its parents changes. No box may have a kind whose status one of the writers in `taken` (the other controllers
    of the process) writes.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        events: EventSink,
        manager: ControllerManager,
        options: ManagerOptions,
        taken: Sequence[StatusWriter],
        changed: Callable[[str], None],
    ) -> None:
        self._api, self._clock, self._events, self._manager, self._options = api, clock, events, manager, options
        self._taken, self._changed = taken, changed
        self.boxes: dict[str, ServedBox] = {}
        self._last_writes: dict[str, float] = {}
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Register `follower`, which is called with each reconciler of a box's parents that is loaded or unloaded.

        Parents are the objects of a box's kind. The second argument of a call is True for loaded, False for unloaded.
        For reconcilers that are already loaded, `follower` is called at once.
        """
        self._followers.append(follower)
        for served in self.boxes.values():
            follower(served.reconciler, True)

    async def serve(
        self, name: str, boxes: Mapping[str, Box], compiled: Mapping[str, str], history: Sequence[Revision]
    ) -> str:
        """Start the controller of the parents of the box `name` (the objects of its kind).

        A running controller is replaced if its revisions or the CRDs with which they were compiled differ. `boxes` maps
        the name of each revision that can run to its compiled box, and `compiled` maps it to the hash of these CRDs. If
        `boxes` is empty, a running controller is stopped. `history` are all revisions of the box. Return "", or the
        reason why the controller cannot start.
        """
        served = self.boxes.get(name)
        if served is not None and served.compiled == compiled:
            return ""
        await self.stop(name)
        return await self._start(name, boxes, compiled, history) if boxes else ""

    async def _start(
        self, name: str, boxes: Mapping[str, Box], compiled: Mapping[str, str], history: Sequence[Revision]
    ) -> str:
        composite = RevisedBox(boxes, lambda: served.assignments).composite
        writers = (*self._taken, *(status_writer(each.reconciler.composite) for each in self.boxes.values()))
        if refusals := list(shared_statuses((*writers, status_writer(composite)))):
            return refusals[0]
        clock, options = self._clock, self._options
        api = self._api.through(WriteBudget(clock, name, self._last_writes))
        informers = Informers(informers_of(api, clock, options.random, composite, options.namespaces))
        externals = Informers(external_informers(api, clock, options.random, composite, options.namespaces))
        reconciler = CompositeReconciler(
            composite, api, clock, informers, externals, self._manager.shared, options.random
        )
        manifests = await all_of(api, composite.kind)
        assignments = served_assignments(history, boxes, (BroughtTo.of(read_meta(each)).revision for each in manifests))
        served = ServedBox(compiled, reconciler, assignments, Judge(reconciler), clock.monotonic())
        self.boxes[name] = served
        for informer in reconciler.parents:
            informer.subscribe(lambda change: self._changed(name))
        for follower in self._followers:
            follower(reconciler, True)
        definition = reconciler.controller(self._events, workers=options.workers, entropy=options.entropy)
        served.runner = self._manager.load(definition)
        _log.info("box loaded", box=name, kind=composite.kind.crd_name, revisions=list(boxes))
        return ""

    async def stop(self, name: str) -> None:
        """Unload the controller of the parents of the box `name`, if it is loaded."""
        served = self.boxes.pop(name, None)
        self._last_writes.pop(name, None)
        if served is not None and served.runner is not None:
            try:
                await self._manager.unload(served.runner)
            finally:
                for follower in self._followers:
                    follower(served.reconciler, False)
                _log.info("box unloaded", box=name)


def served_assignments(history: Sequence[Revision], served: Collection[str], in_use: Iterable[str]) -> Assignments:
    """Return the assignments of a box: the names of all revisions in `history`, and the revision for new parents.

    Parents are the objects of the box's kind. A new parent gets one of the revisions in `served`, which are those that
    can run: the newest at which a parent was ever Ready. If there is none, it gets the oldest one that parents have now
    (`in_use`), or else the newest one. Revisions that were undone because a parent failed are avoided.
    """
    known = [revision for revision in history if revision.name in served]
    sound = [revision.name for revision in known if not revision.given_up] or [known[-1].name]
    newcomers = assignments_of(known, in_use, sound[-1]).newcomers
    return Assignments(tuple(revision.name for revision in history), newcomers)

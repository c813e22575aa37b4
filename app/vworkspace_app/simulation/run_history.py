"""The history of a simulated run, from which the state at any of its moments is restored (SIM-3).

A moment is a line of the log of what happened, or a decision. Objects are kept as changes, and decoded when a moment is
read. The state inside the replicas is copied at each moment, since it is kept nowhere else.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs
import msgspec

from kubelab.clock import START
from kubelab.model.records import GroupResource, Record, StoredChange
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import LEASE, SECRET
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Requeue, RequeuePace
from purekube_run.controller.observer import Reconciled
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.simulation.extensions.extension_replica import ExtensionReplica
from purekube_run.simulation.extensions.extension_world import ExtensionWorld
from purekube_run.simulation.laws import clock
from purekube_run.simulation.world import World
from vworkspace_app.manager.telemetry import Components
from vworkspace_app.simulation.operator_replica import OperatorReplica
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.clusters.inventory import FLUX_KINDS
from vworkspace_core.operations.engines import engine_kinds

SHOWN_KINDS: Final[tuple[Kind, ...]] = tuple(dict.fromkeys((*OWN_KINDS, *FLUX_KINDS, *engine_kinds())))
"""The kinds whose objects are shown at a moment of a run."""


@attrs.frozen
class RunDecision:
    """A controller's decision about the object `ref`.

    `row` names the case that applied, such as a row of the controller's decision table. `effects` are the writes as
    strings, and `next_look` says when the object is reconciled next. `error` is the text of the error; it is empty if
    there is none.
    """

    controller: str
    ref: ObjectRef
    row: str
    effects: tuple[str, ...] = ()
    next_look: str = ""
    error: str = ""

    def __str__(self) -> str:
        effects = ", ".join(self.effects) or "writes nothing"
        error = f"; failed: {self.error}" if self.error else ""
        row = f"[{self.row}] " if self.row else ""  # a controller without a table names none
        return f"decides {self.ref}: {row}{effects}{error}"


@attrs.frozen
class ReplicaState:
    """The state in the memory of a simulated process: the keys in its queues, open jobs, and unsent messages.

    `condition` says whether the process is starting, runs, leads, waits to lead, or has ended. Entries of `queue` are a
    key, its state and a time; entries of `jobs` are an id, the job's stage and its object.
    """

    name: str
    condition: str
    queue: tuple[tuple[str, ...], ...] = ()
    jobs: tuple[tuple[str, ...], ...] = ()
    outbox: tuple[str, ...] = ()


@attrs.frozen
class RunMoment:
    """A moment of a simulated run: a line of the log of what happened, with the decision that was made then, if any.

    `text` is the line, and `actor` names its source, such as a process, a user or a fault. `at` is in seconds since the
    run began. `changes` is the number of changes of objects before the moment. `is_broken` is True if a law (required
    property) was broken then. `replicas` are the states of the simulated processes.
    """

    at: float
    actor: str
    text: str
    changes: int
    decision: RunDecision | None = None
    is_broken: bool = False
    replicas: tuple[ReplicaState, ...] = ()


@attrs.define
class ObjectHistory:
    """All versions of all objects of a run, in order, from which the state at any moment is restored.

    `count` is the number of changes so far. `shown` are the kinds to show.
    """

    count: int = 0
    shown: tuple[Kind, ...] = SHOWN_KINDS
    _versions: defaultdict[ObjectRef, list[tuple[int, bytes | None]]] = attrs.field(factory=lambda: defaultdict(list))

    def note(self, ref: ObjectRef, raw: bytes | None) -> None:
        """Add a new version of an object as JSON. `raw` is None if the object was deleted."""
        self.count += 1
        self._versions[ref].append((self.count, raw))

    def at(self, changes: int, kinds: Sequence[Kind] = ()) -> Mapping[ObjectRef, Manifest]:
        """Return the objects of `kinds` in the state after the first `changes` changes, sorted by reference.

        If `kinds` is empty, return the objects of the kinds to show.
        """
        objects = {}
        for ref in sorted(self._versions):
            if ref.kind in (kinds or self.shown) and (raw := self._raw(ref, changes)) is not None:
                objects[ref] = msgspec.json.decode(raw)
        return objects

    def _raw(self, ref: ObjectRef, changes: int) -> bytes | None:
        versions = self._versions[ref]
        place = bisect_right(versions, changes, key=lambda version: version[0])
        return versions[place - 1][1] if place else None


@attrs.define
class RunHistory:
    """The history of a simulated run that began at `start`: its moments, and all versions of its objects."""

    start: datetime = START
    moments: list[RunMoment] = attrs.field(factory=list)
    objects: ObjectHistory = attrs.field(factory=ObjectHistory)

    def decisions(self) -> Iterator[int]:
        """Yield the indices of the moments of the run at which a decision was made."""
        return (number for number, moment in enumerate(self.moments) if moment.decision is not None)

    def number_at(self, seconds: float) -> int:
        """Return the index of the last moment of the run at or before `seconds`, or 0 if there is none."""
        return max(0, bisect_right(self.moments, seconds, key=lambda moment: moment.at) - 1)


@attrs.define
class RunRecorder:
    """The recorder of a simulated run, which adds its moments and the versions of its objects to `history`.

    It must be created before virtual time passes.
    """

    world: World
    history: RunHistory = attrs.field(factory=RunHistory)
    _replicas: tuple[ReplicaState, ...] = ()
    _kept: dict[GroupResource, Kind] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.world, ExtensionWorld):
            self.history.objects.shown = self.world.kinds
        shown = self.history.objects.shown
        self._kept |= {(kind.group, kind.plural): kind for kind in (*shown, LEASE, SECRET)}
        for place, records in self.world.server.store.snapshot().objects.items():
            for record in records.values():
                self._note_object(place, record, record)
        self.world.server.store.observe(self._changed)
        self.world.on_note.append(self._noted)
        self.world.on_reconciled.append(self._decided)

    def _changed(self, place: GroupResource, change: StoredChange) -> None:
        record = change.after or change.before
        if record is not None:
            self._note_object(place, record, change.after)

    def _note_object(self, place: GroupResource, record: Record, after: Record | None) -> None:
        kind = self._kept.get(place)
        if kind is not None:
            namespace, name = record.key
            self.history.objects.note(ObjectRef(kind, namespace or None, name), None if after is None else after.raw)

    def _noted(self, actor: str, text: str) -> None:
        self._add(actor, safe(text), is_broken=actor == "law")

    def _decided(self, replica: str, controller: str, done: Reconciled) -> None:
        decision = decision_of(controller, done)
        self._add(replica, str(decision), decision)

    def _add(self, actor: str, text: str, decision: RunDecision | None = None, *, is_broken: bool = False) -> None:
        processes = (each for each in self.world.replicas if isinstance(each, OperatorReplica | ExtensionReplica))
        replicas = tuple(map(state_of, processes))
        if replicas != self._replicas:
            self._replicas = replicas  # equal states are kept once
        changes = self.history.objects.count
        self.history.moments.append(
            RunMoment(self.world.seconds, actor, text, changes, decision, is_broken, self._replicas)
        )


def decision_of(controller: str, done: Reconciled) -> RunDecision:
    """Return the decision of a reconcile pass, with its writes and error as text."""
    decision = done.decision
    effects = tuple(verb if verb == "status" else f"{verb} {ref}" for verb, ref in done.executed)
    error = safe(str(done.error)) if done.error is not None else ""
    return RunDecision(controller, done.ref, decision.row, effects, _next_look(decision.requeue), error)


def _next_look(requeue: Requeue) -> str:
    when = "" if requeue.after is None else f"in {requeue.after:g} s"
    if requeue.pace is RequeuePace.NONE:
        return when
    return " ".join(part for part in (requeue.pace.name.lower(), when) if part)


def state_of(replica: OperatorReplica | ExtensionReplica) -> ReplicaState:
    """Return the state in the memory of a simulated process: its queues, jobs and unsent messages."""
    if not replica.is_running:
        return ReplicaState(replica.name, "ended")
    if replica.manager is None:
        return ReplicaState(replica.name, "starting")
    if isinstance(replica, ExtensionReplica):
        return ReplicaState(replica.name, "runs", tuple(_queue(replica.manager.worker_pools)))
    components = replica.manager.components
    leads = any(is_leading for _, is_leading in components.leases())
    condition = "leads" if leads else "stands by"
    return ReplicaState(
        replica.name, condition, tuple(_queue(components.worker_pools)), tuple(_jobs(components)), _outbox(components)
    )


def _queue(pools: Mapping[str, WorkerPool]) -> Iterator[tuple[str, ...]]:
    for controller, pool in pools.items():
        for ref, state, at in pool.queued():
            yield f"{controller}: {ref}", state, clock(at)


def _jobs(components: Components) -> Iterator[tuple[str, ...]]:
    agent = components.agent
    for job in sorted(agent.state.jobs.values(), key=lambda job: job.arrival) if agent is not None else ():
        yield safe(job.id, 120), job.stage.value, str(job.ref or "")


def _outbox(components: Components) -> tuple[str, ...]:
    if components.agent is None:
        return ()
    report = components.agent.report()
    pending = report.pending
    counts = (pending.results, pending.statuses, pending.events, pending.dropped)
    return report.connection.connectivity.value, *map(str, counts)

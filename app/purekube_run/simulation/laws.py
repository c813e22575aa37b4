"""The laws (required properties) of every simulated cluster, each with its clause (SIM-4).

What must never happen is checked at every write and at every change of an object. Convergence, and silence (nothing is
written at rest), are checked after all faults have ended. A subclass adds the laws of its own kinds.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

import attrs

from kubelab.model.records import GroupResource, Record, StoredChange
from purekube.apimachinery.errors import leaves_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import EVENT, LEASE
from purekube.apimachinery.timestamps import time_or_none
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.controller.election import LeaseLost
from purekube_run.controller.observer import DECISION
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.faults import Fault, Schedule
from purekube_run.simulation.replica import Replica
from purekube_run.simulation.world import World

NOTE: Final = "example.com/note"
"""An annotation that users write, and that controllers must not remove."""
HOLD: Final = "example.com/hold"
"""A finalizer that users set and remove, and that controllers must not remove."""
_AFTER_RESTORE: Final = 90.0
"""The seconds after a restore of etcd in which two replicas may both act as leader: the Lease was restored, too, and
watches have not yet noticed the restore.
"""
_LATE: Final = timedelta(minutes=5)
"""The time after the last Event of a series from which its count is a late one: a bucket gains one write meanwhile."""
_MOST_WRITES: Final = 90
"""The number of writes of one object within a minute that counts as a hot loop."""
_MOST_REQUESTS: Final = 1200
"""The number of requests of one sort, such as lists of a kind, by one replica within a minute that counts as one."""

Observe: TypeAlias = Callable[[ObjectRef, Record | None, Record | None], None]
"""A function that is called at each change of an object: with its reference, and its stored state before and after."""


@attrs.frozen
class LawViolation:
    """The report on a broken law (required property): its clause (numbered requirement) and name, the object, the time,
    and the observation that shows the breach.

    `write` describes the last write of the object. `decision` is that of the pass that broke the law; if no pass did,
    it is the last that was logged about the object.
    """

    clause: str
    law: str
    object: str
    at: float
    told: str
    write: str = ""
    decision: str = ""

    def __str__(self) -> str:
        lines = [f'{self.clause} "{self.law}" at {clock(self.at)}: {self.object}: {self.told}']
        lines += [f"  last write: {self.write}"] * bool(self.write)
        lines += [f"  decision: {self.decision}"] * bool(self.decision)
        return "\n".join(lines)


@attrs.frozen
class Unsettled:
    """A law (required property) that must hold at rest and does not hold yet: its clause (numbered requirement) and
    name, the object, the reason.
    """

    clause: str
    law: str
    object: str
    told: str


def clock(seconds: float) -> str:
    """Return a time in seconds as text with hours, minutes and seconds, such as `0:41:07.500`."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes // 60)}:{int(minutes % 60):02}:{rest:06.3f}"


class Laws:
    """The checks of laws (required properties of controllers) in one simulated cluster.

    Each law belongs to a clause, a numbered requirement. `checks` counts the checks of each law, and `broken` has the
    first breach of each law. `lease` is the Lease whose holder alone may write, or None without leader election. `own`
    are kinds, such as Lease, that processes write even at rest. `settles` names the laws that must hold some time after
    all faults have ended.
    """

    own: Sequence[Kind] = (LEASE,)
    renew_deadline = float("inf")
    """The seconds for which a replica may write after it has sent a renewal of its Lease."""
    settles: Sequence[tuple[str, str]] = ()

    def __init__(self, world: World, lease: ObjectRef | None) -> None:
        self.world = world
        self.checks: Counter[tuple[str, str]] = Counter()
        self.broken: dict[tuple[str, str], LawViolation] = {}
        self._lease = lease
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST_WRITES))
        self._loud: deque[str] = deque(maxlen=2)
        """The last writes that break the silence, as text."""
        self._renewed: dict[str, tuple[float, float]] = {}
        """The time at which each replica sent its last accepted renewal of a Lease, and its suspensions until then."""
        self._loudest = "the operator"
        """The object of the last write that broke the silence."""
        self.last_writes: dict[str, str] = {}
        """The last write of each object as text, by the object's name."""
        self._observers: defaultdict[GroupResource, list[tuple[Kind, Observe]]] = defaultdict(list)
        self._asked: defaultdict[tuple[str, str, str], deque[float]] = defaultdict(lambda: deque(maxlen=_MOST_REQUESTS))
        for replica in world.replicas:
            replica.schedule = partial(self._requested, replica.name, replica.schedule)
        world.on_write.append(self._wrote)
        world.on_end.append(self._ended)
        world.on_decision.append(self._decided)
        world.server.store.observe(partial(world.inform, self._changed))

    def check(self, clause: str, law: str, ref: object, holds: bool, told: str) -> None:
        """Count a check of a law (required property) about the object `ref`. `holds` is the result of the check.

        `clause` is the numbered requirement to which the law belongs. If the law does not hold, record the breach with
        the observation in the last argument, and stop the simulation.
        """
        self.checks[clause, law] += 1
        if holds or (clause, law) in self.broken:
            return
        name = str(ref)
        write, now = self.last_writes.get(name, ""), self.world.seconds
        decision = str(DECISION.get() or "")  # that of the pass in whose task this is called
        self.broken[clause, law] = LawViolation(clause, law, name, now, told, write, decision)
        self.world.note("law", f"{clause} {law} is broken: {name}: {told}")
        self.world.halt()

    @property
    def by_clause(self) -> Counter[str]:
        """The number of checks of each clause (numbered requirement)."""
        counts: Counter[str] = Counter()
        for (clause, _), count in self.checks.items():
            counts[clause] += count
        return counts

    def observe(self, kind: Kind, observer: Observe) -> None:
        """Call `observer` at every change of an object of the kind, with its reference, and its state before and after.

        A state is None if the object did not exist.
        """
        self._observers[place_of(kind)].append((kind, observer))

    def keep_notes(self, kind: Kind, clause: str, law: str) -> None:
        """Check from now on that controllers never remove an annotation that a user set on an object of the kind.

        Reports name this law (required property) by `clause`, the numbered requirement to which it belongs, and by the
        name `law`.
        """
        self.observe(kind, partial(self._noted, clause, law))

    def keep_finalizers(self, kind: Kind, clause: str, law: str) -> None:
        """Check from now on that only users remove the finalizer that a user set on an object of the kind.

        `clause` and `law` are for reports, as in `keep_notes`.
        """
        self.observe(kind, partial(self._held, clause, law))

    def keep_generations(self, kind: Kind) -> None:
        """Check from now on that status.observedGeneration of objects of a kind never decreases."""
        self.observe(kind, self._observed)

    def _decided(self, ref: str, line: str) -> None:
        """Add `line`, the last decision that was logged about the object `ref`, to the reports on its broken laws that
        have none.
        """
        for key, law in self.broken.items():
            if law.object == ref and not law.decision:
                self.broken[key] = attrs.evolve(law, decision=line)

    # --- every request -----------------------------------------------------------------------------------------------

    def _requested(self, replica: str, schedule: Schedule, request: KubeRequest) -> Fault | None:
        """Check the number of requests of one sort, and return what the `schedule` of the replica decides."""
        asked = self._asked[replica, request.action, request.kind.kind]
        asked.append(self.world.seconds)
        if len(asked) == _MOST_REQUESTS:
            told = f"{_MOST_REQUESTS} requests to {request.action} {request.kind.kind} within a minute"
            self.check("RUN-2", "the API server is spared", replica, asked[-1] - asked[0] > 60.0, told)
        return schedule(request)

    # --- every write -------------------------------------------------------------------------------------------------

    def _wrote(self, write: ObservedWrite) -> None:
        request = write.request
        ref = str(request.ref)
        text = self.last_writes[ref] = f"{request} by {write.replica} at {clock(write.at)}"
        if self.breaks_silence(write):
            self._loud.append(text)
            self._loudest = ref
        for key, law in self.broken.items():
            if law.object == ref and law.at == write.at:  # its change was seen before its answer
                self.broken[key] = attrs.evolve(law, write=text)
        if request.kind == LEASE:
            if write.error is None:
                self._renewed[write.replica] = write.sent, self._slept(write)
            return
        if write.error is None:
            self._check_holder(write)
        if write.replica in self._renewed:
            renewed, slept = self._renewed[write.replica]
            passed = write.sent - renewed + max(0.0, self._slept(write) - slept)
            holds, told = passed < self.renew_deadline, f"its last renewal was sent {passed:g} s before"
            self.check("RUN-4", "nothing is written after the renew deadline", request.ref, holds, told)
        if request.verb is KubeVerb.DELETE:
            uid = get_path(request.body, "preconditions", "uid")
            self.check("REC-10", "a delete names the uid", ref, bool(uid), "the request has no uid")
        recent = self._recent[ref]
        recent.append(write.at)
        calm = len(recent) < _MOST_WRITES or recent[-1] - recent[0] > 60.0
        self.check("RUN-2", "no hot loop", ref, calm, f"{_MOST_WRITES} writes within a minute")

    def _slept(self, write: ObservedWrite) -> float:
        """Return the seconds for which the machine of a write's replica was suspended before the write was sent."""
        sender = (each for each in self.world.replicas if each.name == write.replica)
        return next((each.clock.slept_until(write.sent) for each in sender), 0.0)

    def lease_of(self, replica: str) -> ObjectRef | None:
        """Return the Lease that a replica must hold when it writes; None without leader election."""
        return self._lease

    def _check_holder(self, write: ObservedWrite) -> None:
        """Check that only the holder of the Lease writes: the stored Lease names the replica that sent `write`."""
        ref = self.lease_of(write.replica)
        if ref is None or self.is_just_restored(write.at):
            return
        lease = self.world.server.store.get(place_of(LEASE), (ref.namespace or "", ref.name))
        if lease is None:
            return
        holder = str(get_path(lease.shared(), "spec", "holderIdentity") or "")
        holds = holder.startswith(f"{write.replica}_")
        self.check("RUN-4", "only the holder of the Lease writes", write.request.ref, holds, f"{holder} holds it")

    def _ended(self, replica: Replica, error: BaseException | None) -> None:
        defects = [] if error is None else [leaf for leaf in leaves_of(error) if not isinstance(leaf, LeaseLost)]
        text = "; ".join(f"{type(defect).__name__}: {defect}" for defect in defects)
        self.check("RUN-11", "no defect ends the process", replica.name, not defects, text)

    # --- every change ------------------------------------------------------------------------------------------------

    def is_just_restored(self, at: float) -> bool:
        """Report whether etcd was restored less than 90 seconds before the time `at`.

        Two replicas may both act as leader then, since the restored Lease may name an earlier leader.
        """
        return at - self.world.restored_at < _AFTER_RESTORE

    @property
    def is_restored_now(self) -> bool:
        """True at the moment at which etcd is restored from a snapshot, when objects return to an earlier state."""
        return self.world.restored_at == self.world.seconds

    def _changed(self, where: GroupResource, change: StoredChange) -> None:
        record = change.after or change.before
        if record is not None:
            for kind, observe in self._observers.get(where, ()):
                observe(ObjectRef(kind, record.key[0] or None, record.key[1]), change.before, change.after)

    def _noted(self, clause: str, law: str, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        had, has = (
            NOTE in (get_path(record.shared(), "metadata", "annotations") or {}) if record else False
            for record in (before, after)
        )
        stays = has or not had or self.is_restored_now
        self.check(clause, law, ref, stays, f"{NOTE} is gone")

    def _held(self, clause: str, law: str, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if before is None or HOLD not in before.finalizers:
            return
        stays = (after is not None and HOLD in after.finalizers) or self.world.letting_go == ref
        self.check(clause, law, ref, stays or self.is_restored_now, f"{HOLD} is gone")

    def _observed(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if before is None or after is None or self.is_restored_now:
            return
        had, has = (int(get_path(record.shared(), "status", "observedGeneration") or 0) for record in (before, after))
        self.check("REC-7", "observedGeneration does not fall", ref, has >= had, f"{has}")

    # --- once faults have stopped ------------------------------------------------------------------------------------

    @property
    def is_recovering(self) -> bool:
        """True while a Lease is held by no running process, or watches may not yet have noticed a restore of etcd."""
        living = {replica.unique for replica in self.world.replicas if replica.is_running}
        leases = self.world.server.store.scan(place_of(LEASE))
        holders = [str(get_path(lease.shared(), "spec", "holderIdentity") or "") for lease in leases]
        # The identity of a holder has the name and the id of its process, then that of its shard if there are several.
        is_led = all(not living.isdisjoint(holder.split("_")) for holder in holders)
        return not is_led or self.is_just_restored(self.world.seconds)

    @property
    def is_progressing(self) -> bool:
        """Report whether work is still in progress in the cluster, so that its final state is not checked yet.

        This method returns False; a subclass may override it.
        """
        return False

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each law (required property) that must hold at rest and does not hold yet.

        This method yields none; a subclass overrides it for its own laws.
        """
        return iter(())

    def settled(self) -> None:
        """Record, now that nothing changes any more, whether each law (required property) of `settles` holds.

        A law that `unsettled` yields does not.
        """
        unsettled = {(each.clause, each.law): each for each in self.unsettled()}
        for clause, law in dict.fromkeys((*self.settles, *unsettled)):
            open_law = unsettled.get((clause, law))
            name, told = ("", "") if open_law is None else (open_law.object, open_law.told)
            self.check(clause, law, name, open_law is None, told)

    def breaks_silence(self, write: ObservedWrite) -> bool:
        """Report whether a write breaks the law (required property) that nothing is written at rest.

        The last count of an Event series does not: it is written minutes after the last Event, when the object may have
        Events again (RUN-5). Nor does, after a restore of etcd, any write of an Event, since such a count then creates
        the Event again if the restore removed it.
        """
        last = time_or_none(get_path(write.request.body, "series", "lastObservedTime"))
        is_late_count = last is not None and self.world.loop.now() - last > _LATE
        is_event = write.request.kind == EVENT and (is_late_count or self.world.was_restored)
        return write.request.kind not in self.own and not is_event

    def silent(self, writes: int, seconds: float) -> None:
        """Check the law (required property) that nothing is written at rest: `writes`, the number of writes in
        `seconds` of rest, must be 0.
        """
        told = f"{writes} writes in {seconds:g} s: {'; '.join(self._loud)}"
        self.check("REC-6", "nothing is written at rest", self._loudest, writes == 0, told)

    def compare(self) -> None:
        """Compare the final state with that of another simulated cluster, at the end of a run in which no law (required
        property) was broken.

        This method does nothing; a subclass may override it.
        """

    def finish(self) -> None:
        """Make further checks at the end of a run. This method does nothing; a subclass may override it."""

    def hot(self, told: str) -> None:
        """Record a hot loop as the breach of a law (required property): work went on forever without time passing.

        The argument is the description of the loop.
        """
        self.check("RUN-2", "time passes", "the world", False, told)

    def complete(self) -> Iterator[LawViolation]:
        """Yield the reports on the broken laws (required properties), each with a text about a controller's last
        decision about the object.

        If a report has none, the last one that a controller logged is filled in.
        """
        for law in self.broken.values():
            yield attrs.evolve(law, decision=law.decision or self.world.decisions.get(law.object, ""))


def place_of(kind: Kind) -> GroupResource:
    """Return the group and resource under which the simulated API server stores objects of a kind."""
    return kind.group, kind.plural


def condition_text(live: Manifest) -> str:
    """Return the conditions of an object as one line of text: type, status, reason and message of each."""
    conditions = get_path(live, "status", "conditions") or ()
    texts = [f"{each['type']}={each['status']}/{each['reason']} {each.get('message', '')}" for each in conditions]
    return "; ".join(texts) or "no status"

"""The laws of a world, each with its clause: safety at every step, convergence and silence once faults stop (SIM-4)."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import msgspec

from kubelab.model.records import GroupResource, Record, StoredChange
from purekube.apimachinery.errors import leaves_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import (
    EVENT,
    HELM_RELEASE,
    HELM_REPOSITORY,
    LEASE,
    OCI_REPOSITORY,
)
from purekube.ports import KubeVerb
from purekube_run.controller.election import LeaseLost
from purekube_run.simulation.connection import ObservedWrite
from vworkspace_app.simulation.replica import Replica
from vworkspace_app.simulation.workload import BROKEN, NOTE, PASSWORD
from vworkspace_app.simulation.world import OWN_NAMESPACE, SimulatedWorld
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.operation import TERMINAL_PHASES

CHILDREN: Final = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY)
"""The kinds of objects that exist for an instance only."""
_AFTER_RESTORE: Final = 90.0
"""Seconds after a restore of etcd in which two replicas may both believe to lead: the Lease itself went back."""
_MOST_WRITES: Final = 90
"""The writes of one object within a minute that are no hot loop."""
_TERMINAL: Final = frozenset(phase.value for phase in TERMINAL_PHASES)
_SECRETS: Final = (PASSWORD.encode(), b"tok-")


@attrs.frozen
class LawViolation:
    """A broken law: clause, name, object, moment, and the write and the decision after which it was found broken."""

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
        lines += [f"  last decision: {self.decision}"] * bool(self.decision)
        return "\n".join(lines)


def clock(seconds: float) -> str:
    """Return a moment as hours, minutes and seconds."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes // 60)}:{int(minutes % 60):02}:{rest:06.3f}"


@attrs.define
class _Known:
    """The memory of one incarnation of an object."""

    generation: int = 0
    job_generation: int = 0
    phase: str = ""
    note: str = ""
    versions: dict[int, str] = attrs.field(factory=dict)
    """The wanted chart version of each generation."""


class Laws:
    """Checks every write and every change in a world. `checks` counts by clause, `broken` has the first of each law."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.checks: Counter[str] = Counter()
        self.broken: dict[tuple[str, str], LawViolation] = {}
        self._known: defaultdict[str, _Known] = defaultdict(_Known)
        self._released: set[tuple[str, str]] = set()
        self._recent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST_WRITES))
        self._last: dict[str, str] = {}
        self._observers: dict[GroupResource, Callable[[ObjectRef, Record | None, Record | None], None]] = {
            _place(APPLICATION_INSTANCE): self._instance,
            _place(OPERATION): self._operation,
            _place(EVENT): self._event,
            **{_place(kind): self._child for kind in CHILDREN},
        }
        self._kinds = {_place(kind): kind for kind in (APPLICATION_INSTANCE, OPERATION, EVENT, *CHILDREN)}
        world.on_write.append(self._wrote)
        world.on_end.append(self._ended)
        world.on_decision.append(self._decided)
        world.server.store.observe(self._changed)

    def check(self, clause: str, law: str, ref: object, holds: bool, told: str) -> None:
        """Count a check of a law about an object; if it does not hold, note it as broken and halt the world."""
        self.checks[clause] += 1
        if holds or (clause, law) in self.broken:
            return
        name = str(ref)
        write, now = self._last.get(name, ""), self.world.seconds
        self.broken[clause, law] = LawViolation(clause, law, name, now, told, write)
        self.world.note("law", f"{clause} {law} is broken: {name}: {told}")
        self.world.halt()

    def _decided(self, ref: str, line: str) -> None:
        """Complete a broken law with the decision that is logged after its write."""
        for key, law in self.broken.items():
            if law.object == ref:
                self.broken[key] = attrs.evolve(law, decision=line)

    # --- every write -------------------------------------------------------------------------------------------------

    def _wrote(self, write: ObservedWrite) -> None:
        request = write.request
        ref = str(request.ref)
        text = self._last[ref] = f"{request} by {write.replica} at {clock(write.at)}"
        for key, law in self.broken.items():
            if law.object == ref and law.at == write.at:  # its change was seen before its answer
                self.broken[key] = attrs.evolve(law, write=text)
        if request.kind == LEASE:
            return
        if write.error is None:
            self._check_holder(write)
        if request.verb is KubeVerb.DELETE:
            uid = get_path(request.body, "preconditions", "uid")
            self.check("REC-10", "a delete names the uid", ref, bool(uid), "the request has no uid")
        recent = self._recent[ref]
        recent.append(write.at)
        calm = len(recent) < _MOST_WRITES or recent[-1] - recent[0] > 60.0
        self.check("RUN-2", "no hot loop", ref, calm, f"{_MOST_WRITES} writes within a minute")

    def _check_holder(self, write: ObservedWrite) -> None:
        """Check that the writer holds the Lease at the moment of its write, as the API server sees it."""
        lease = self.world.server.store.get(_place(LEASE), (OWN_NAMESPACE, "vworkspace-operator"))
        if lease is None or write.at - self.world.restored_at < _AFTER_RESTORE:
            return
        holder = str(get_path(lease.object(), "spec", "holderIdentity") or "")
        holds = holder.startswith(f"{write.replica}_")
        self.check("RUN-4", "only the holder of the Lease writes", write.request.ref, holds, f"{holder} holds it")

    def _ended(self, replica: Replica, error: BaseException | None) -> None:
        defects = [] if error is None else [leaf for leaf in leaves_of(error) if not isinstance(leaf, LeaseLost)]
        text = "; ".join(f"{type(defect).__name__}: {defect}" for defect in defects)
        self.check("RUN-11", "no defect ends the process", replica.name, not defects, text)

    # --- every change ------------------------------------------------------------------------------------------------

    def _changed(self, where: GroupResource, change: StoredChange) -> None:
        observe = self._observers.get(where)
        record = change.after or change.before
        if observe is None or record is None:
            return
        if self.world.restored_at == self.world.seconds:
            self._known.pop(record.uid, None)  # the past has come back, with its generations
        observe(ObjectRef(self._kinds[where], *record.key), change.before, change.after)

    def _instance(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        live = after.object()
        meta, known = metadata(live), self._known[after.uid]
        generation = int(get_path(live, "status", "observedGeneration") or 0)
        self.check("REC-7", "observedGeneration does not fall", ref, generation >= known.generation, f"{generation}")
        job = int(get_path(meta, "annotations", labels.LAST_APPLIED_GENERATION) or 0)
        self.check("PULL-4", "no older job over a newer one", ref, job >= known.job_generation, f"{job}")
        note = str(get_path(meta, "annotations", NOTE) or "")
        self.check("REC-8", "annotations of others stay", ref, bool(note) or not known.note, f"{NOTE} is gone")
        known.generation, known.job_generation, known.note = generation, job, note
        known.versions[int(meta["generation"])] = str(get_path(live, "spec", "chart", "version"))
        self._check_ready(ref, live, before, known)
        status = msgspec.json.encode(live.get("status", {}))
        self.check("RES-7", "no secret in a status", ref, not _leaks(status), "a secret")

    def _check_ready(self, ref: ObjectRef, live: Manifest, before: Record | None, known: _Known) -> None:
        """Check that Ready=True for a generation follows a release of the version that this generation wants."""
        ready = _condition(live, "Ready")
        if ready.get("status") != "True" or (before is not None and _condition(before.object(), "Ready") == ready):
            return
        generation = int(ready.get("observedGeneration") or 0)
        version = known.versions.get(generation, "")
        released = (str(live["metadata"]["uid"]), version) in self._released
        self.check("REC-7", "Ready only when Flux confirmed", ref, released, f"{version} was never released")

    def _operation(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        phase, known = str(get_path(after.object(), "status", "phase") or ""), self._known[after.uid]
        stays = known.phase not in _TERMINAL or phase == known.phase
        self.check("OPS-1", "a terminal phase stays", ref, stays, f"{known.phase}, then {phase}")
        known.phase = phase

    def _event(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self.check("RES-7", "no secret in an Event", ref, not _leaks(after.raw), "a secret")

    def _child(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        uid = after.labels.get(labels.INSTANCE_UID, "")
        if before is None and uid and self.world.restored_at != self.world.seconds:
            self._check_born(ref, uid)
        if ref.kind != HELM_RELEASE:
            return
        live, known = after.object(), self._known[after.uid]
        note = str(get_path(live, "metadata", "annotations", NOTE) or "")
        self.check("REC-9", "annotations of others stay", ref, bool(note) or not known.note, f"{NOTE} is gone")
        known.note = note
        if uid and _condition(live, "Ready").get("status") == "True":
            history: Any = get_path(live, "status", "history") or ({},)
            self._released.add((uid, str(history[0].get("chartVersion", "")).partition("+")[0]))

    def _check_born(self, ref: ObjectRef, uid: str) -> None:
        """Check that the owner of a new child lives and has our finalizer, and that there is no second release."""
        store = self.world.server.store
        owner = next((each for each in store.scan(_place(APPLICATION_INSTANCE)) if each.uid == uid), None)
        held = owner is not None and labels.FINALIZER in owner.finalizers
        self.check("RES-5", "the finalizer precedes the first child", ref, held, f"the instance {uid} has none")
        if ref.kind == HELM_RELEASE:
            same = [each for each in store.scan(_place(HELM_RELEASE)) if each.labels.get(labels.INSTANCE_UID) == uid]
            own = [each for each in same if not each.deleting]
            self.check("REC-9", "one HelmRelease of an instance", ref, len(own) <= 1, f"{len(own)} HelmReleases")

    # --- once faults have stopped ------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield each law that does not hold yet: clause, law, object, and why."""
        for live in self.world.objects(APPLICATION_INSTANCE):
            ref = ObjectRef(APPLICATION_INSTANCE, live["metadata"]["namespace"], live["metadata"]["name"])
            if live["metadata"].get("deletionTimestamp"):
                yield "REC-10", "a deleted instance goes", str(ref), _told(live)
            elif not _has_converged(live):
                yield "REC-1", "every instance converges", str(ref), _told(live)
        yield from self._left_over()
        for job in self.world.control.jobs:
            if job.open and job.acked_at is not None:
                yield "PULL-4", "an acknowledged job has a result", job.id, f"acknowledged at {job.acked_at}"
            elif job.open:
                yield "PULL-1", "an offered job is taken", job.id, f"offered {job.offers} times"
        for operation in self.world.objects(OPERATION):
            phase, why = (str(get_path(operation, "status", field) or "") for field in ("phase", "reason"))
            if phase not in _TERMINAL and not (phase == "Pending" and why):
                yield (
                    "OPS-1",
                    "an Operation ends or says for what it waits",
                    operation["metadata"]["name"],
                    str(operation.get("status")),
                )

    def _left_over(self) -> Iterator[tuple[str, str, str, str]]:
        uids = {live["metadata"]["uid"] for live in self.world.objects(APPLICATION_INSTANCE)}
        for kind in CHILDREN:
            for child in self.world.objects(kind):
                uid = (child["metadata"].get("labels") or {}).get(labels.INSTANCE_UID)
                if uid and uid not in uids:
                    ref = ObjectRef(kind, child["metadata"]["namespace"], child["metadata"]["name"])
                    yield "REC-10", "nothing is left of a deleted instance", str(ref), f"its instance was {uid}"

    def settled(self) -> None:
        """Check that everything has converged."""
        unsettled = {(clause, law): (name, told) for clause, law, name, told in self.unsettled()}
        for clause, law in dict.fromkeys((*SETTLED, *unsettled)):
            name, told = unsettled.get((clause, law), ("", ""))
            self.check(clause, law, name, not name, told)

    def silent(self, writes: int, seconds: float) -> None:
        """Check that the replicas wrote nothing in `seconds` of rest, in which they made so many `writes`."""
        last = "; ".join(sorted(self._last.values(), key=lambda text: text.rpartition(" at ")[2])[-2:])
        told = f"{writes} writes in {seconds:g} s: {last}"
        self.check("REC-6", "nothing is written at rest", "the operator", writes == 0, told)

    def hot(self, told: str) -> None:
        """Note that work went on for ever without time passing."""
        self.check("RUN-2", "time passes", "the world", False, told)

    def complete(self) -> Iterator[LawViolation]:
        """Yield the broken laws, with the last decision about their objects where none followed."""
        for law in self.broken.values():
            yield attrs.evolve(law, decision=law.decision or self.world.decisions.get(law.object, ""))

    def leaks(self) -> None:
        """Check that no report to the control plane holds a secret."""
        for job in self.world.control.jobs:
            sent = msgspec.json.encode([job.statuses, job.result])
            self.check("RES-7", "no secret in a report", job.id, not _leaks(sent), "a secret")


SETTLED: Final = (
    ("REC-1", "every instance converges"),
    ("REC-10", "a deleted instance goes"),
    ("REC-10", "nothing is left of a deleted instance"),
    ("PULL-4", "an acknowledged job has a result"),
    ("PULL-1", "an offered job is taken"),
    ("OPS-1", "an Operation ends or says for what it waits"),
)
"""The laws that hold some time after faults have stopped."""

UNSILENT: Final = (LEASE, CLUSTER)
"""The kinds that are written at rest too: the Lease and the heartbeat."""


def _leaks(text: bytes) -> bool:
    return any(secret in text for secret in _SECRETS)


def _place(kind: Kind) -> GroupResource:
    return kind.group, kind.plural


def _condition(live: Manifest, kind: str) -> Any:
    conditions = get_path(live, "status", "conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def _has_converged(live: Manifest) -> bool:
    """Return whether the instance is ready, or says why it cannot be: it is suspended, or its version is broken."""
    ready = _condition(live, "Ready")
    if get_path(live, "spec", "suspend") is True or get_path(live, "spec", "chart", "version") == BROKEN:
        return bool(ready.get("reason"))
    return (ready.get("status"), ready.get("observedGeneration")) == ("True", live["metadata"]["generation"])


def _told(live: Manifest) -> str:
    conditions = get_path(live, "status", "conditions") or ()
    texts = [f"{each['type']}={each['status']}/{each['reason']} {each.get('message', '')}" for each in conditions]
    return "; ".join(texts) or "no status"

"""The laws of the operator's kinds: safety at every change, convergence once faults have stopped (SIM-4)."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import attrs
import msgspec

from kubelab.model.records import Record
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import EVENT, HELM_RELEASE, HELM_REPOSITORY, LEASE, OCI_REPOSITORY
from purekube_run.simulation.cluster import condition_of
from purekube_run.simulation.laws import Laws, Unsettled, condition_text, place_of
from vworkspace_app.simulation.workload import BROKEN, PASSWORD
from vworkspace_app.simulation.world import OWN_NAMESPACE, SimulatedWorld
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.operation import TERMINAL_PHASES

CHILDREN: Final = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY)
"""The kinds of objects that exist for an instance only."""
_TERMINAL: Final = frozenset(phase.value for phase in TERMINAL_PHASES)
_SECRETS: Final = (PASSWORD.encode(), b"tok-")


@attrs.define
class _Known:
    """The recorded facts about one incarnation of an object."""

    generation: int = 0
    job_generation: int = 0
    phase: str = ""
    versions: dict[int, str] = attrs.field(factory=dict)
    """The wanted chart version of each generation."""


class OperatorLaws(Laws):
    """The laws of every world, and those of instances, Operations, jobs and secrets."""

    own = (LEASE, CLUSTER)
    settles = (
        ("REC-1", "every instance converges"),
        ("REC-10", "a deleted instance goes"),
        ("REC-10", "nothing is left of a deleted instance"),
        ("PULL-4", "an acknowledged job has a result"),
        ("PULL-1", "an offered job is taken"),
        ("OPS-1", "an Operation ends or says for what it waits"),
    )

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world, ObjectRef(LEASE, OWN_NAMESPACE, "vworkspace-operator"))
        self._control = world.control
        self._known: defaultdict[str, _Known] = defaultdict(_Known)
        self._released: set[tuple[str, str]] = set()
        self.observe(APPLICATION_INSTANCE, self._instance)
        self.observe(OPERATION, self._operation)
        self.observe(EVENT, self._event)
        for kind in CHILDREN:
            self.observe(kind, self._child)
        self.keep_notes(APPLICATION_INSTANCE, "REC-8")
        self.keep_notes(HELM_RELEASE, "REC-9")

    def _of(self, uid: str) -> _Known:
        """Return what is known of an incarnation; nothing once its past has come back, with its generations."""
        if self.is_restored_now:
            self._known.pop(uid, None)
        return self._known[uid]

    def _instance(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        live = after.object()
        meta, known = metadata(live), self._of(after.uid)
        generation = int(get_path(live, "status", "observedGeneration") or 0)
        self.check("REC-7", "observedGeneration does not fall", ref, generation >= known.generation, f"{generation}")
        job = int(get_path(meta, "annotations", labels.LAST_APPLIED_GENERATION) or 0)
        self.check("PULL-4", "no older job over a newer one", ref, job >= known.job_generation, f"{job}")
        known.generation, known.job_generation = generation, job
        known.versions[int(meta["generation"])] = str(get_path(live, "spec", "chart", "version"))
        self._check_ready(ref, live, before, known)
        status = msgspec.json.encode(live.get("status", {}))
        self.check("RES-7", "no secret in a status", ref, not _leaks(status), "a secret")

    def _check_ready(self, ref: ObjectRef, live: Manifest, before: Record | None, known: _Known) -> None:
        """Check that Ready=True for a generation follows a release of the version that this generation wants."""
        ready = condition_of(live, "Ready")
        if ready.get("status") != "True" or (before is not None and condition_of(before.object(), "Ready") == ready):
            return
        generation = int(ready.get("observedGeneration") or 0)
        version = known.versions.get(generation, "")
        released = (str(live["metadata"]["uid"]), version) in self._released
        self.check("REC-7", "Ready only when Flux confirmed", ref, released, f"{version} was never released")

    def _operation(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is None:
            return
        phase, known = str(get_path(after.object(), "status", "phase") or ""), self._of(after.uid)
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
        if before is None and uid and not self.is_restored_now:
            self._check_born(ref, uid)
        if ref.kind != HELM_RELEASE:
            return
        live = after.object()
        if uid and condition_of(live, "Ready").get("status") == "True":
            history: Any = get_path(live, "status", "history") or ({},)
            self._released.add((uid, str(history[0].get("chartVersion", "")).partition("+")[0]))

    def _check_born(self, ref: ObjectRef, uid: str) -> None:
        """Check that the owner of a new child lives and has our finalizer, and that there is no second release."""
        store = self.world.server.store
        owner = next((each for each in store.scan(place_of(APPLICATION_INSTANCE)) if each.uid == uid), None)
        held = owner is not None and labels.FINALIZER in owner.finalizers
        self.check("RES-5", "the finalizer precedes the first child", ref, held, f"the instance {uid} has none")
        if ref.kind == HELM_RELEASE:
            same = [each for each in store.scan(place_of(HELM_RELEASE)) if each.labels.get(labels.INSTANCE_UID) == uid]
            own = [each for each in same if not each.deleting]
            self.check("REC-9", "one HelmRelease of an instance", ref, len(own) <= 1, f"{len(own)} HelmReleases")

    # --- once faults have stopped ------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each law that does not hold yet."""
        for live in self.world.objects(APPLICATION_INSTANCE):
            name = str(ObjectRef(APPLICATION_INSTANCE, live["metadata"]["namespace"], live["metadata"]["name"]))
            if live["metadata"].get("deletionTimestamp"):
                yield Unsettled("REC-10", "a deleted instance goes", name, condition_text(live))
            elif not _has_converged(live):
                yield Unsettled("REC-1", "every instance converges", name, condition_text(live))
        yield from self._left_over()
        for job in self._control.jobs:
            if job.open and job.acked_at is not None:
                told = f"acknowledged at {job.acked_at}"
                yield Unsettled("PULL-4", "an acknowledged job has a result", job.id, told)
            elif job.open:
                yield Unsettled("PULL-1", "an offered job is taken", job.id, f"offered {job.offers} times")
        for operation in self.world.objects(OPERATION):
            phase, why = (str(get_path(operation, "status", field) or "") for field in ("phase", "reason"))
            if phase not in _TERMINAL and not (phase == "Pending" and why):
                law, name = "an Operation ends or says for what it waits", operation["metadata"]["name"]
                yield Unsettled("OPS-1", law, name, str(operation.get("status")))

    def _left_over(self) -> Iterator[Unsettled]:
        uids = {live["metadata"]["uid"] for live in self.world.objects(APPLICATION_INSTANCE)}
        for kind in CHILDREN:
            for child in self.world.objects(kind):
                uid = (child["metadata"].get("labels") or {}).get(labels.INSTANCE_UID)
                if uid and uid not in uids:
                    name = str(ObjectRef(kind, child["metadata"]["namespace"], child["metadata"]["name"]))
                    yield Unsettled("REC-10", "nothing is left of a deleted instance", name, f"its instance was {uid}")

    def finish(self) -> None:
        """Check that no report to the control plane holds a secret."""
        for job in self._control.jobs:
            sent = msgspec.json.encode([job.statuses, job.result])
            self.check("RES-7", "no secret in a report", job.id, not _leaks(sent), "a secret")


def _leaks(text: bytes) -> bool:
    return any(secret in text for secret in _SECRETS)


def _has_converged(live: Manifest) -> bool:
    """Return whether the instance is ready, or says why it cannot be: it is suspended, or its version is broken."""
    ready = condition_of(live, "Ready")
    if get_path(live, "spec", "suspend") is True or get_path(live, "spec", "chart", "version") == BROKEN:
        return bool(ready.get("reason"))
    return (ready.get("status"), ready.get("observedGeneration")) == ("True", live["metadata"]["generation"])

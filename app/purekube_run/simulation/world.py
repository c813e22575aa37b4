"""A cluster for one box, in memory and on a virtual clock: API server, simulated workloads, the box's controller.

Passes are triggered by changes, as watches trigger them, and by requeue times.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs

from kubelab.downstream.behaviour import DownstreamBehaviour
from kubelab.entropy import SeededEntropy
from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube.boxes.box import Box, ExternalNode
from purekube.boxes.decide import composite_of
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.kind_webhooks import converter_of
from purekube.boxes.labels import BOX_NAME, child_kinds
from purekube.composites.observe import observe_live
from purekube.composites.parent import Parent
from purekube.controller.decision import Decision, Snapshot
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import Entropy, KubernetesEvent
from purekube_run.simulation.cluster import START, MemoryCluster, kinds_with_work, plain_definition, ready_of
from purekube_run.simulation.faults import Crash, FaultyKube

OPERATOR: Final = "system:serviceaccount:vworkspace-system:vworkspace-box"
_MOST_PASSES: Final = 500
"""The number of passes without a change of time that counts as a loop."""
_SERVER: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("managedFields", "selfLink"),
)
"""The fields of metadata that only an API server writes."""

Watch: TypeAlias = Callable[[Parent, Snapshot], None]


class SimulatedHotLoop(Exception):
    """Passes that go on for ever without time passing."""


@attrs.define
class _EventList:
    """`EventSink` that keeps all Events."""

    events: list[KubernetesEvent] = attrs.field(factory=list)

    async def emit(self, event: KubernetesEvent) -> None:
        """Keep one Event."""
        self.events.append(event)


class BoxWorld(MemoryCluster):
    """One cluster with one box. `timeline` records what the box's controller did, and when."""

    def __init__(
        self, box: Box, definitions: Iterable[Manifest] = (), behaviour: DownstreamBehaviour | None = None
    ) -> None:
        self.now = START
        kinds = {*child_kinds(box), *(external.kind for external in box.externals)}
        converter = converter_of(box)
        super().__init__(
            lambda: self.now,
            simulated=kinds_with_work(kinds),
            flux=_makes_flux(box),
            behaviour=behaviour,
            converters=() if converter is None else (converter,),
        )
        self.box = box
        self.faults = FaultyKube(self.connect(OPERATOR, "vworkspace-box/1"))
        self.writes = 0
        self.statuses: list[Manifest] = []
        self._told = _EventList()
        self.entropy: Entropy = SeededEntropy(0)
        self._due: dict[ObjectRef, datetime] = {}
        self._seen = -1
        self.on_pass: Callable[[ObjectRef], None] = lambda ref: None
        """The callback for each pass that wrote something."""
        self.namespace_labels = dict((box.namespaces or {}).get("matchLabels") or {})
        if self.namespace_labels:
            self.change(ObjectRef(NAMESPACE, None, "default"), {"metadata": {"labels": self.namespace_labels}})
        self.install([*([box.crd] if box.crd else [plain_definition(box.kind)]), *definitions])

    @property
    def events(self) -> Sequence[KubernetesEvent]:
        """The Events about the box's objects."""
        return self._told.events

    def use(self, box: Box) -> None:
        """Continue with another file of the same box, as after a restart."""
        self.box, self._seen = box, -1
        self._due.clear()

    def seed(self, manifest: Manifest) -> ObjectRef:
        """Store an object as it was observed elsewhere, with its uid, status and managers, as far as given.

        An object with the box's label and without managers counts as applied by the box. Raises errors of the port.
        """
        ref = self.ref(manifest)
        meta = {**metadata(manifest), **({"namespace": ref.namespace} if ref.namespace else {})}
        plain = {key: value for key, value in meta.items() if key not in _SERVER}
        body = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": plain}
        labels = metadata(manifest).get("labels") or {}
        if labels.get(BOX_NAME) == self.box.name and not meta.get("managedFields"):
            made = run_sync(self.admin.apply(body, kind=ref.kind, field_manager=self.box.field_manager))
        else:
            made = self.create(body, ref.kind)
        told = {key: value for key, value in meta.items() if key in _SERVER and key != "resourceVersion"}
        status = {"status": manifest["status"]} if "status" in manifest else {}
        stored = {**made, **status, "metadata": {**metadata(made), **told}}
        self.server.store.put(self.server.resource(ref.kind).storage, stored)
        return ref

    def children(self) -> dict[ObjectRef, Manifest]:
        """Return every object of a kind that the box makes."""
        return {ref_of(one, kind): one for kind in child_kinds(self.box) for one in self.all_of(kind)}

    # --- the box's controller --------------------------------------------------------------------------------------

    def reconcile(self, ref: ObjectRef, watch: Watch = lambda parent, observed: None) -> ReconcileResult | None:
        """Run one pass; return None if the object is gone. `watch` is called with the input of each decision."""
        manifest = self.get(ref)
        if manifest is None:
            self._due.pop(ref, None)
            return None
        plain = composite_of(self.box).pass_rules(lambda: self.now, self.entropy)

        def decide(parent: Parent, observed: Snapshot) -> Decision:
            watch(parent, observed)
            return plain.decide(parent, observed)

        reconciler = attrs.evolve(plain, decide=decide)
        parent = composite_of(self.box).read(manifest)
        observed = run_sync(observe_live(self.faults, composite_of(self.box), parent))
        result = run_sync(run_pass(reconciler, parent, observed, self.faults, self._told))
        self._note(ref, result)
        return result

    def _note(self, ref: ObjectRef, result: ReconcileResult) -> None:
        self.writes += result.writes
        for verb, what in result.executed:
            if verb != "status":
                self.say(f"{verb} {what}")
        if result.status is not None:
            self.statuses.append(result.status)
            self.say(f"status: {ready_of(result.status)}")
        if result.requeue.after is not None:
            self._due[ref] = self.now + timedelta(seconds=max(0.0, result.requeue.after))
        elif result.error is not None:
            self._due[ref] = self.now + timedelta(seconds=1.0)
        else:
            self._due.pop(ref, None)
        if result.executed:
            self.on_pass(ref)

    @property
    def seconds(self) -> float:
        """Virtual seconds since the beginning."""
        return (self.now - START).total_seconds()

    def waits(self, ref: ObjectRef) -> float | None:
        """Return the seconds until an object is requeued in any case; None if it is not."""
        due = self._due.get(ref)
        return None if due is None else max(0.0, (due - self.now).total_seconds())

    def parent(self, ref: ObjectRef) -> Parent:
        """Return an object of the box's kind, as the controller reads it. Raises errors of the port."""
        return composite_of(self.box).read(run_sync(self.admin.get(ref)))

    def would_be_ready(self, external: ExternalNode, manifest: Manifest) -> bool:
        """Return whether an external with this content would count as ready."""
        names = {external.id: manifest}
        try:
            return all(one.holds(names) for one in external.ready)
        except ExpressionFailure:
            return False

    def parents(self) -> list[ObjectRef]:
        """Return every object of the box's kind."""
        return [ref_of(one, self.box.kind) for one in self.all_of(self.box.kind)]

    def work(self) -> None:
        """Run passes and simulated controllers until nothing is left to do at this moment. Raises HotLoop."""
        for _ in range(_MOST_PASSES):
            self.controllers.work()
            due = [ref for ref, at in self._due.items() if at <= self.now]
            version = self.server.store.version
            if version == self._seen and not due:
                return
            self._seen = version
            for ref in due:
                del self._due[ref]
            for ref in self.parents():
                self._pass_once(ref)
        raise SimulatedHotLoop(f"still busy after {_MOST_PASSES} passes at the same moment")

    def _pass_once(self, ref: ObjectRef) -> None:
        try:
            self.reconcile(ref)
        except Crash:
            self.say("the process is killed, and starts again")
            self._seen = -1
        except OperatorError as error:
            self.say(f"reading failed: {error.message}")
            self._due[ref] = self.now + timedelta(seconds=1.0)

    # --- time --------------------------------------------------------------------------------------------------------

    def next_moment(self) -> datetime | None:
        """Return when something is next due; None if only regular intervals are."""
        work = self.controllers.next_work()
        return min((*self._due.values(), *(() if work is None else (work,))), default=None)

    def settle(self, within: float = 3600.0) -> None:
        """Let time pass until nothing is left to do, or `within` seconds have passed. Raises HotLoop."""
        self.until(lambda: False, within, may_settle=True)

    def until(self, holds: Callable[[], bool], within: float, *, may_settle: bool = False) -> bool:
        """Let time pass until `holds`; return whether it did within so many seconds. Raises HotLoop."""
        limit = self.now + timedelta(seconds=within)
        self.work()
        while not holds():
            following = self.next_moment()
            if following is None and may_settle:
                return False
            if following is None or following > limit:
                self.now = max(self.now, limit)
                self.work()
                return holds()
            self.now = max(self.now, following)
            self.work()
        return True

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass, with everything that becomes due meanwhile."""
        self.until(lambda: False, seconds)


def _makes_flux(box: Box) -> bool:
    return any(kind.group.endswith(".toolkit.fluxcd.io") for kind in child_kinds(box))

"""A cluster for one box, in memory and on a virtual clock: API server, simulated workloads, the box's controller.

Passes are woken by changes, as watches wake them, and by the times at which they asked to look again.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs

from vworkspace_apiserver.inprocess import run_sync
from vworkspace_app.trials.cluster import START, MemoryCluster, kinds_with_work, plain_definition, ready_of
from vworkspace_app.trials.faults import Crash, FaultyKube
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, metadata, ref_of
from vworkspace_core.apimachinery.resources import NAMESPACE
from vworkspace_core.boxes.box import Box, ExternalNode
from vworkspace_core.boxes.child_kinds import child_kinds
from vworkspace_core.boxes.conversion import converter_of
from vworkspace_core.boxes.decide import composite_of
from vworkspace_core.boxes.expressions import ExpressionFailure
from vworkspace_core.boxes.labels import BOX_NAME
from vworkspace_core.composites.observe import observe_live
from vworkspace_core.composites.parent import Parent
from vworkspace_core.controller.decision import Decision, Snapshot
from vworkspace_core.controller.reconcile import ReconcileResult, run_pass
from vworkspace_core.ports import Entropy, KubernetesEvent
from vworkspace_fake.downstream.behaviour import DownstreamBehaviour
from vworkspace_fake.entropy import SeededEntropy

OPERATOR: Final = "system:serviceaccount:vworkspace-system:vworkspace-box"
_MOST_PASSES: Final = 500
"""Passes without a change of time: more are a loop."""
_SERVER: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("managedFields", "selfLink"),
)
"""Of metadata, what only an API server writes."""

Watch: TypeAlias = Callable[[Parent, Snapshot], None]


class HotLoop(Exception):
    """Passes go on for ever without time passing."""


@attrs.define
class _Told:
    """`EventSink` that keeps what it is given."""

    events: list[KubernetesEvent] = attrs.field(factory=list)

    async def emit(self, event: KubernetesEvent) -> None:
        """Keep one."""
        self.events.append(event)


class BoxWorld(MemoryCluster):
    """One cluster with one box. `timeline` tells what the box's controller did, and when."""

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
        self._told = _Told()
        self.entropy: Entropy = SeededEntropy(0)
        self._due: dict[ObjectRef, datetime] = {}
        self._seen = -1
        self.on_pass: Callable[[ObjectRef], None] = lambda ref: None
        """Told of each pass that did something."""
        self.namespace_labels = dict((box.namespaces or {}).get("matchLabels") or {})
        if self.namespace_labels:
            self.change(ObjectRef(NAMESPACE, None, "default"), {"metadata": {"labels": self.namespace_labels}})
        self.install([*([box.crd] if box.crd else [plain_definition(box.kind)]), *definitions])

    @property
    def events(self) -> Sequence[KubernetesEvent]:
        """What was told of the box's objects."""
        return self._told.events

    def use(self, box: Box) -> None:
        """Go on with another file of the same box, as after a restart."""
        self.box, self._seen = box, -1
        self._due.clear()

    def seed(self, manifest: Manifest) -> ObjectRef:
        """An object as it was observed somewhere, with its uid, status and managers, as far as it tells them.

        What carries the box's label and tells no managers was applied by the box. Raises errors of the port.
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
        """Every object of a kind that the box makes."""
        return {ref_of(one, kind): one for kind in child_kinds(self.box) for one in self.all_of(kind)}

    # --- the box's controller --------------------------------------------------------------------------------------

    def reconcile(self, ref: ObjectRef, watch: Watch = lambda parent, observed: None) -> ReconcileResult | None:
        """One pass; None where the object is gone. `watch` sees what each of its decisions is made on."""
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
        """Seconds until an object is looked at whatever happens; None where that is not asked for."""
        due = self._due.get(ref)
        return None if due is None else max(0.0, (due - self.now).total_seconds())

    def parent(self, ref: ObjectRef) -> Parent:
        """An object of the box's kind, as the controller reads it. Raises errors of the port."""
        return composite_of(self.box).read(run_sync(self.admin.get(ref)))

    def would_be_ready(self, external: ExternalNode, manifest: Manifest) -> bool:
        """Whether such an external would be waited for no longer."""
        names = {external.id: manifest}
        try:
            return all(one.holds(names) for one in external.ready)
        except ExpressionFailure:
            return False

    def parents(self) -> list[ObjectRef]:
        """Every object of the box's kind."""
        return [ref_of(one, self.box.kind) for one in self.all_of(self.box.kind)]

    def work(self) -> None:
        """Passes and simulated controllers, until nothing is left to do at this moment. Raises HotLoop."""
        for _ in range(_MOST_PASSES):
            self.simulate()
            due = [ref for ref, at in self._due.items() if at <= self.now]
            version = self.server.store.version
            if version == self._seen and not due:
                return
            self._seen = version
            for ref in due:
                del self._due[ref]
            for ref in self.parents():
                self._pass_once(ref)
        raise HotLoop(f"still busy after {_MOST_PASSES} passes at the same moment")

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
        """When something is due; None where nothing is but regular intervals."""
        work = self.next_work()
        return min((*self._due.values(), *(() if work is None else (work,))), default=None)

    def settle(self, within: float = 3600.0) -> None:
        """Let time pass until nothing is left to do, or `within` seconds have gone. Raises HotLoop."""
        self.until(lambda: False, within, may_settle=True)

    def until(self, holds: Callable[[], bool], within: float, *, may_settle: bool = False) -> bool:
        """Let time pass until something holds; whether it did, within so many seconds. Raises HotLoop."""
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
        """Let so many seconds pass, with everything that is due on the way."""
        self.until(lambda: False, seconds)


def _makes_flux(box: Box) -> bool:
    return any(kind.group.endswith(".toolkit.fluxcd.io") for kind in child_kinds(box))

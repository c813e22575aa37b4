"""A cluster for one box, in memory and on a virtual clock: API server, simulated workloads, the box's controller.

Nothing suspends and nothing is random: the same deeds give the same world. Passes are woken by changes, as watches wake
them, and by the times at which they asked to look again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs

from vworkspace_apiserver.inprocess import InProcessKube, run_sync
from vworkspace_apiserver.model.calls import Caller
from vworkspace_apiserver.server import ApiServer
from vworkspace_app.process.errors import CommandError
from vworkspace_app.trials.faults import Crash, FaultyKube
from vworkspace_core.apimachinery.errors import NotFound, OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from vworkspace_core.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from vworkspace_core.boxes.box import Box, ExternalNode
from vworkspace_core.boxes.child_kinds import child_kinds
from vworkspace_core.boxes.decide import composite_of
from vworkspace_core.boxes.expressions import ExpressionFailure
from vworkspace_core.boxes.labels import BOX_NAME
from vworkspace_core.composites.observe import observe_live
from vworkspace_core.composites.parent import Parent
from vworkspace_core.controller.decision import Decision, Snapshot
from vworkspace_core.controller.reconcile import ReconcileResult, run_pass
from vworkspace_core.ports import Entropy, KubernetesEvent, PatchType
from vworkspace_fake.downstream import CONTROLLERS, DownstreamSimulator
from vworkspace_fake.downstream.behaviour import DownstreamBehaviour
from vworkspace_fake.downstream.crds import downstream_crds
from vworkspace_fake.entropy import SeededEntropy
from vworkspace_fake.flux import FluxSimulator
from vworkspace_fake.flux.crds import flux_crds
from vworkspace_fake.simulation.simulator import Simulator

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
OPERATOR: Final = "system:serviceaccount:vworkspace-system:vworkspace-box"
_SIMULATED: Final = ("job", "workloads", "snapshot")
"""Simulated controllers that may take part: without them nothing becomes ready."""

_MOST_PASSES: Final = 500
"""Passes without a change of time: more are a loop."""
_SOMEBODY: Final = "kubectl"
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


class BoxWorld:
    """One cluster with one box. `timeline` tells what the box's controller did, and when."""

    def __init__(
        self, box: Box, definitions: Iterable[Manifest] = (), behaviour: DownstreamBehaviour | None = None
    ) -> None:
        self.now = START
        self.box = box
        self.server = ApiServer(now=lambda: self.now, collects=True)
        self.admin = InProcessKube(self.server)
        self.faults = FaultyKube(InProcessKube(self.server, caller=Caller(OPERATOR, agent="vworkspace-box/1")))
        simulated = InProcessKube(self.server, caller=Caller("system:simulated", agent="simulated/1"))
        names = _simulators_for(box)
        self.workloads = DownstreamSimulator(simulated, behaviour, names=names)
        flux = [FluxSimulator(simulated)] if _makes_flux(box) else []
        self.simulators: Sequence[Simulator] = (self.workloads, *flux)
        self.timeline: list[str] = []
        self.writes = 0
        self.statuses: list[Manifest] = []
        self._told = _Told()
        self.entropy: Entropy = SeededEntropy(0)
        self._due: dict[ObjectRef, datetime] = {}
        self._seen = self._ticked = -1
        if labels := self._namespace_labels():
            self.change(ObjectRef(NAMESPACE, None, "default"), {"metadata": {"labels": labels}})
        self._install([*([box.crd] if box.crd else [plain_definition(box.kind)]), *definitions])
        simulated_kinds = (*downstream_crds(names), *(flux_crds() if flux else ()))
        self._install([one for one in simulated_kinds if not self.is_defined(one["metadata"]["name"])])

    @property
    def events(self) -> Sequence[KubernetesEvent]:
        """What was told of the box's objects."""
        return self._told.events

    def use(self, box: Box) -> None:
        """Go on with another file of the same box, as after a restart."""
        self.box, self._seen = box, -1
        self._due.clear()

    # --- what people do ------------------------------------------------------------------------------------------

    def kind(self, api_version: str, kind: str) -> Kind:
        """A kind by its name. Raises CommandError where it is not served."""
        resource = self.server.registry.of_kind(api_version, kind)
        if resource is None:
            raise CommandError(f"{api_version} {kind}: there is no such kind here; give its CRD with --crds")
        return resource.core_kind

    def ref(self, manifest: Manifest) -> ObjectRef:
        """Where a manifest says that it lives. Raises CommandError where its kind is not served."""
        kind = self.kind(str(manifest.get("apiVersion")), str(manifest.get("kind")))
        namespace = metadata(manifest).get("namespace", "default") if kind.namespaced else None
        return ObjectRef(kind, namespace, str(metadata(manifest).get("name", "")))

    def _namespace_labels(self) -> dict[str, str]:
        """Those by which a namespace is the box's."""
        return dict((self.box.namespaces or {}).get("matchLabels") or {})

    def is_defined(self, name: str) -> bool:
        """Whether there is such a CustomResourceDefinition."""
        return self.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name)) is not None

    def _install(self, definitions: Iterable[Manifest]) -> None:
        for definition in definitions:
            self.create(definition, CUSTOM_RESOURCE_DEFINITION)

    def create(self, manifest: Manifest, kind: Kind) -> Manifest:
        """Somebody creates an object, its namespace too where that is missing. Raises errors of the port."""
        namespace = metadata(manifest).get("namespace")
        if kind.namespaced and namespace and self.get(ObjectRef(NAMESPACE, None, namespace)) is None:
            made = {
                **NAMESPACE.manifest(namespace),
                "metadata": {"name": namespace, "labels": self._namespace_labels()},
            }
            run_sync(self.admin.create(made, kind=NAMESPACE, field_manager=_SOMEBODY))
        return run_sync(self.admin.create(manifest, kind=kind, field_manager=_SOMEBODY))

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

    def change(self, ref: ObjectRef, patch: Mapping[str, Any], manager: str = _SOMEBODY) -> Manifest:
        """Somebody changes an object by a merge patch. Raises errors of the port."""
        return run_sync(self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=manager))

    def delete(self, ref: ObjectRef) -> None:
        """Somebody deletes an object. Raises errors of the port."""
        run_sync(self.admin.delete(ref))

    def get(self, ref: ObjectRef) -> Manifest | None:
        """An object as it stands; None where there is none."""
        try:
            return run_sync(self.admin.get(ref))
        except NotFound:
            return None

    def all_of(self, kind: Kind) -> Sequence[Manifest]:
        """All objects of a kind; none where it is not served."""
        try:
            return run_sync(self.admin.list(kind)).items
        except OperatorError:
            return ()

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
                self._say(f"{verb} {what}")
        if result.status is not None:
            self.statuses.append(result.status)
            self._say(f"status: {ready_of(result.status)}")
        if result.requeue.after is not None:
            self._due[ref] = self.now + timedelta(seconds=max(0.0, result.requeue.after))
        elif result.error is not None:
            self._due[ref] = self.now + timedelta(seconds=1.0)
        else:
            self._due.pop(ref, None)

    def _say(self, what: str) -> None:
        self.timeline.append(f"{(self.now - START).total_seconds():8.1f} s  {what}")

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
            self._simulate()
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

    def _simulate(self) -> None:
        """Let the simulated controllers work, where anything has changed or is due."""
        changed = self._ticked != self.server.store.version
        for simulator in self.simulators:
            due = simulator.next_wake_up()
            if changed or (due is not None and due <= self.now):
                simulator.tick(self.now)
        self._ticked = self.server.store.version

    def _pass_once(self, ref: ObjectRef) -> None:
        try:
            self.reconcile(ref)
        except Crash:
            self.timeline.append(
                f"{(self.now - START).total_seconds():8.1f} s  the process is killed, and starts again"
            )
            self._seen = -1
        except OperatorError as error:
            self._say(f"reading failed: {error.message}")
            self._due[ref] = self.now + timedelta(seconds=1.0)

    # --- time --------------------------------------------------------------------------------------------------------

    def next_moment(self) -> datetime | None:
        """When something is due; None where nothing is but regular intervals."""
        work = [moment for one in self.simulators if (moment := one.next_work()) is not None]
        return min((*self._due.values(), *work), default=None)

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


def _simulators_for(box: Box) -> tuple[str, ...]:
    """Those for which a box, or what it reads, has anything to do."""
    kinds = {*child_kinds(box), *(external.kind for external in box.externals)}
    return tuple(
        name for name in _SIMULATED if any(kinds & set(controller.subjects) for controller in CONTROLLERS[name])
    )


def _makes_flux(box: Box) -> bool:
    return any(kind.group.endswith(".toolkit.fluxcd.io") for kind in child_kinds(box))


def plain_definition(kind: Kind) -> Manifest:
    """A CRD for a kind of which nothing is known but its name: every object of it is admitted."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": free},
    }
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind, "listKind": f"{kind.kind}List"}
    spec = {
        "group": kind.group,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "names": names,
        "versions": [version],
    }
    return {**CUSTOM_RESOURCE_DEFINITION.manifest(kind.crd_name), "spec": spec}


def condition_of(manifest: Manifest | None, kind: str) -> Mapping[str, Any]:
    """A condition of an object; empty where it has none."""
    conditions = get_path(manifest, "status", "conditions") or ()
    return next((one for one in conditions if get_path(one, "type") == kind), {})


def ready_of(manifest: Manifest) -> str:
    """What Ready says, in a line."""
    ready = condition_of(manifest, "Ready")
    if not ready:
        return "no Ready"
    return f"Ready={ready.get('status')}/{ready.get('reason')} {ready.get('message', '')}".strip()

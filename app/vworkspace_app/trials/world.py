"""A cluster for one box, in memory and on a virtual clock: API server, simulated workloads, the box's controller.

Nothing suspends and nothing is random: the same deeds give the same world. Passes are woken by changes, as watches wake
them, and by the times at which they asked to look again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_apiserver.inprocess import InProcessKube, run_sync
from vworkspace_apiserver.model.calls import Caller
from vworkspace_apiserver.server import ApiServer
from vworkspace_app.boxes.controller import read_box_object, reconciler_of
from vworkspace_app.process.errors import CommandError
from vworkspace_app.trials.faults import Crash, FaultyKube
from vworkspace_core.apimachinery.errors import NotFound, OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from vworkspace_core.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.box_object import child_kinds
from vworkspace_core.boxes.decide import BoxContext
from vworkspace_core.boxes.observe import observe_live
from vworkspace_core.controller.reconcile import ReconcileResult, run_pass
from vworkspace_core.ports import KubernetesEvent, PatchType
from vworkspace_fake.downstream import DownstreamSimulator
from vworkspace_fake.downstream.behaviour import DownstreamBehaviour
from vworkspace_fake.downstream.crds import downstream_crds
from vworkspace_fake.entropy import SeededEntropy

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
OPERATOR: Final = "system:serviceaccount:vworkspace-system:vworkspace-box"
SIMULATED: Final = ("job", "workloads", "snapshot")
"""The simulated controllers that take part: without them nothing becomes ready."""

_MOST_PASSES: Final = 500
"""Passes without a change of time: more are a loop."""
_SOMEBODY: Final = "kubectl"


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
        self.workloads = DownstreamSimulator(simulated, behaviour, names=SIMULATED)
        self.timeline: list[str] = []
        self.writes = 0
        self.statuses: list[Manifest] = []
        self._told = _Told()
        self._entropy = SeededEntropy(0)
        self._due: dict[ObjectRef, datetime] = {}
        self._seen = -1
        self._install([*([box.crd] if box.crd else [plain_definition(box.kind)]), *definitions])
        self._install([one for one in downstream_crds(SIMULATED) if not self.is_defined(one["metadata"]["name"])])

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
            labels = dict((self.box.namespaces or {}).get("matchLabels") or {})
            made = {**NAMESPACE.manifest(namespace), "metadata": {"name": namespace, "labels": labels}}
            run_sync(self.admin.create(made, kind=NAMESPACE, field_manager=_SOMEBODY))
        return run_sync(self.admin.create(manifest, kind=kind, field_manager=_SOMEBODY))

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

    def reconcile(self, ref: ObjectRef) -> ReconcileResult | None:
        """One pass; None where the object is gone."""
        manifest = self.get(ref)
        if manifest is None:
            self._due.pop(ref, None)
            return None
        reconciler = reconciler_of(self.box, lambda: BoxContext(self.now), self._entropy)
        parent = read_box_object(self.box, manifest)
        observed = run_sync(observe_live(self.faults, self.box, parent))
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

    def parents(self) -> list[ObjectRef]:
        """Every object of the box's kind."""
        return [ref_of(one, self.box.kind) for one in self.all_of(self.box.kind)]

    def work(self) -> None:
        """Passes and simulated controllers, until nothing is left to do at this moment. Raises HotLoop."""
        for _ in range(_MOST_PASSES):
            self.workloads.tick(self.now)
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
        moments = [*self._due.values()]
        if (work := self.workloads.next_work()) is not None:
            moments.append(work)
        return min(moments, default=None)

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

"""A whole cluster in memory, without an event loop: API server, simulated Flux, our reconciler, a clock.

Everything is a function of what the test does: no thread, no real time, no randomness.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    HELM_RELEASE,
    HELM_REPOSITORY,
    NAMESPACE,
    OCI_REPOSITORY,
)
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import KubernetesEvent, PatchType
from tests.support.instance_worlds import CLUSTER
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.observe import observe_live
from vworkspace_core.instances.reconcile import reconcile

START = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
NS = "org-myteam"
OPERATOR = "system:serviceaccount:vworkspace-system:vworkspace-operator"


@attrs.define
class EventLog:
    """`EventSink` that keeps what it is given."""

    events: list[KubernetesEvent] = attrs.field(factory=list)

    async def emit(self, event: KubernetesEvent) -> None:
        """Keep one."""
        self.events.append(event)


class Simulation:
    """One cluster. `history` holds every status the instance ever had, in order."""

    def __init__(
        self, *, with_flux: bool = True, behaviour: FluxBehaviour | None = None, collects: bool = True
    ) -> None:
        self.now = START
        self.server = ApiServer(now=lambda: self.now, collects=collects)
        self.admin = InProcessKube(self.server)
        self.api = InProcessKube(self.server, caller=Caller(OPERATOR, agent="vworkspace-operator/1"))
        self.flux = FluxSimulator(InProcessKube(self.server, caller=Caller("flux", agent="flux/2")), behaviour)
        self.settings = Settings(cluster_id=CLUSTER)
        self.events = EventLog()
        self.is_backlogged = False
        """Whether other keys wait for a worker."""
        self.decide: Callable[[ApplicationInstance, InstanceObserved, Context], Decision] = reconcile
        for crd in (*crd_manifests(), *(flux_crds() if with_flux else ())):
            self.create_definition(crd)
        gate = {**NAMESPACE.manifest(NS), "metadata": {"name": NS, "labels": {"managed-by": "vworkspace"}}}
        run_sync(self.admin.create(gate, kind=NAMESPACE, field_manager="admin"))
        self._statuses = self.admin.open_watch(APPLICATION_INSTANCE)
        self.history: list[Manifest] = []

    def create_definition(self, crd: Mapping[str, Any]) -> None:
        """Install a CRD."""
        run_sync(self.admin.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin"))

    # --- what people and the control plane do ------------------------------------------------------------------

    def submit(self, manifest: Mapping[str, Any]) -> Manifest:
        """Apply an instance as people do: spec, labels and annotations; the reconciler adds the finalizer."""
        meta = {
            key: manifest["metadata"][key] for key in ("name", "namespace", "labels") if key in manifest["metadata"]
        }
        body = {**manifest, "metadata": meta}
        body.pop("status", None)
        return run_sync(self.api.apply(body, kind=APPLICATION_INSTANCE, field_manager=FIELD_MANAGER))

    def edit(self, ref: ObjectRef, patch: Mapping[str, Any], *, manager: str = "kubectl-edit") -> Manifest:
        """A merge patch by somebody."""
        return run_sync(self.admin.patch(self.actual(ref), patch, patch_type=PatchType.MERGE, field_manager=manager))

    def remove(self, ref: ObjectRef) -> None:
        """Somebody deletes an object."""
        run_sync(self.admin.delete(self.actual(ref)))

    def get(self, ref: ObjectRef) -> Manifest | None:
        """The object as it stands, None when there is none."""
        kind, ref = self.admin, self.actual(ref)
        page = run_sync(kind.list(ref.kind, namespace=ref.namespace, field_selector=f"metadata.name={ref.name}"))
        return page.items[0] if page.items else None

    def actual(self, ref: ObjectRef) -> ObjectRef:
        """`OCI`, `REPOSITORY` and `FRAGMENT` stand for what the HelmRelease reads, whatever that is called.

        Where it reads nothing of the kind, the newest there is.
        """
        if ref not in (OCI, REPOSITORY, FRAGMENT):
            return ref
        try:
            found = run_sync(self.admin.list(ref.kind, namespace=NS)).items
        except NotFound:
            return ref
        metas = sorted((item["metadata"] for item in found), key=lambda meta: int(meta["resourceVersion"]))
        names = [meta["name"] for meta in metas]
        ours = [name for name in names if name.startswith(ref.name)]
        used = [name for name in ours if name in self._read_by_release(ref.kind)]
        return attrs.evolve(ref, name=(used or ours or [ref.name])[-1])

    def _read_by_release(self, kind: Kind) -> list[str]:
        try:
            spec = get_path(self.get(HELM), "spec") or {}
        except NotFound:
            return []  # the kind itself has gone
        told = [spec.get("chartRef"), get_path(spec, "chart", "spec", "sourceRef"), *(spec.get("valuesFrom") or ())]
        return [one["name"] for one in told if one and one["kind"] == kind.kind]

    # --- the operator --------------------------------------------------------------------------------------------

    def reconcile(self, ref: ObjectRef, stale: Manifest | None = None) -> ReconcileResult | None:
        """One pass over an instance, on `stale` instead of the present copy when given."""
        manifest = stale or self.get(ref)
        if manifest is None:
            return None
        source = read_application_instance(manifest)
        observed = run_sync(observe_live(self.api, source, self.override_of(source)))
        reconciler = PassRules(
            APPLICATION_INSTANCE, read_application_instance, self._decide, FIELD_MANAGER, FINALIZER, idempotent=True
        )
        work = run_pass(reconciler, source, observed, self.api, self.events, is_backlogged=lambda: self.is_backlogged)
        result = run_sync(work)
        self._remember()
        return result

    def override_of(self, source: ApplicationInstance) -> ReleaseOverride | None:
        """What an Operation asks of the release: nothing, where there are no Operations."""
        return None

    def _remember(self) -> None:
        """Keep every status that differs from the one before; writes of spec or metadata repeat the old one."""
        for event in self._statuses.drain():
            status = event.object.get("status")
            if status and (not self.history or self.history[-1]["status"] != status):
                self.history.append(event.object)

    def _decide(self, source: ApplicationInstance, observed: InstanceObserved) -> Decision:
        return self.decide(source, observed, Context(self.settings, self.now))

    def observe(self, ref: ObjectRef) -> tuple[ApplicationInstance, InstanceObserved]:
        """The snapshot a pass would decide on."""
        manifest = self.get(ref)
        assert manifest is not None, f"{ref} is gone"
        source = read_application_instance(manifest)
        return source, run_sync(observe_live(self.api, source, self.override_of(source)))

    # --- time ------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Let time pass; Flux does what is due."""
        self.now += timedelta(seconds=seconds)
        self.flux.tick(self.now)

    def settle(self, ref: ObjectRef, *, horizon: float = 7200.0) -> Manifest:
        """Reconcile and let Flux work until neither has anything left to do; the instance then."""
        limit = self.now + timedelta(seconds=horizon)
        while True:
            result = self.reconcile(ref)
            self.flux.tick(self.now)
            if result is None or (again := self.reconcile(ref)) is None:
                raise AssertionError(f"{ref} is gone")
            if self.writes_of(result) or self.writes_of(again):
                continue
            due = self._next_due(again)
            if due is None or due > limit:
                found = self.get(ref)
                assert found is not None
                return found
            self.now = max(self.now, due)
            self.flux.tick(self.now)

    @staticmethod
    def writes_of(result: ReconcileResult) -> int:
        """How many writes a pass made."""
        return result.writes

    def _next_due(self, result: ReconcileResult) -> datetime | None:
        """When there is more to come than Flux's regular interval."""
        waits = result.decision.requeue.after
        mine = None if waits is None else self.now + timedelta(seconds=waits)
        flux = self.flux.next_work()
        return min((at for at in (mine, flux) if at is not None), default=None)

    # --- what is asserted on ---------------------------------------------------------------------------------------

    def operator_writes(self) -> int:
        """Writes by the operator since the audit log was cleared, those that changed nothing included."""
        return len(self.server.audit.writes(user=OPERATOR))

    def condition(self, ref: ObjectRef, kind: str) -> tuple[str, str] | None:
        """Status and reason of a condition."""
        for condition in get_path(self.get(ref), "status", "conditions") or ():
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return None


INSTANCE = ObjectRef(APPLICATION_INSTANCE, NS, "nextcloud-myteam")
HELM = ObjectRef(HELM_RELEASE, NS, "nextcloud")
OCI = ObjectRef(OCI_REPOSITORY, NS, "nextcloud")
REPOSITORY = ObjectRef(HELM_REPOSITORY, NS, "nextcloud")
FRAGMENT = ObjectRef(CONFIG_MAP, NS, "nextcloud-integrations")
"""With `OCI` and `REPOSITORY`: see `Simulation.actual`."""

"""A whole cluster for Operations, in memory and without an event loop: API server, our reconciler, a clock.

The downstream controllers are puppets here: a test writes the statuses itself. `Dying` is an API that stops the
operator dead before or after any of its calls.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from kubelab.downstream.crds import downstream_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.model.calls import Caller, RequestVerb
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    HELM_RELEASE,
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    SECRET,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CONTENT,
    WORKFLOW,
)
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import KubeRequest, KubeVerb, PatchType, Propagation, Send
from tests.support.instance_worlds import CLUSTER
from tests.support.operation_worlds import (
    APPROVAL_SECRET,
    NS,
    SETTINGS,
    SURROUNDINGS,
    TARGET,
    operation_manifest,
    target_labels,
    target_manifest,
)
from tests.support.simulation import OPERATOR, START, EventLog
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import APPLICATION_NAMESPACE, FIELD_MANAGER, FINALIZER, INSTANCE_UID, OPERATION_UID
from vworkspace_core.api.operation import Operation, Phase
from vworkspace_core.operations.approvals import Claims
from vworkspace_core.operations.context import OperationContext, OperationObserved, observe_operation_live
from vworkspace_core.operations.reconcile import needs_live_view, reconcile_operation

ENGINE_KINDS = (
    VELERO_BACKUP,
    VELERO_RESTORE,
    WORKFLOW,
    JOB,
    REPLICATION_SOURCE,
    REPLICATION_DESTINATION,
    VOLUME_SNAPSHOT,
    PERSISTENT_VOLUME_CLAIM,
)
_WITHOUT_SUBRESOURCE = (VELERO_BACKUP, VELERO_RESTORE, WORKFLOW)


class Died(Exception):
    """The operator process is gone: nothing of what it was about to do happens any more."""


class Dying(InProcessKube):
    """Stops at the `fatal`-th write: before it, or after the server has done it.

    With `holds_creates` a create gets no answer in time; what it would still do is in `held`.
    """

    def __init__(self, server: ApiServer, caller: Caller) -> None:
        super().__init__(server, caller=caller)
        self.fatal = -1
        self.after = False
        self.holds_creates = False
        self.held: list[Callable[[], Coroutine[Any, Any, Manifest]]] = []
        self.transport = self.through(self._die).transport

    async def _die(self, request: KubeRequest, proceed: Send) -> Manifest:
        if not request.writes:
            return await proceed(request)
        if self.holds_creates and request.verb is KubeVerb.CREATE:

            async def arrive() -> Manifest:
                return await proceed(request)

            self.held.append(arrive)
            raise Unavailable("no answer in time")
        self.fatal -= 1
        if self.fatal == -1 and not self.after:
            self.fatal = -10
            raise Died
        dies = self.fatal == -1
        answer = await proceed(request)
        if dies:
            self.fatal = -10
            raise Died
        return answer


class _Turn:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def pausing(request: KubeRequest, proceed: Send) -> Manifest:
    """Suspend before every call but a create, so that a test decides whose call is next.

    A create follows at once on the look that confirms its reason; that no other process comes between is the fence's
    to see to.
    """
    if request.verb is not KubeVerb.CREATE:
        await _Turn()
    return await proceed(request)


@attrs.frozen
class View:
    """What a worker has in its caches: a copy of the Operation, and of everything beside it."""

    manifest: Manifest
    observed: OperationObserved


class Cluster:
    """One cluster with one target. `created` holds the uids of engine objects ever made, by Operation uid."""

    def __init__(self, of: str = "runCommand.job", **annotations: str) -> None:
        self.now = START
        self.server = ApiServer(now=lambda: self.now)
        self.admin = InProcessKube(self.server)
        self.api = Dying(self.server, caller=Caller(OPERATOR, agent="vworkspace-operator/1"))
        self.settings = SETTINGS
        self.events = EventLog()
        for crd in (*crd_manifests(), *downstream_crds()):
            self.make(CUSTOM_RESOURCE_DEFINITION, crd)
        for name in (NS, "velero"):
            self.make(NAMESPACE, {"metadata": {"name": name, "labels": {"managed-by": "vworkspace"}}})
        self._watches = [self.admin.open_watch(kind) for kind in ENGINE_KINDS]
        self.created: dict[str, set[str]] = {}
        self._make_target(of, **annotations)
        for ref, manifest in SURROUNDINGS.items():
            if ref.kind not in (HELM_RELEASE, SECRET):  # no story here asks for a chart's hook
                self.make(ref.kind, self._of_this_target(manifest))

    def _make_target(self, of: str, **annotations: str) -> None:
        manifest = target_manifest(of, annotations)
        meta = {key: manifest["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        self.make(APPLICATION_INSTANCE, {**manifest, "metadata": meta})
        self.write_status(TARGET, manifest["status"])

    def _of_this_target(self, manifest: Manifest) -> Manifest:
        """With the uid that the server gave the target, in what is to be the target's."""
        target, labels = self.get(TARGET), metadata(manifest).get("labels") or {}
        if target is None or INSTANCE_UID not in labels:
            return manifest
        meta = {**metadata(manifest), "labels": {**labels, INSTANCE_UID: metadata(target)["uid"]}}
        return {**manifest, "metadata": meta}

    # --- what people, the control plane and downstream controllers do -------------------------------------------

    def make(self, kind: Kind, manifest: Mapping[str, Any]) -> Manifest:
        """Somebody creates an object."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        return run_sync(self.admin.create(body, kind=kind, field_manager="admin"))

    def submit(self, of: str, name: str, **more: Any) -> ObjectRef:
        """The agent creates an Operation."""
        manifest = operation_manifest(of, name=name, **more)
        desired = ("name", "namespace", "labels", "annotations")
        meta = {key: manifest["metadata"][key] for key in desired if key in manifest["metadata"]}
        self.make(OPERATION, {**manifest, "metadata": meta})
        return ObjectRef(OPERATION, NS, name)

    def make_foreign_backup(self, name: str) -> None:
        """A Backup of another tenant lies in Velero's namespace."""
        labels = target_labels(**{INSTANCE_UID: "of-another-tenant", APPLICATION_NAMESPACE: "org-other"})
        meta = {"name": name, "namespace": "velero", "labels": labels}
        self.make(VELERO_BACKUP, {"metadata": meta, "spec": {}})

    def edit(self, ref: ObjectRef, patch: Mapping[str, Any]) -> Manifest:
        """A merge patch by somebody."""
        return run_sync(self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit"))

    def remove(self, ref: ObjectRef) -> None:
        """Somebody, or a TTL, deletes an object."""
        if self.get(ref) is not None:
            run_sync(self.admin.delete(ref))

    def orphan(self, ref: ObjectRef) -> None:
        """Somebody deletes an object with `--cascade=orphan`; the garbage collector comes later, by `collect`."""
        run_sync(self.admin.delete(ref, propagation=Propagation.ORPHAN))

    def collect(self) -> None:
        """The garbage collector does all that there is to do."""
        self.server.run_gc()

    def write_status(self, ref: ObjectRef, status: Mapping[str, Any]) -> None:
        """A controller writes a status: where the kind has a subresource, there."""
        sub = "" if ref.kind in _WITHOUT_SUBRESOURCE else "status"
        patch = {"status": dict(status)}
        run_sync(self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="controller", subresource=sub))

    def bind(self, snapshot: ObjectRef, live: Manifest) -> str:
        """The snapshotter makes a content and binds it to the snapshot; its name."""
        name = f"content-{metadata(live)['uid']}"
        reference = {"name": snapshot.name, "namespace": snapshot.namespace, "uid": metadata(live)["uid"]}
        volume = {"driver": "csi.example.test", "source": {"volumeHandle": "v-1"}, "deletionPolicy": "Retain"}
        spec = {**volume, "volumeSnapshotRef": reference}
        if self.get(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, name)) is None:
            self.make(VOLUME_SNAPSHOT_CONTENT, {"metadata": {"name": name}, "spec": spec})
        return name

    def let_go(self, ref: ObjectRef) -> None:
        """Whatever protects an object that is being deleted lets go of it."""
        self.edit(ref, {"metadata": {"finalizers": None}})

    def get(self, ref: ObjectRef) -> Manifest | None:
        """The object as it stands, None when there is none."""
        page = run_sync(self.admin.list(ref.kind, namespace=ref.namespace, field_selector=f"metadata.name={ref.name}"))
        return page.items[0] if page.items else None

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    # --- the operator ---------------------------------------------------------------------------------------------

    @property
    def context(self) -> OperationContext:
        """As it is now."""
        return OperationContext(self.settings, self.now, Claims(APPROVAL_SECRET, CLUSTER))

    def view(self, ref: ObjectRef) -> View | None:
        """What caches that are up to date hold."""
        manifest = self.get(ref)
        if manifest is None:
            return None
        return View(manifest, run_sync(observe_operation_live(self.admin, read_operation(manifest), self.context)))

    def reconcile(self, ref: ObjectRef, view: View | None = None) -> ReconcileResult | None:
        """One pass, on caches that may be behind. Raises Died where the operator was to die."""
        try:
            return run_sync(self.pass_over(ref, view, self.api))
        finally:
            self.remember()

    async def pass_over(self, ref: ObjectRef, view: View | None, api: InProcessKube) -> ReconcileResult | None:
        """The same through any API, which may suspend between its calls."""
        view = view or self.view(ref)
        if view is None:
            return None
        source, observed = read_operation(view.manifest), view.observed
        if needs_live_view(source, observed, self.context):
            observed = await observe_operation_live(api, source, self.context)
        return await run_pass(
            PassRules(OPERATION, read_operation, self._decide, FIELD_MANAGER, FINALIZER),
            source,
            observed,
            api,
            self.events,
        )

    def _decide(self, source: Operation, observed: OperationObserved) -> Decision:
        return reconcile_operation(source, observed, self.context)

    def settle(self, ref: ObjectRef) -> ReconcileResult | None:
        """Passes until nothing is written any more."""
        for _ in range(20):
            result = self.reconcile(ref)
            if result is None or not result.writes:
                return result
        raise AssertionError(f"{ref} never settles: {self.get(ref)}")

    def creations(self) -> int:
        """How many objects the operator ever created, by the server's log of requests."""
        return len(
            [one for one in self.server.audit.writes(user=OPERATOR) if one.verb is RequestVerb.CREATE and one.changed]
        )

    def remember(self) -> None:
        """Take in what was created since."""
        for watch in self._watches:
            for event in watch.drain():
                uid = (metadata(event.object).get("labels") or {}).get(OPERATION_UID)
                if uid:
                    self.created.setdefault(uid, set()).add(metadata(event.object)["uid"])

    # --- what is asserted on ----------------------------------------------------------------------------------------

    def operation(self, ref: ObjectRef) -> Operation:
        """The Operation as it stands."""
        manifest = self.get(ref)
        assert manifest is not None, f"{ref} is gone"
        return read_operation(manifest)

    def operations(self) -> tuple[Operation, ...]:
        """All of them."""
        return tuple(read_operation(item) for item in run_sync(self.admin.list(OPERATION)).items)

    def phase(self, ref: ObjectRef) -> Phase | None:
        """Where it stands."""
        return self.operation(ref).status.phase

    def condition(self, ref: ObjectRef, kind: str) -> tuple[str, str] | None:
        """Status and reason of a condition."""
        found = (condition for condition in self.operation(ref).status.conditions if condition.type == kind)
        return next(((str(condition.status), condition.reason) for condition in found), None)

    def engine_objects(self, uid: str = "") -> tuple[tuple[ObjectRef, Manifest], ...]:
        """The live objects that carry an Operation's uid."""
        found = []
        for kind in ENGINE_KINDS:
            selector = f"{OPERATION_UID}={uid}" if uid else OPERATION_UID
            items = run_sync(self.admin.list(kind, label_selector=selector)).items
            found += [(ref_of(item, kind), item) for item in items]
        return tuple(found)

    def engine_object(self, ref: ObjectRef) -> tuple[ObjectRef, Manifest]:
        """The one engine object of an Operation."""
        (found,) = self.engine_objects(self.operation(ref).metadata.uid)
        return found


def moment(text: str | None) -> datetime:
    """A time as the API server writes it."""
    assert text is not None
    return datetime.fromisoformat(text)


COMPLETE: Mapping[str, Any] = {
    "conditions": [
        {"type": kind, "status": "True", "reason": "CompletionsReached"} for kind in ("SuccessCriteriaMet", "Complete")
    ],
    "completionTime": "2026-06-01T12:00:00Z",
    "active": 0,
}
"""The status of a Job that did its work, as an API server lets a controller write it."""

"""A stage in a cluster of real controllers (`make cluster`): a namespace with the printed service account."""

import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from anyio.from_thread import start_blocking_portal

from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION, DELETE_BACKUP_REQUEST, PERSISTENT_VOLUME
from purekube.apimachinery.errors import AlreadyExists, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import (
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICATION_SOURCE,
    SECRET,
    SERVICE_ACCOUNT,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT_CLASS,
)
from purekube.ports import KubeApi
from purekube_http import KubeApiClient, load_config
from tests.support.cluster_environment import RIGHTS, apply_printed
from tests.support.engine_scenarios import Scenario
from tests.support.engine_sequence import sequences_of
from tests.support.engine_stage import SEEN, SNAPSHOT_CLASS, STORAGE, EngineStage
from tests.support.flux_sequence import Sequences
from tests.support.kube_client import RemoteHands, RemoteRecord, Seen
from tests.support.patience import PATIENCE
from tools.cluster.components import BUCKET
from tools.cluster.up import Cluster
from vworkspace_app.install import InstallOptions, tenant

_LOOK: Final = 0.1
_FATE: Final = "cluster.vworkspace.io/pod"
_DRIVER: Final = "simulated.csi.example"
_TEMPLATE: Final = Kind("argoproj.io", "v1alpha1", "WorkflowTemplate", "workflowtemplates")
_QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas")
_SETTLED: Final = 5.0
"""Seconds of waiting after which a stage asks whether a race inside a controller spoilt it."""


class StageSpoilt(Exception):
    """A race inside a real controller, which no scenario is about: the scenario is played again on another stage."""


class RealEngineStage(EngineStage):
    """Pods end as a label of theirs says."""

    def __init__(self, hands: RemoteHands, namespace: str, storage: str) -> None:
        """Have a namespace, and the address of the object storage."""
        super().__init__(hands, namespace, str(uuid.uuid4()))
        self._storage = storage
        served = [kind for kind in SEEN if hands.do(partial(_is_served, kind))]
        self._record = RemoteRecord(hands, [(kind, self._place(kind)) for kind in served])
        self._seen: list[Seen] = []
        self._record.start()

    def _place(self, kind: Kind) -> str | None:
        if not kind.namespaced:
            return None
        return "velero" if kind.group == VELERO_BACKUP.group else self.namespace

    def pods_end(self, kind: Kind, body: dict[str, Any], fate: str) -> None:
        """Label the pods."""
        if kind == JOB:
            body["spec"]["template"]["metadata"]["labels"][_FATE] = fate
        if kind == REPLICATION_SOURCE:
            body["spec"]["restic"]["moverPodLabels"] = {_FATE: fate}

    def workflow_template(self, *, pods: str = "ready", retries: int = 0, before: str = "") -> None:
        """Create it."""
        container = {"image": "registry.example.com/tool:1", "command": ["tool"]}
        ends = {"work": pods, "flaky": "fails-{{retries}}"}
        templates: list[dict[str, Any]] = [
            {"name": name, "metadata": {"labels": {_FATE: end}}, "container": container} for name, end in ends.items()
        ]
        templates[0] |= {"retryStrategy": {"limit": str(retries)}} if retries else {}
        templates[1] |= {"retryStrategy": {"limit": "1"}}
        steps = [[{"name": name, "template": name}] for name in (before, "work")]
        templates += [{"name": "suspended", "suspend": {}}, {"name": "main", "steps": steps}] if before else []
        spec = {"entrypoint": "main" if before else "work", "templates": templates}
        self.create({**_TEMPLATE.manifest("runbook", self.namespace), "spec": spec}, _TEMPLATE)

    def volume(self, *, bound: bool = True) -> None:
        """Create a claim, and a volume of the driver for it."""
        spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        if bound:
            spec["volumeName"] = self.namespace
            self._provision(self.namespace)
        claim = PERSISTENT_VOLUME_CLAIM.manifest("data", self.namespace)
        resources = {"requests": {"storage": "2Gi"}}
        self.create({**claim, "spec": {**spec, "resources": resources}}, PERSISTENT_VOLUME_CLAIM)
        if bound:
            ref = ObjectRef(PERSISTENT_VOLUME_CLAIM, self.namespace, "data")
            self.until(lambda: get_path(self.find(ref), "status", "phase") == "Bound", "the claim is bound")

    def _provision(self, name: str) -> None:
        csi, size = {"driver": _DRIVER, "volumeHandle": name}, {"storage": "2Gi"}
        volume = {"accessModes": ["ReadWriteOnce"], "capacity": size, "csi": csi, "storageClassName": ""}
        self.create({**PERSISTENT_VOLUME.manifest(name), "spec": volume}, PERSISTENT_VOLUME)

    def repository(self) -> None:
        """Create them."""
        self._provision(f"{self.namespace}-cache")
        held = {"RESTIC_REPOSITORY": "s3:http://example.com/shop", "RESTIC_PASSWORD": "correct-horse"}
        self.create({**SECRET.manifest("restic", self.namespace), "stringData": held}, SECRET)

    def storage_is_unavailable(self) -> None:
        """Create it, of a provider without a plugin."""
        self._located("away", "Unavailable", provider="example.com/none")

    def storage(self) -> None:
        """Create it, of the cluster's object storage, where every stage has a folder."""
        url = {"region": "none", "s3Url": f"http://{self._storage}", "s3ForcePathStyle": "true"}
        self._located(STORAGE, "Available", provider="velero.io/aws", config=url, backupSyncPeriod="5s")

    def _located(self, name: str, phase: str, **spec: Any) -> None:
        """Create a storage location unless another stage has; wait for its phase."""
        ref = ObjectRef(BACKUP_STORAGE_LOCATION, "velero", name)
        if self.find(ref) is None:
            manifest = BACKUP_STORAGE_LOCATION.manifest(name, "velero")
            with suppress(AlreadyExists):
                self.create({**manifest, "spec": {**spec, "objectStorage": {"bucket": BUCKET}}}, ref.kind)
        self.until(lambda: get_path(self.find(ref), "status", "phase") == phase, f"the storage is {phase}")

    def hook_fails(self) -> None:
        """Create a pod with a hook, which kwok cannot execute."""
        hook = {"pre.hook.backup.velero.io/command": '["/bin/false"]', "pre.hook.backup.velero.io/on-error": "Fail"}
        pod = POD.manifest("hooked", self.namespace)
        containers = [{"name": "main", "image": "registry.example.com/tool:1"}]
        self.create(
            {**pod, "metadata": {**pod["metadata"], "annotations": hook}, "spec": {"containers": containers}}, POD
        )
        ref = ObjectRef(POD, self.namespace, "hooked")
        self.until(lambda: get_path(self.find(ref), "status", "phase") == "Running", "the pod runs")

    def snapshot_class(self) -> None:
        """Create it unless another stage has."""
        if self.find(ObjectRef(VOLUME_SNAPSHOT_CLASS, None, SNAPSHOT_CLASS)) is None:
            manifest = VOLUME_SNAPSHOT_CLASS.manifest(SNAPSHOT_CLASS)
            self.create({**manifest, "driver": _DRIVER, "deletionPolicy": "Delete"}, VOLUME_SNAPSHOT_CLASS)

    def driver_cuts(self, error: str = "") -> None:
        """Write the status that the CSI sidecar writes."""
        status: dict[str, Any] = {"readyToUse": False, "error": {"message": error, "time": "2026-01-01T00:00:00Z"}}
        if not error:
            cut = {"creationTime": 1767225600000000000, "restoreSize": 2 * 1024**3, "snapshotHandle": "snap-1"}
            status = {**cut, "readyToUse": True, "error": None}
        self.patch({"status": status}, self.content(), "status")

    def driver_deletes(self, content: ObjectRef) -> None:
        """Take the finalizer off, as the CSI sidecar does once the snapshot is gone from the storage."""
        being = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
        self.until(lambda: self._is_marked(content, being), "the content is marked for deletion")
        self.patch({"metadata": {"finalizers": None}}, content)

    def _is_marked(self, content: ObjectRef, mark: str) -> bool:
        meta = metadata(self.find(content) or {})
        return mark in (meta.get("annotations") or {}) and "deletionTimestamp" in meta

    def quota(self, pods: int | None) -> None:
        """Create a ResourceQuota and wait until it is counted, or delete it."""
        ref = ObjectRef(_QUOTA, self.namespace, "small")
        if pods is None:
            self.delete(ref)
            return
        spec = {"hard": {"pods": str(pods)}}
        self.create({**_QUOTA.manifest("small", self.namespace), "spec": spec}, _QUOTA)
        self.until(lambda: "used" in ((self.find(ref) or {}).get("status") or {}), "the quota is counted")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Look again and again."""
        began = time.monotonic()
        while not holds():
            waited = time.monotonic() - began
            assert waited < PATIENCE, f"not within {PATIENCE} s: {what}; {self.standing()}"
            if waited > _SETTLED and (race := self._race()):
                raise StageSpoilt(race)
            time.sleep(_LOOK)

    def _race(self) -> str:
        """Name the race inside a controller that leaves this stage waiting in vain."""
        live = self.standing() or {}
        if get_path(live, "status", "message") == f'{_TEMPLATE.plural}.{_TEMPLATE.group} "runbook" not found':
            template = ObjectRef(_TEMPLATE, self.namespace, "runbook")
            return "Argo's informer had not seen the template yet" if self.find(template) else ""
        requests = self._listed(DELETE_BACKUP_REQUEST) if self._ref and self._ref.kind == VELERO_BACKUP else ()
        if any(map(self._is_refused, requests)):
            # Velero 1.18.3: backup_controller's deferred AddPostProcessing may run after the finalizer's Delete, and
            # the tracker then holds a completed backup until Velero starts again.
            return "Velero's tracker still holds the completed backup"
        return ""

    def _is_refused(self, request: Manifest) -> bool:
        refused = "backup is still in progress" in (get_path(request, "status", "errors") or ())
        return refused and bool(get_path(request, "spec", "backupName") == self.ref.name)

    def _listed(self, kind: Kind) -> Sequence[Manifest]:
        return self.hands.do(lambda api: api.list(kind, namespace=self._place(kind))).items

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def seen(self) -> Sequence[Seen]:
        """Return everything that is this stage's, in the order of the server."""
        self._seen += [item for item in self._record.fresh() if self._is_ours(item)]
        self._seen.sort(key=lambda item: int(item[1].object["metadata"]["resourceVersion"]))
        return self._seen

    def _is_ours(self, item: Seen) -> bool:
        """Say whether an object is of this stage: some kinds lie in a namespace that stages share, or in none."""
        kind, event = item
        if self._place(kind) == "velero":
            return bool(event.object["metadata"]["name"] == self.ref.name)
        return kind.namespaced or self.namespace in str(event.object.get("spec"))

    def stop(self) -> None:
        """Watch no longer, and leave nothing."""
        self._record.stop()
        self.hands.do(lambda api: api.delete(ObjectRef(NAMESPACE, None, self.namespace)))


async def _is_served(kind: Kind, api: KubeApi) -> bool:
    try:
        await api.list(kind, namespace=None)
    except OperatorError:
        return False
    return True


@contextmanager
def real_stage(cluster: Cluster) -> Iterator[RealEngineStage]:
    """Have a namespace with the printed roles in that cluster, while the block lasts."""
    namespace = f"stage-{secrets.token_hex(3)}"
    config = load_config(cluster.kubeconfig)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(KubeApiClient(config)) as api:
        hands = RemoteHands(portal, api)
        manifest: Manifest = {**NAMESPACE.manifest(namespace), "metadata": {"name": namespace}}
        hands.do(lambda found: found.create(manifest, kind=NAMESPACE, field_manager="admin"))
        printed = tenant(namespace, InstallOptions(namespace="vworkspace-system"))
        hands.do(partial(apply_printed, printed, {**RIGHTS, SERVICE_ACCOUNT.kind: SERVICE_ACCOUNT}))
        stage = RealEngineStage(hands, namespace, cluster.storage)
        try:
            yield stage
        finally:
            stage.stop()


def played(scenario: Scenario, cluster: Cluster, attempts: int = 3) -> Sequences:
    """Play a scenario, again on another stage where a race inside a controller spoilt it; return what was seen."""
    while True:
        attempts -= 1
        with real_stage(cluster) as stage:
            try:
                scenario.play(stage)
                return sequences_of(stage)
            except StageSpoilt:
                if not attempts:
                    raise

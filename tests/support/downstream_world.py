"""A cluster with the downstream CRDs and the simulated controllers, under a clock set by hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubelab.clock import ManualClock
from kubelab.downstream import DownstreamBehaviour, DownstreamSimulator
from kubelab.downstream.crds import downstream_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import (
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    SECRET,
    SERVICE_ACCOUNT,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    WORKFLOW,
)
from purekube.ports import PatchType, Propagation, WatchEventType
from tests.support.flux_world import keeping
from tests.support.furnished import furnish
from tests.support.passing_time import go_on, settle

NS = "org"
VELERO_NS = "velero"


def _of(kind: Kind, name: str, spec: Mapping[str, Any], namespace: str | None = NS) -> dict[str, Any]:
    return {**kind.manifest(name, namespace), "spec": dict(spec)}


def backup(name: str = "b", *, namespace: str = VELERO_NS, **spec: Any) -> dict[str, Any]:
    """A Backup as the operator makes it (OPS-7)."""
    return _of(VELERO_BACKUP, name, {"includedNamespaces": [NS], **spec}, namespace)


def restore(name: str = "r", *, of: str = "b", **spec: Any) -> dict[str, Any]:
    """A Restore as the operator makes it (OPS-7)."""
    return _of(VELERO_RESTORE, name, {"backupName": of, "includedNamespaces": [NS], **spec}, VELERO_NS)


def workflow(name: str = "w", **spec: Any) -> dict[str, Any]:
    """A Workflow as the operator makes it (OPS-8)."""
    given = {"workflowTemplateRef": {"name": "nightly"}, "serviceAccountName": "runner", **spec}
    return _of(WORKFLOW, name, {key: value for key, value in given.items() if value is not None})


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    """A Job that runs one container."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "run", "image": "tool:1"}]}
    return _of(JOB, name, {"backoffLimit": 0, "template": {"spec": pod}, **spec})


def source(name: str = "s", manual: str = "one", **spec: Any) -> dict[str, Any]:
    """A ReplicationSource as the operator makes it (OPS-10)."""
    given = {"sourcePVC": "data", "trigger": {"manual": manual}, "restic": {"repository": "repo"}, **spec}
    return _of(REPLICATION_SOURCE, name, given)


def destination(name: str = "d", manual: str = "one", **restic: Any) -> dict[str, Any]:
    """A ReplicationDestination as the operator makes it (OPS-10)."""
    mover = {"repository": "repo", "copyMethod": "Direct", "destinationPVC": "data", **restic}
    return _of(REPLICATION_DESTINATION, name, {"trigger": {"manual": manual}, "restic": mover})


def snapshot(name: str = "v", pvc: str = "data", **spec: Any) -> dict[str, Any]:
    """A VolumeSnapshot as the operator makes it (OPS-10)."""
    given = {"source": {"persistentVolumeClaimName": pvc}, "volumeSnapshotClassName": "fast", **spec}
    return _of(VOLUME_SNAPSHOT, name, {key: value for key, value in given.items() if value is not None})


def snapshot_class(name: str = "fast", policy: str = "Delete", *, default: bool = False) -> dict[str, Any]:
    """A VolumeSnapshotClass."""
    manifest = {**VOLUME_SNAPSHOT_CLASS.manifest(name), "driver": "csi.example", "deletionPolicy": policy}
    if default:
        manifest["metadata"]["annotations"] = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    return manifest


def claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    """A PersistentVolumeClaim."""
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    return _of(PERSISTENT_VOLUME_CLAIM, name, given)


class DownstreamWorld:
    """An in-memory API server, the simulated controllers on it, and a clock; every state of every object is kept."""

    def __init__(
        self,
        behaviour: DownstreamBehaviour | None = None,
        *,
        names: Iterable[str] | None = None,
        crds: Sequence[Manifest] | None = None,
        collects: bool = True,
    ) -> None:
        self.clock = ManualClock()
        self.server = ApiServer(now=self.clock.now, collects=collects)
        self.api = InProcessKube(self.server)
        definitions = downstream_crds() if crds is None else crds
        furnish(self.api, definitions, NS, VELERO_NS)
        account = SERVICE_ACCOUNT.manifest("runner", NS)
        run_sync(self.api.create(account, kind=SERVICE_ACCOUNT, field_manager="test"))
        self.simulator = DownstreamSimulator(InProcessKube(self.server).through(keeping), behaviour, names=names)
        served = {crd["spec"]["names"]["kind"] for crd in definitions}
        builtin = {JOB.kind, PERSISTENT_VOLUME_CLAIM.kind, SECRET.kind}
        kinds = [kind for kind, _ in self.simulator.watched if kind.kind in served | builtin]
        self._watches = {kind: self.api.open_watch(kind) for kind in kinds}

    def create(self, manifest: Manifest, kind: Kind) -> Manifest:
        """POST an object."""
        return run_sync(self.api.create(manifest, kind=kind, field_manager="test"))

    def prepare(self) -> None:
        """A bound claim `data`, a class `fast` and a Secret `repo`: what syncs and snapshots need."""
        self.create(claim(), PERSISTENT_VOLUME_CLAIM)
        self.create(snapshot_class(), VOLUME_SNAPSHOT_CLASS)
        self.create(SECRET.manifest("repo", NS), SECRET)
        self.settle()

    def find(self, kind: Kind, name: str, namespace: str | None = NS) -> Manifest | None:
        """An object, None where it does not exist."""
        try:
            return run_sync(self.api.get(ObjectRef(kind, namespace, name)))
        except NotFound:
            return None

    def get(self, kind: Kind, name: str, namespace: str | None = NS) -> Manifest:
        """An object."""
        return run_sync(self.api.get(ObjectRef(kind, namespace, name)))

    def status(self, kind: Kind, name: str, namespace: str | None = NS) -> dict[str, Any]:
        """The status of an object; empty where it has none."""
        return dict(self.get(kind, name, namespace).get("status") or {})

    def patch(self, kind: Kind, name: str, body: Mapping[str, Any], *, namespace: str | None = NS) -> None:
        """Merge patch an object by hand."""
        ref = ObjectRef(kind, namespace, name)
        run_sync(self.api.patch(ref, body, patch_type=PatchType.MERGE, field_manager="kubectl-edit"))

    def delete(self, kind: Kind, name: str, namespace: str | None = NS, **options: Propagation) -> None:
        """Delete an object."""
        run_sync(self.api.delete(ObjectRef(kind, namespace, name), **options))

    def behave(self, behaviour: DownstreamBehaviour) -> None:
        """Change how the controllers behave from now on."""
        self.simulator.behaviour = behaviour

    def settle(self, horizon: float = 86_400.0) -> None:
        """Let time pass until no controller has anything to do but its intervals."""
        settle(self.clock, self.simulator, horizon)

    def run(self, seconds: float) -> None:
        """Let `seconds` pass, doing everything that is due on the way."""
        go_on(self.clock, self.simulator, seconds)

    def states(self, kind: Kind) -> list[Manifest]:
        """Every state of the objects of a kind since the last call."""
        events = self._watches[kind].drain()
        return [event.object for event in events if event.type in (WatchEventType.ADDED, WatchEventType.MODIFIED)]

    def phases(self, kind: Kind) -> list[str]:
        """The phases that the objects of a kind went through since the last call, each once in a row."""
        found = [str(get_path(state, "status", "phase") or "") for state in self.states(kind)]
        return [phase for index, phase in enumerate(found) if index == 0 or phase != found[index - 1]]

    def writes(self) -> int:
        """How many writes there were since the last call."""
        count = len(self.server.audit.writes())
        self.server.audit.clear()
        return count


def conditions(status: Mapping[str, Any]) -> dict[str, str]:
    """`status/reason` of conditions by type; the status alone where they have no reason."""
    found = status.get("conditions") or ()
    return {item["type"]: "/".join(filter(None, (item["status"], item.get("reason")))) for item in found}

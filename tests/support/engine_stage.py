"""A stage on which a scenario of an engine plays: real controllers or simulated ones, the same acts and waits (RUN-8).

A scenario creates what an engine makes of an Operation (OPS-6), and waits for what the engine makes of its status: what
is compared is what the operator gets to read, and what it says of it. `engine_scenarios` has the scenarios.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, merge_patch, metadata
from purekube.apimachinery.resources import (
    CORE_EVENT,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    SECRET,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CONTENT,
    WORKFLOW,
)
from purekube.controller.live_reads import LiveReads
from purekube.ports import PatchType
from tests.support.kube_client import Hands, Seen
from tests.support.operation_worlds import SETTINGS, operation_manifest, target_manifest, template
from vworkspace_core.api.codec import read_application_instance, read_operation
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.contract import EngineContext, EngineStatus, Objects
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.identity import own_object

STORAGE: Final = "shop"
"""The storage location of backups."""
SNAPSHOT_CLASS: Final = "engine-scenarios"
"""The VolumeSnapshotClass of snapshots."""
MANAGER: Final = "vworkspace-operator"
SEEN: Final = (
    JOB,
    POD,
    WORKFLOW,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CONTENT,
    PERSISTENT_VOLUME_CLAIM,
    VELERO_BACKUP,
    VELERO_RESTORE,
    REPLICATION_SOURCE,
    REPLICATION_DESTINATION,
    CORE_EVENT,
)
"""Kinds whose states are taken down, as far as the cluster serves them."""

Holds = Callable[[Manifest], bool]


class EngineStage(ABC):
    """A namespace with the printed service account, and the controllers of the engines."""

    def __init__(self, hands: Hands, namespace: str, uid: str) -> None:
        """Have a namespace, and the uid of the Operation of this stage."""
        self.hands = hands
        self.namespace = namespace
        self.uid = uid
        self._operation: dict[str, Any] = {}
        self._ref: ObjectRef | None = None

    # --- acts --------------------------------------------------------------------------------------------------------

    def run(
        self,
        of: str,
        *,
        pods: str = "ready",
        patch: Mapping[str, Any] = {},
        spec: Mapping[str, Any] = {},
        **parameters: Any,
    ) -> None:
        """Create what the engine of the template `of` makes of an Operation, with `patch` merged into its spec.

        `pods` says what becomes of its pods, in the words of `tools/cluster/stages.yaml`; `spec` is the Operation's.
        """
        manifest = operation_manifest(of, uid=self.uid, parameters=parameters, **spec)
        manifest["metadata"]["namespace"] = self.namespace
        operation, target = read_operation(manifest), read_application_instance(target_manifest(of))
        context = EngineContext(SETTINGS, template(of))
        (made,) = ENGINES[template(of).engine].desired(operation, target, context)
        body = {**made.manifest, "spec": merge_patch(made.manifest["spec"], patch)}
        # The Operation itself is not in the cluster: the garbage collector would take what it owns.
        body["metadata"] = {key: value for key, value in metadata(body).items() if key != "ownerReferences"}
        self.pods_end(made.kind, body, pods)
        live = self.create(body, made.kind)
        self._ref = made.ref
        known = {"apiVersion": made.kind.api_version, "kind": made.kind.kind, "uid": metadata(live)["uid"]}
        place = {"name": made.ref.name, "namespace": made.ref.namespace}
        self._operation = {**manifest, "status": {"phase": "Running", "engineRef": {**known, **place}}}

    @abstractmethod
    def pods_end(self, kind: Kind, body: dict[str, Any], fate: str) -> None:
        """Have the pods of an object that is about to be created end like that."""

    @abstractmethod
    def workflow_template(self, *, pods: str = "ready", retries: int = 0, before: str = "") -> None:
        """Have the WorkflowTemplate `runbook`: a step whose pod ends like that.

        One goes before it that is "suspended" or "flaky", which fails once.
        """

    @abstractmethod
    def volume(self, *, bound: bool = True) -> None:
        """Have the claim `data`, with a volume of the CSI driver or without."""

    @abstractmethod
    def snapshot_class(self) -> None:
        """Have the VolumeSnapshotClass `SNAPSHOT_CLASS`, whose contents are deleted with their snapshots."""

    @abstractmethod
    def driver_cuts(self, error: str = "") -> None:
        """Have the CSI driver's side report on the content of the snapshot: ready, or this error."""

    @abstractmethod
    def driver_deletes(self, content: ObjectRef) -> None:
        """Have the CSI driver's side let go of a content that is being deleted."""

    @abstractmethod
    def repository(self) -> None:
        """Have the Secret `restic`, and a volume for the mover's cache."""

    @abstractmethod
    def storage_is_unavailable(self) -> None:
        """Have the storage location `away` of Velero, which cannot be reached."""

    @abstractmethod
    def storage(self) -> None:
        """Create the storage location `STORAGE` of Velero, and wait until it is available."""

    @abstractmethod
    def hook_fails(self) -> None:
        """Create a pod whose backup hook fails."""

    def backup(self, *resources: str, **patch: Any) -> None:
        """Run a backup of these resources of the namespace into `STORAGE`, with a Secret in the namespace."""
        self.storage()
        self.create({**SECRET.manifest("shop", self.namespace), "stringData": {"motto": "open"}}, SECRET)
        spec = {"includedNamespaces": [self.namespace], **patch}
        self.run("backup.velero", storageLocation=STORAGE, includedResources=list(resources), patch=spec)

    @abstractmethod
    def quota(self, pods: int | None) -> None:
        """Let the namespace hold no more than so many pods; None ends that."""

    def create(self, manifest: Manifest, kind: Kind) -> Manifest:
        """Create an object."""
        return self.hands.do(lambda api: api.create(manifest, kind=kind, field_manager=MANAGER))

    def patch(self, body: Mapping[str, Any], ref: ObjectRef | None = None, subresource: str = "") -> None:
        """Merge a patch into an object, the engine's unless another is named, as a person or a driver does."""
        place = ref or self.ref
        self.hands.do(
            lambda api: api.patch(
                place, body, patch_type=PatchType.MERGE, field_manager="kubectl-edit", subresource=subresource
            )
        )

    def delete(self, ref: ObjectRef | None = None) -> None:
        """Delete an object, the engine's unless another is named."""
        place = ref or self.ref
        self.hands.do(lambda api: api.delete(place))

    def find(self, ref: ObjectRef) -> Manifest | None:
        """Return an object as it is now, None where there is none."""
        try:
            return self.hands.do(lambda api: api.get(ref))
        except NotFound:
            return None

    @property
    def ref(self) -> ObjectRef:
        """Where the engine's object is."""
        assert self._ref is not None, "nothing runs yet"
        return self._ref

    def standing(self) -> Manifest | None:
        """Return the engine's object as it is now, for a message."""
        return None if self._ref is None else self.find(self._ref)

    @property
    def operation(self) -> Operation:
        """The Operation, as it stands once its object is recorded."""
        return read_operation(self._operation)

    def content(self) -> ObjectRef:
        """Return where the content of the snapshot is."""
        name = get_path(self.find(self.ref) or {}, "status", "boundVolumeSnapshotContentName")
        return ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, str(name))

    # --- waits -------------------------------------------------------------------------------------------------------

    def until_says(self, reason: str) -> None:
        """Wait until the operator gives this reason."""
        self.until(lambda: self.says().reason == reason, f"operator says {reason}")

    def until_pod_runs(self) -> None:
        """Wait until the Workflow says that a pod of it runs."""
        running = {"type": "PodRunning", "status": "True"}
        self.until(
            lambda: running in (get_path(self.find(self.ref) or {}, "status", "conditions") or ()), "a pod of it runs"
        )

    def until_gone(self, ref: ObjectRef | None = None) -> None:
        """Wait until there is no such object, the engine's unless another is named."""
        place = ref or self.ref
        self.until(lambda: self.find(place) is None, f"{place} is gone")

    def says(self) -> EngineStatus:
        """Return what the operator makes of it now, by the reads of a live pass."""
        return verdict(self.operation, self.hands.do(self._observed))

    async def _observed(self, api: Any) -> Objects:
        engine, reading = ENGINES[self.operation.spec.engine], LiveReads(api)
        await reading.add(self.ref)
        for ref in engine.extra_reads(self.operation, reading.objects):
            await reading.add(ref)
        for diagnostic in engine.diagnostics(self.operation, reading.objects):
            await reading.add_selected(
                diagnostic.kind,
                diagnostic.namespace,
                label_selector=diagnostic.label_selector,
                field_selector=diagnostic.field_selector,
                limit=diagnostic.limit,
            )
        return reading.objects

    @abstractmethod
    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until that holds. Raises AssertionError with the engine's object when it does not."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Let time pass where nothing is to happen."""

    # --- what was seen -----------------------------------------------------------------------------------------------

    @abstractmethod
    def seen(self) -> Sequence[Seen]:
        """Return every version that objects of this stage have had, in order."""


def verdict(operation: Operation, objects: Objects) -> EngineStatus:
    """Return what the operator says of these objects: a removed one is judged by its Events."""
    engine = ENGINES[operation.spec.engine]
    ended = engine.final_status(operation, objects) if own_object(operation, objects) is None else None
    return ended or engine.observe(operation, objects)

"""Operations as end-to-end stories have them: a target that is Ready, what engines need around it, and requests."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import attrs
import pytest

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    JobBehaviour,
    SnapshotBehaviour,
    VeleroBehaviour,
    VolSyncBehaviour,
    WorkflowBehaviour,
)
from kubelab.flux import ChartHook
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE_ACCOUNT,
    VOLUME_SNAPSHOT_CLASS,
)
from purekube.ports import WatchEventType
from tests.support.e2e_world import CLUSTER, INSTANCE, NAME, NS, QUICK, World
from tests.support.effort import EFFORT
from tests.support.operation_worlds import HOOK_SPEC, template
from tests.support.servers import FACES, IN_PROCESS, Face, Story
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import CANCEL, OPERATION_UID
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.operations.approvals import approval_claim, parameters_digest
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_core.operations.settings import RUNNER
from vworkspace_fake.controlplane import JobEntry

HOOK = "db-migrate"
APPROVAL_SECRET = b"only the control plane has this"
LABELS = {
    "app.vworkspace.io/managed-by": "control-plane",
    "app.vworkspace.io/cluster-id": CLUSTER,
    "app.vworkspace.io/application-instance": NAME,
}
ENGINES_QUICK = DownstreamBehaviour(
    retry_seconds=0.1,
    velero=VeleroBehaviour(backup_seconds=0.2, restore_seconds=0.2, finalize_seconds=0.05),
    workflow=WorkflowBehaviour(step_seconds=0.1),
    job=JobBehaviour(pod_seconds=0.2, terminating_seconds=0.1, backoff_seconds=0.1),
    volsync=VolSyncBehaviour(sync_seconds=0.2, cleanup_seconds=0.05, retry_seconds=0.1),
    snapshot=SnapshotBehaviour(cut_seconds=0.1, retry_seconds=0.1, bind_seconds=0.1),
)
"""Engines that take tenths of a second."""

AT_WORK = DownstreamOutcome(seconds=3600.0)
"""An attempt that takes longer than any story."""

_HOOK_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": HOOK, "annotations": {"helm.sh/hook": "pre-upgrade"}},
    "spec": HOOK_SPEC,
}
FLUX = attrs.evolve(QUICK, hooks={"nextcloud": (ChartHook(HOOK, "Job", json.dumps(_HOOK_JOB), ("pre-upgrade",)),)})
"""A quick Flux whose chart has a hook, which Helm records with the release."""

PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "backup.velero": {"retention": "30d"},
    "restore.velero": {},
    "upgrade.helm": {"targetVersion": "6.8.0"},
    "migration.helmHookJob": {"hookName": HOOK},
    "migration.workflow": {"workflowTemplate": "migrate"},
    "runCommand.job": {"image": "registry.example/tool:1", "command": ["true"]},
    "runbook.workflow": {"workflowTemplate": "runbook"},
    "backup.volsync": {"source": "data", "repository": "restic"},
    "restore.volsync": {"destination": "data", "repository": "restic"},
    "backup.snapshot": {"pvc": "data", "snapshotClassName": "csi"},
    "restore.snapshot": {"size": "1Gi"},
}
"""Parameters of every built-in template, but for what an earlier Operation has to give (a name)."""


def rules(outcome: DownstreamOutcome, **chosen: Any) -> DownstreamBehaviour:
    """Quick engines, one of which does that."""
    return attrs.evolve(ENGINES_QUICK, rules=(DownstreamRule(outcome, **chosen),))


@attrs.frozen
class Operating:
    """One world, seen by those who care for operations."""

    world: World

    async def prepare(self, *, ready: bool = True) -> None:
        """What engines need, the approval secret, and the target at its first version."""
        world = self.world
        if world.engines is not None and self.is_served(VOLUME_SNAPSHOT_CLASS):
            self._storage_class()
        claim = PERSISTENT_VOLUME_CLAIM.manifest("data", NS)
        size = {"requests": {"storage": "1Gi"}}
        world.create_object(
            {**claim, "spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}, PERSISTENT_VOLUME_CLAIM
        )
        world.create_object({**SECRET.manifest("restic", NS), "stringData": {"RESTIC_PASSWORD": "x"}}, SECRET)
        world.have(SERVICE_ACCOUNT.manifest(RUNNER, NS), SERVICE_ACCOUNT)  # as `manifests --namespace` prints it
        self.approve_with(APPROVAL_SECRET)
        if ready:
            await world.ready()

    def is_served(self, kind: Kind) -> bool:
        """Whether the API server has that kind."""
        return self.world.find(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name)) is not None

    def _storage_class(self) -> None:
        manifest = VOLUME_SNAPSHOT_CLASS.manifest("csi")
        self.world.have(
            {**manifest, "driver": "simulated.csi.example", "deletionPolicy": "Retain"}, VOLUME_SNAPSHOT_CLASS
        )

    def approve_with(self, secret: bytes | None) -> None:
        """The approval secret becomes that, while the operator runs."""
        self.world.lever.credentials.set(Credentials(cluster_id=CLUSTER, approval_secret=secret))

    def claim(
        self, name: str, parameters: Mapping[str, Any] | None = None, of: str = "restore.velero", **bound: Any
    ) -> str:
        """A good claim for an hour, as the control plane makes it when a person agrees to those parameters."""
        now = self.world.clock.now()
        until = int((now + timedelta(hours=1)).timestamp())
        closer = {"ns": NS, "params": parameters_digest({**PARAMETERS[of], **(parameters or {})})}
        payload = {
            "at": now.isoformat(),
            "by": "alice",
            "exp": until,
            "op": name,
            "rid": str(uuid4()),
            **closer,
            **bound,
        }
        return approval_claim(payload, APPROVAL_SECRET)

    def manifest(self, of: str, name: str, parameters: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        """An Operation of that template; the target is told that it is prepared for its engine."""
        one = template(of)
        mark = {f"ops.vworkspace.io/{one.capability}": one.engine}
        if self.world.find(INSTANCE) is not None:
            self.world.edit(INSTANCE, {"metadata": {"annotations": mark}})
        body = {
            "targetRef": {"apiVersion": INSTANCE.kind.api_version, "kind": INSTANCE.kind.kind, "name": NAME},
            "type": str(one.type),
            "engine": one.engine,
            "parameters": {**PARAMETERS[of], **(parameters or {})},
            **spec,
        }
        return {
            **OPERATION.manifest(name, NS),
            "metadata": {"name": name, "namespace": NS, "labels": LABELS},
            "spec": body,
        }

    def submit(self, of: str, name: str, parameters: Mapping[str, Any] | None = None, **spec: Any) -> ObjectRef:
        """Somebody creates it."""
        self.world.create_object(self.manifest(of, name, parameters, **spec), OPERATION)
        return ObjectRef(OPERATION, NS, name)

    def ask(self, of: str, name: str, parameters: Mapping[str, Any] | None = None, **more: Any) -> JobEntry:
        """Odoo asks for it, by an intent; `expires_in` is in seconds."""
        job: dict[str, Any] = {}
        if "expires_in" in more:
            job["expires_in"] = timedelta(seconds=more.pop("expires_in"))
        payload = {"intent": "request-operation", "operation": self.manifest(of, name, parameters, **more)}
        key = f"Operation/{NS}/{name}@1"
        return self.world.control.enqueue(CLUSTER, kind="intent", payload=payload, idempotency_key=key, **job)

    def cancel(self, ref: ObjectRef) -> None:
        """Somebody asks for it to stop."""
        self.world.edit(ref, {"metadata": {"annotations": {CANCEL: "true"}}})

    def forbid(self, version: str) -> None:
        """The cluster's policy does not let that version in."""
        policy = {"forbiddenVersions": [version]}
        spec = {"clusterId": CLUSTER, "controlPlaneEndpoint": "https://odoo.example.com", "policy": policy}
        self.world.create_object({**own_kinds.CLUSTER.manifest(CLUSTER), "spec": spec}, own_kinds.CLUSTER)

    def engines_are(self, behaviour: DownstreamBehaviour) -> None:
        """Engines behave like that from now on, and notice it."""
        assert self.world.engines is not None
        self.world.engines.behaviour = behaviour
        touched = {"metadata": {"annotations": {"touched-at": str(self.world.clock.monotonic())}}}
        self.world.edit(ObjectRef(PERSISTENT_VOLUME_CLAIM, NS, "data"), touched)

    # --- waiting and looking --------------------------------------------------------------------------------------

    async def reaches(self, ref: ObjectRef, phase: str, *, seconds: float = 60.0) -> Manifest:
        """The Operation, once it is in that phase."""
        await self._until(lambda: self.phase(ref) == phase, ref, phase, seconds)
        return self.world.get(ref)

    async def says(self, ref: ObjectRef, kind: str, told: str) -> str:
        """The message of a condition, once that is `status/reason`."""
        await self._until(lambda: self.condition(ref, kind) == told, ref, f"{kind}={told}")
        conditions = get_path(self.world.get(ref), "status", "conditions")
        return next(str(condition.get("message", "")) for condition in conditions if condition["type"] == kind)

    async def gone(self, ref: ObjectRef) -> None:
        """Wait until it is not there any more."""
        await self.world.until(lambda: self.world.find(ref) is None, f"{ref} gone; {self.told(ref)}")

    async def _until(self, holds: Callable[[], bool], ref: ObjectRef, what: str, seconds: float = 60.0) -> None:
        try:
            await self.world.until(holds, f"{ref.name} {what}", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status: {self.told(ref)}") from None

    def phase(self, ref: ObjectRef) -> str:
        """Where it stands."""
        return str(get_path(self.world.find(ref), "status", "phase"))

    def condition(self, ref: ObjectRef, kind: str) -> str:
        """`status/reason` of a condition, empty without one."""
        conditions = get_path(self.world.find(ref), "status", "conditions") or ()
        return next((f"{one['status']}/{one['reason']}" for one in conditions if one["type"] == kind), "")

    def told(self, ref: ObjectRef) -> object:
        """What its status says."""
        return get_path(self.world.find(ref), "status")

    def outputs(self, ref: ObjectRef) -> dict[str, Any]:
        """What it gave."""
        return dict(get_path(self.world.get(ref), "status", "outputs") or {})

    def engine_ref(self, ref: ObjectRef) -> ObjectRef:
        """The engine object that its status names."""
        engine_ref = get_path(self.world.get(ref), "status", "engineRef")
        kind = next(kind for kind in engine_kinds() if kind.kind == engine_ref["kind"])
        return ObjectRef(kind, engine_ref["namespace"], engine_ref["name"])

    def made(self, ref: ObjectRef) -> list[str]:
        """Names of every engine object ever made for the Operation that has that name now, by its uid."""
        uid = self.world.get(ref)["metadata"]["uid"]
        return [
            event.object["metadata"]["name"]
            for event in self.world.history.events()
            if event.type is WatchEventType.ADDED and get_path(event.object, "metadata", "labels", OPERATION_UID) == uid
        ]

    def running_together(self) -> set[frozenset[str]]:
        """Pairs of names of Operations that were ever Running at the same time."""
        phases: dict[str, str] = {}
        pairs: set[frozenset[str]] = set()
        for event in self.world.history.events(OPERATION):
            name = event.object["metadata"]["name"]
            phases[name] = (
                "" if event.type is WatchEventType.DELETED else str(get_path(event.object, "status", "phase"))
            )
            now = [one for one, phase in phases.items() if phase == "Running"]
            pairs |= {frozenset((one, other)) for one in now for other in now if one != other}
        return pairs

    def starts(self) -> list[str]:
        """Names of Operations in the order in which they came to run."""
        found: dict[str, None] = {}
        for event in self.world.history.events(OPERATION):
            if get_path(event.object, "status", "phase") == "Running":
                found.setdefault(event.object["metadata"]["name"], None)
        return list(found)


def operations_story(
    engines: DownstreamBehaviour = ENGINES_QUICK, *, samples: bool = False, takes_hours: bool = False, **options: Any
) -> Callable[[Callable[[Operating], Any]], Callable[[Face], None]]:
    """A test that runs a story with engines on each face; `options` are those of `Face.run`.

    Over HTTP it takes seconds of real time, so that only samples run there unless `make test-long` runs them all; what
    `takes_hours` runs under virtual time alone.
    """
    everywhere = samples or (EFFORT.long and not takes_hours)

    def decorate(story: Callable[[Operating], Any]) -> Callable[[Face], None]:
        async def told(world: World) -> None:
            await story(Operating(world))

        whole: Story = told

        def test(face: Face) -> None:
            face.run(whole, **{"behaviour": FLUX, "engines": engines, **options})

        test.__name__ = test.__qualname__ = story.__name__
        test.__doc__, test.__module__ = story.__doc__, story.__module__
        faces = FACES if everywhere else (IN_PROCESS,)
        return pytest.mark.parametrize("face", faces, ids=lambda face: face.name)(test)

    return decorate

"""The setting of the demo's story of Operations: requests as Odoo sends them, and simulated engines.

The engines take fractions of a second for each Operation, so that the story is short.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    JobBehaviour,
    SnapshotBehaviour,
    VeleroBehaviour,
    VolSyncBehaviour,
    WorkflowBehaviour,
)
from kubelab.flux import ChartHook
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import (
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE_ACCOUNT,
    VOLUME_SNAPSHOT_CLASS,
)
from vworkspace_app.demo.scene import CLUSTER, NAME, NAMESPACE_NAME
from vworkspace_app.demo.scene import QUICK as QUICK_FLUX
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import APPLICATION_INSTANCE as INSTANCE_LABEL
from vworkspace_core.operations.approvals import approval_claim, parameters_digest
from vworkspace_core.operations.engines import ENGINES as REGISTRY
from vworkspace_core.operations.settings import RUNNER

APPROVAL_SECRET = b"demo-approval-secret"
VELERO_NAMESPACE = "velero"
CLAIM, REPOSITORY, SNAPSHOT_CLASS = "nextcloud-data", "restic-repository", "csi-snapshots"


def platform(namespace: str, own_namespace: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Yield the objects that Operations on an application in `namespace` need, in the order of their creation.

    These are, for example, a volume claim, a ServiceAccount, and in `own_namespace` the Secret with the key that
    verifies approvals. Each is yielded as its kind and its manifest.
    """
    yield NAMESPACE, NAMESPACE.manifest(VELERO_NAMESPACE)
    driver = "simulated.csi.example"
    yield VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CLASS.manifest(SNAPSHOT_CLASS, driver=driver, deletionPolicy="Retain")
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME_CLAIM.manifest(CLAIM, namespace, spec=size)
    yield SECRET, SECRET.manifest(REPOSITORY, namespace, stringData={"RESTIC_PASSWORD": "demo"})
    yield SERVICE_ACCOUNT, SERVICE_ACCOUNT.manifest(RUNNER, namespace)  # as `manifests --namespace` prints it
    approval = {"approval-secret": base64.b64encode(APPROVAL_SECRET).decode()}
    yield SECRET, SECRET.manifest(CREDENTIALS_SECRET, own_namespace, data=approval)


HOOK = "nextcloud-db-migrate"
_RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_MIGRATE = {"name": "migrate", "image": "nextcloud:30", "securityContext": _RESTRICTED}
_HOOK_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": HOOK},
    "spec": {"template": {"spec": {"containers": [_MIGRATE]}}},
}
FLUX = attrs.evolve(QUICK_FLUX, hooks={"nextcloud": (ChartHook(HOOK, "Job", json.dumps(_HOOK_JOB), ("pre-upgrade",)),)})
"""The behaviour of the simulated Flux: quick, with a chart hook that Helm records with the release."""

SLOW = DownstreamRule(DownstreamOutcome(Ending.STALL), name="slow-*")
"""The rule by which Operations named `slow-*` do not end until the story removes the rule."""

ENGINES = DownstreamBehaviour(
    rules=(
        SLOW,
        DownstreamRule(DownstreamOutcome(Ending.STALL), name="stuck-*"),
        DownstreamRule(DownstreamOutcome(Ending.PARTIAL, items=120, errors=3, warnings=2), name="partial-*"),
    ),
    velero=VeleroBehaviour(backup_seconds=0.2, restore_seconds=0.2, finalize_seconds=0.05),
    workflow=WorkflowBehaviour(step_seconds=0.15),
    job=JobBehaviour(pod_seconds=0.2, terminating_seconds=0.05),
    volsync=VolSyncBehaviour(sync_seconds=0.2, cleanup_seconds=0.05),
    snapshot=SnapshotBehaviour(cut_seconds=0.15, bind_seconds=0.1),
)
"""The behaviour of the simulated engines: quick, except for Operations whose names match a rule."""


@attrs.frozen
class OperationRequest:
    """An Operation as Odoo requests it: its name, and the type, engine and parameters of its spec.

    `more` has further fields of the spec.
    """

    name: str
    type: str
    engine: str
    parameters: Mapping[str, Any] = attrs.field(factory=dict)
    more: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the Operation in the namespace of the demo's application."""
        return self.manifest_in(NAMESPACE_NAME)

    def manifest_in(self, namespace: str) -> dict[str, Any]:
        """Return the manifest of the Operation in a namespace."""
        target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind, "name": NAME}
        spec = {"targetRef": target, "type": self.type, "engine": self.engine, "parameters": dict(self.parameters)}
        labels = {"labels": {INSTANCE_LABEL: NAME}}
        return OPERATION.manifest(self.name, namespace, labels, spec={**spec, **self.more})

    def job_in(self, namespace: str, version: int = 1) -> dict[str, Any]:
        """Return the kind, payload and idempotency key of the job by which Odoo requests the Operation in a namespace.

        `version` is part of the key: a higher version changes the spec of the same Operation.
        """
        payload = {"intent": "request-operation", "operation": self.manifest_in(namespace)}
        key = f"Operation/{namespace}/{self.name}@{version}"
        return {"kind": "intent", "payload": payload, "idempotency_key": key}


def _requests() -> tuple[OperationRequest, ...]:
    """Return the example requests of all engines.

    The first request of each Operation type comes first, then requests of further engines for these types.
    """
    demos = [(name, engine.demo) for name, engine in REGISTRY.items() if engine.demo is not None]
    requests = [OperationRequest(demo.name, demo.type.value, name, demo.parameters) for name, demo in demos]
    first = {request.type: request for request in reversed(requests)}
    further = [request for request in requests if request is not first[request.type]]
    return (*(first[kind] for kind in sorted(first)), *further)


REQUESTS = _requests()
"""The requests of the story: one for every engine that has an example."""

CAPABILITIES: Mapping[str, str] = {
    "restore": "velero",
    **{request.type.lower(): request.engine for request in reversed(REQUESTS)},
}
"""The engine for each capability of the application, as annotations of the instance declare it."""


def approval(name: str, parameters: Mapping[str, Any], now: datetime) -> str:
    """Return the signed text by which Odoo proves that a person approved an Operation with these parameters (OPS-4).

    It is valid for five minutes from `now`. `name` is the name of the Operation.
    """
    until = int((now + timedelta(minutes=5)).timestamp())
    payload = {"at": now.isoformat(), "by": "alice", "exp": until, "op": name, "rid": "4711", "cluster": CLUSTER}
    bound = {"ns": NAMESPACE_NAME, "params": parameters_digest(parameters)}
    return approval_claim({**payload, **bound}, APPROVAL_SECRET)

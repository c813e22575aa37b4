"""Small worlds for the tests of Operations: targets, Operations of every template, and the snapshots they see."""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import attrs

from kubelab.flux import ChartHook
from kubelab.flux.release_history import snapshot
from kubelab.flux.storage import HelmReleaseStatus, StoredRelease, release_secret, secret_name
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import (
    HELM_RELEASE,
    JOB,
    SECRET,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
)
from purekube.apimachinery.resources import NAMESPACE as NAMESPACES
from purekube.controller.decision import Decision
from tests.support.instance_worlds import CLUSTER, DIGEST, NAMESPACE, NOW, UID, instance_manifest
from tools.status_samples import shown_by
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.operation import EngineRef, Operation, Phase
from vworkspace_core.operations.approvals import Claims, approval_claim, parameters_digest
from vworkspace_core.operations.builtin import builtin_templates, template_name
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import EngineObject, EngineStatus
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import OperationTemplate

NS = "org-myteam"
APPROVAL_SECRET = b"a secret that nobody else has"
OP_UID = "0badcafe-1111-4222-8333-444444444444"
SETTINGS = OperationSettings(cluster_id=CLUSTER)
TEMPLATES = builtin_templates()
CONTEXT = OperationContext(SETTINGS, NOW, Claims(APPROVAL_SECRET, CLUSTER), parse_yaml=json.loads)
TARGET = ObjectRef(APPLICATION_INSTANCE, NS, "nextcloud-myteam")
CAPABILITIES = ("backup", "restore", "upgrade", "migration", "runcommand", "runbook")

GOOD: dict[str, dict[str, Any]] = {
    **{
        template_name(own.type, engine.name): dict(own.example)
        for engine in ENGINES.values()
        for own in engine.templates
    },
    "backup.velero": {"retention": "30d", "snapshotVolumes": True, "snapshotClassName": "csi"},
    "restore.velero": {"backupName": "b-1", "restorePVs": True, "existingResourcePolicy": "update"},
    "upgrade.helm": {"targetVersion": "6.7.0", "valuesPatch": {"replicas": 3}},
    "migration.helmHookJob": {"hookName": "db-migrate"},
    "migration.workflow": {"workflowTemplate": "migrate", "workflowTemplateParameters": {"step": "one", "n": 3}},
    "runCommand.job": {"image": "registry.example/tool:1", "command": ["sh", "-c", "echo $HOME"], "env": {"A": "b"}},
    "runbook.workflow": {"workflowTemplate": "runbook"},
    "backup.volsync": {"source": "data", "repository": "restic", "retain": {"daily": 7}},
    "restore.volsync": {"destination": "data", "repository": "restic"},
    "backup.snapshot": {"pvc": "data", "snapshotClassName": "csi"},
    "restore.snapshot": {"snapshotName": "s-1", "size": "10Gi", "accessModes": ["ReadWriteOnce"]},
}
"""Good parameters of every template: its own example, or what this world holds."""
SIMULATED = tuple(of for of in GOOD if ENGINES[of.partition(".")[2]].demo is not None)
"""The templates of engines whose controllers the laboratory simulates."""


def template(name: str) -> OperationTemplate:
    """A built-in template."""
    return next(item for item in TEMPLATES.items if item.name == name)


def target_manifest(
    name: str = "backup.velero", annotations: Mapping[str, str] | None = None, *, ready: bool = True
) -> dict[str, Any]:
    """The target, Ready, prepared for the engine of that template; annotations by capability."""
    manifest = instance_manifest()
    given = {template(name).capability: template(name).engine, **(annotations or {})}
    manifest["metadata"]["annotations"] = {f"ops.vworkspace.io/{key}": value for key, value in given.items()}
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "HelmReleaseReady", "message": ""}
    moment = {"lastTransitionTime": "2026-06-01T11:00:00Z", "observedGeneration": 1}
    chart = {key: manifest["spec"]["chart"][key] for key in ("sourceType", "url", "name", "version")}
    manifest["status"] = {
        "observedGeneration": 1,
        "conditions": [{**condition, **moment}],
        "lastAppliedChart": chart,
    }
    return manifest


def approval_for(name: str, *, days: int, **bound: Any) -> dict[str, Any]:
    """`spec.approvals` with a good claim for so many days."""
    return {"required": True, "claim": claim_for(name, exp=int((NOW + timedelta(days=days)).timestamp()), **bound)}


def claim_for(name: str, of: str = "restore.velero", **more: Any) -> str:
    """A good approval of an Operation with the good parameters of that template, for an hour unless told otherwise."""
    until = int((NOW + timedelta(hours=1)).timestamp())
    bound = {"ns": NS, "params": parameters_digest(GOOD[of])}
    given = {"at": "2026-06-01T11:00:00Z", "by": "alice", "rid": f"request-{name}", "exp": until, "op": name}
    return approval_claim({**given, **bound, **more}, APPROVAL_SECRET)


def operation_manifest(
    of: str = "runCommand.job",
    *,
    name: str = "op-1",
    uid: str = OP_UID,
    created: str = "2026-06-01T11:59:00Z",
    parameters: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    approved: bool = True,
    **spec: Any,
) -> dict[str, Any]:
    """An Operation as it stands in the cluster, of the named template, with its good parameters and approval."""
    one = template(of)
    body: dict[str, Any] = {
        "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": TARGET.name},
        "type": str(one.type),
        "engine": one.engine,
        "parameters": GOOD[of] if parameters is None else dict(parameters),
        **spec,
    }
    if one.needs_approval and approved and "approvals" not in spec:
        claim = claim_for(name, params=parameters_digest(body["parameters"]))
        body["approvals"] = {"required": True, "claim": claim}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": NS,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "10",
        "creationTimestamp": created,
        "labels": {
            "app.vworkspace.io/managed-by": "control-plane",
            "app.vworkspace.io/cluster-id": CLUSTER,
            "app.vworkspace.io/application-instance": TARGET.name,
        },
        "finalizers": ["vworkspace.io/operator"],
    }
    if annotations:
        meta["annotations"] = dict(annotations)
    return {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Operation", "metadata": meta, "spec": body}


def operation(of: str = "runCommand.job", **more: Any) -> Operation:
    """The same, structured."""
    return read_operation(operation_manifest(of, **more))


def target_labels(**change: str) -> dict[str, str]:
    """What everything downstream of the target carries."""
    return {
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/cluster-id": CLUSTER,
        "app.vworkspace.io/application-instance": TARGET.name,
        "app.vworkspace.io/instance-uid": UID,
        **change,
    }


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
HOOK_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "nextcloud", "job-name": "db-migrate", "controller-uid": "1"}},
    "spec": {
        "restartPolicy": "OnFailure",
        "containers": [{"name": "migrate", "image": "nextcloud:30", "securityContext": RESTRICTED}],
    },
}
HOOK_SPEC: dict[str, Any] = {"backoffLimit": 3, "template": HOOK_TEMPLATE}


def hook(spec: Any = HOOK_SPEC, *events: str, name: str = "db-migrate", kind: str = "Job") -> ChartHook:
    """A hook of the target's chart; its manifest is JSON, which is YAML too."""
    body = {**JOB.manifest(name), "metadata": {"name": name, "annotations": {"helm.sh/hook": "pre-upgrade"}}}
    return ChartHook(name, kind, json.dumps({**body, "spec": spec}), events or ("pre-upgrade",))


def released(*hooks: ChartHook, version: int = 1, **change: Any) -> StoredRelease:
    """The deployed revision of the target, with these hooks."""
    release = StoredRelease(
        name="nextcloud",
        namespace=NS,
        version=version,
        status=HelmReleaseStatus.DEPLOYED,
        chart_name="nextcloud",
        chart_version="6.6.0+3f2a9b1c4d5e",
        config={"replicas": 2, "note": "<a & b>", "password": "hunter2"},
        config_digest="sha256:0",
        first_deployed=NOW - timedelta(days=3),
        last_deployed=NOW - timedelta(hours=1),
        description="Upgrade complete",
        hooks=hooks,
    )
    return attrs.evolve(release, **change)


def recorded(*hooks: ChartHook, uid: str = UID, **change: Any) -> dict[ObjectRef, Manifest]:
    """Helm's record of the deployed revision, and the target's HelmRelease in whose history Flux has it."""
    release = released(*hooks, **change)
    secret = release_secret(release, NS)
    owner = {**owner_reference(uid), "controller": True}
    meta = {"name": "nextcloud", "namespace": NS, "labels": target_labels(), "ownerReferences": [owner]}
    status = {"history": [snapshot(release, "upgrade", DIGEST)]}
    return {
        ObjectRef(HELM_RELEASE, NS, "nextcloud"): {
            **HELM_RELEASE.manifest("nextcloud", NS),
            "metadata": meta,
            "status": status,
        },
        ObjectRef(SECRET, NS, secret_name(release)): secret,
    }


def owner_reference(uid: str) -> dict[str, Any]:
    """The reference to the target of that uid."""
    return {"apiVersion": TARGET.kind.api_version, "kind": TARGET.kind.kind, "name": TARGET.name, "uid": uid}


SURROUNDINGS: dict[ObjectRef, Manifest] = {
    ObjectRef(VELERO_BACKUP, "velero", "b-1"): {
        **VELERO_BACKUP.manifest("b-1", "velero"),
        "metadata": {"name": "b-1", "namespace": "velero", "labels": target_labels()},
        "spec": {"includedNamespaces": [NS]},
    },
    ObjectRef(VOLUME_SNAPSHOT, NS, "s-1"): {
        **VOLUME_SNAPSHOT.manifest("s-1", NS),
        "spec": {"source": {"persistentVolumeClaimName": "data"}},
    },
    ObjectRef(VOLUME_SNAPSHOT_CLASS, None, "csi"): {
        **VOLUME_SNAPSHOT_CLASS.manifest("csi"),
        "driver": "csi.example.test",
        "deletionPolicy": "Retain",
    },
    **recorded(hook()),
}
"""What the good parameters speak of."""


def observed(of: str = "runCommand.job", *, siblings: Iterable[Operation] = (), **more: Any) -> OperationObserved:
    """A world in which nothing is in the way of an Operation of that template."""
    objects = {TARGET: target_manifest(of), **SURROUNDINGS, **more.pop("objects", {})}
    return OperationObserved(more.pop("namespace", NAMESPACE), objects, siblings=tuple(siblings), **more)


def gated(name: str, peers: str | None = NS) -> tuple[ObjectRef, Manifest]:
    """A namespace the operator may act in, which agrees to be in the backups and restores of `peers`."""
    meta: dict[str, Any] = {"name": name, "labels": {"managed-by": "vworkspace"}}
    if peers is not None:
        meta["annotations"] = {"ops.vworkspace.io/velero-peers": peers}
    return ObjectRef(NAMESPACES, None, name), {"metadata": meta}


def started(of: str, **more: Any) -> tuple[Operation, EngineObject | None]:
    """A running Operation and the object that was created for it."""
    one = operation(of, **more)
    start = start_or_unmet(one, observed(of), CONTEXT)
    assert isinstance(start, Start), start
    made = start.objects[0] if start.objects else None
    ref = None
    if made is not None:
        ref = EngineRef(made.kind.api_version, made.kind.kind, made.ref.namespace or "", made.ref.name, "uid-1")
    outputs = dict(start.engine.initial_outputs(one, start.target, observed(of).objects))
    status = attrs.evolve(
        one.status, phase=Phase.RUNNING, started_at="2026-06-01T11:59:30Z", engine_ref=ref, outputs=outputs
    )
    return attrs.evolve(one, status=status), made


def as_created(made: EngineObject) -> dict[str, Any]:
    """An engine object as the API server returns it."""
    meta = {**made.manifest["metadata"], "uid": "uid-1", "resourceVersion": "7"}
    return {**made.manifest, "metadata": meta}


def judged_by_row(of: str, phase: str) -> EngineStatus:
    """What the engine of a template says of an object in that phase of its table."""
    running, made = started(of)
    assert made is not None, "an engine without an object"
    engine = ENGINES[running.spec.engine]
    (rows,) = (rows for names, rows in engine.tables.items() if made.kind.kind in names.split(", "))
    (row,) = (row for row in rows if row.phase == phase)
    return engine.observe(running, shown_by(row, running, made.kind, as_created(made)))


def at(seconds: float) -> OperationContext:
    """The context that many seconds later."""
    return attrs.evolve(CONTEXT, now=NOW + timedelta(seconds=seconds))


def conditions_of(decision: Decision) -> dict[str, tuple[str, str]]:
    """Status and reason by condition type, as the decision would leave them."""
    assert decision.status is not None, "no status was decided"
    return {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in decision.status["status"]["conditions"]
    }


def message_of(decision: Decision, kind: str) -> str:
    """A condition's message."""
    assert decision.status is not None, "no status was decided"
    return str(
        next(condition["message"] for condition in decision.status["status"]["conditions"] if condition["type"] == kind)
    )

"""One small cluster with an Operation of every template, from which the page about Operations is generated."""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import (
    HELM_RELEASE,
    NAMESPACE,
    SECRET,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
)
from purekube_run.process.yaml_documents import Format, dump, parse_yaml
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.operation import Operation
from vworkspace_core.operations.approvals import Claims, approval_claim, parameters_digest
from vworkspace_core.operations.builtin import template_name
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.contract import EngineTemplate
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import OperationTemplate

_CLUSTER: Final = "cluster-prod-1"
_NS: Final = "org-myteam"
_APPROVAL: Final = b"known to the control plane and the operator"
_TARGET_UID: Final = "11111111-2222-4333-8444-555555555555"
_NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)

CONTEXT: Final = OperationContext(OperationSettings(_CLUSTER), _NOW, Claims(_APPROVAL, _CLUSTER), parse_yaml=parse_yaml)
TARGET: Final = ObjectRef(APPLICATION_INSTANCE, _NS, "nextcloud")

EXAMPLES: Final[Mapping[str, EngineTemplate]] = {
    template_name(template.type, engine.name): template for engine in ENGINES.values() for template in engine.templates
}
"""The built-in templates by name, with valid parameters and refused changes of each."""

_TITLES: Final[Mapping[str, str]] = {"Backup": "nightly", "Restore": "bring-back", "Upgrade": "to-6-7"}
_HOOK: Final = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "nextcloud-db-migrate", "annotations": {"helm.sh/hook": "pre-upgrade"}},
    "spec": {
        "backoffLimit": 1,
        "template": {
            "metadata": {"labels": {"app": "nextcloud"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "migrate",
                        "image": "nextcloud:30",
                        "command": ["php", "occ", "upgrade"],
                        "securityContext": {
                            "runAsNonRoot": True,
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                    }
                ],
            },
        },
    },
}


def example(template: OperationTemplate, change: Mapping[str, Any] | None = None) -> Operation:
    """Return an Operation of a template, approved if that is required; `change` overrides its parameters."""
    name = _TITLES.get(template.type, template.type.lower())
    spec: dict[str, Any] = {
        "targetRef": {"apiVersion": TARGET.kind.api_version, "kind": TARGET.kind.kind, "name": TARGET.name},
        "type": str(template.type),
        "engine": template.engine,
        "parameters": {**EXAMPLES[template.name].example, **(change or {})},
    }
    if template.needs_approval:
        until = int((_NOW + timedelta(hours=1)).timestamp())
        bound = {"ns": _NS, "params": parameters_digest(spec["parameters"])}
        payload = {"at": "2026-06-01T11:00:00Z", "by": "alice", "exp": until, "op": name, "rid": "1", **bound}
        spec["approvals"] = {"required": True, "claim": approval_claim(payload, _APPROVAL)}
    meta = {**_metadata("0badcafe-1111-4222-8333-444444444444"), "finalizers": ["vworkspace.io/operator"]}
    return read_operation(OPERATION.manifest(name, _NS, meta, spec=spec))


def _metadata(uid: str) -> dict[str, Any]:
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": _CLUSTER}
    server = {"uid": uid, "generation": 1, "resourceVersion": "1", "creationTimestamp": "2026-06-01T11:59:00Z"}
    return {"labels": labels, **server}


def observed(template: OperationTemplate) -> OperationObserved:
    """Return a cluster in which nothing blocks an Operation of the template."""
    labels = {
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/cluster-id": _CLUSTER,
        "app.vworkspace.io/application-instance": TARGET.name,
        "app.vworkspace.io/instance-uid": _TARGET_UID,
    }
    recorded, secret = _release()
    objects = {
        TARGET: _target(template),
        ObjectRef(VELERO_BACKUP, "velero", "nightly-1c0ffee1"): {
            "metadata": {"labels": labels},
            "spec": {"includedNamespaces": [_NS]},
        },
        ObjectRef(VELERO_BACKUP, "velero", "of-another-tenant"): {"metadata": {"labels": {}}},
        ObjectRef(VOLUME_SNAPSHOT_CLASS, None, "csi"): {"driver": "csi.example.com", "deletionPolicy": "Retain"},
        ObjectRef(VOLUME_SNAPSHOT, _NS, "before-upgrade"): {},
        ObjectRef(SECRET, _NS, "sh.helm.release.v1.nextcloud.v1"): secret,
        ObjectRef(HELM_RELEASE, _NS, "nextcloud"): _helm_release(recorded),
    }
    gate = {"metadata": {"name": _NS, "labels": {"managed-by": "vworkspace"}}}
    return OperationObserved(gate, {ObjectRef(NAMESPACE, None, _NS): gate, **objects})


def _target(template: OperationTemplate) -> Manifest:
    meta = _metadata(_TARGET_UID)
    meta["annotations"] = {f"ops.vworkspace.io/{template.capability}": template.engine}
    chart = {"sourceType": "oci", "url": "oci://registry.example.com/charts", "name": "nextcloud", "version": "6.6.0"}
    spec = {
        "appRef": {"catalogId": "nextcloud"},
        "chart": chart,
        "release": {"name": "nextcloud", "namespace": _NS},
    }
    ready = {"type": "Ready", "status": "True", "reason": "HelmReleaseReady", "message": "", "observedGeneration": 1}
    status = {"observedGeneration": 1, "conditions": [{**ready, "lastTransitionTime": "2026-06-01T11:00:00Z"}]}
    return TARGET.kind.manifest(TARGET.name, _NS, meta, spec=spec, status=status)


def _release() -> tuple[bytes, Manifest]:
    """Return the deployed revision as Flux serializes it for the checksum, and Helm's Secret of it."""
    manifest = dump([_HOOK], Format.YAML)
    hook = {"name": "nextcloud-db-migrate", "kind": "Job", "manifest": manifest, "events": ["pre-upgrade"]}
    parts = {"name": "nextcloud", "version": 1, "info": {}, "chartMetadata": {}, "config": None, "manifest": ""}
    seen = {**parts, "hooks": [hook], "namespace": _NS}
    stored = {**{key: value for key, value in seen.items() if key != "chartMetadata"}, "chart": {"metadata": {}}}
    data = base64.b64encode(base64.b64encode(gzip.compress(_compact(stored), mtime=0))).decode()
    return _compact(seen) + b"\n", {"type": "helm.sh/release.v1", "data": {"release": data}}


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _helm_release(observed: bytes) -> Manifest:
    """Return a HelmRelease whose history has the revision with that checksum."""
    owner = {"apiVersion": TARGET.kind.api_version, "kind": TARGET.kind.kind, "name": TARGET.name, "uid": _TARGET_UID}
    entry = {"name": "nextcloud", "namespace": _NS, "version": 1, "status": "deployed"}
    digest = "sha256:" + hashlib.sha256(observed).hexdigest()
    return {
        "metadata": {"name": "nextcloud", "namespace": _NS, "ownerReferences": [{**owner, "controller": True}]},
        "status": {"history": [{**entry, "digest": digest}]},
    }

"""Small worlds for the reconcile tests: instances, and HelmReleases as Flux reports on them."""

import copy
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.controller.decision import Decision
from tests.support.source_names import source_ref
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.reconcile import reconcile

CLUSTER = "cluster-prod-1"
NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
UID = "aaaaaaaa-1111-4222-8333-444444444444"
DIGEST = "sha256:3f2a9b1c4d5e" + "0" * 52
OLD_DIGEST = "sha256:0ld0ld0ld0ld" + "0" * 52
SETTINGS = Settings(cluster_id=CLUSTER)
CONTEXT = Context(SETTINGS, NOW)
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "org-myteam", "labels": {"managed-by": "vworkspace"}},
}
RELEASE = ObjectRef(HELM_RELEASE, "org-myteam", "nextcloud")


def instance_manifest(**spec: Any) -> dict[str, Any]:
    """The instance of PULL-2 as it stands in the cluster; `spec` replaces whole fields, None removes them."""
    body: dict[str, Any] = {
        "appRef": {"catalogId": "nextcloud"},
        "mode": "managed",
        "suspend": False,
        "chart": {"sourceType": "oci", "url": "oci://registry.example/charts", "name": "nextcloud", "version": "6.6.0"},
        "release": {"name": "nextcloud", "namespace": "org-myteam"},
        "values": {"source": "inline", "inline": {"replicas": 2}},
    }
    body = {key: value for key, value in {**body, **spec}.items() if value is not None}
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": {
            "name": "nextcloud-myteam",
            "namespace": "org-myteam",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "10",
            "labels": {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER},
            "finalizers": ["vworkspace.io/operator"],
        },
        "spec": body,
    }


SOURCE = source_ref("org-myteam", "nextcloud", instance_manifest()["spec"]["chart"])


def with_meta(manifest: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A copy with other metadata; None removes a field."""
    meta = {key: value for key, value in {**manifest["metadata"], **fields}.items() if value is not None}
    return {**manifest, "metadata": meta}


def decide(manifest: Mapping[str, Any], observed: InstanceObserved, context: Context = CONTEXT) -> Decision:
    """The decision on a manifest as it came off the wire."""
    return reconcile(read_application_instance(manifest), observed, context)


def written(manifest: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    """The source after the decision's status was applied; unchanged where it has none."""
    if decision.status is None:
        return dict(manifest)
    return {**manifest, "status": json.loads(json.dumps(decision.status["status"], default=str))}


def applied(manifest: Mapping[str, Any]) -> dict[ObjectRef, dict[str, Any]]:
    """Downstream objects just as the API server holds them after the applies, before Flux has looked."""
    decision = decide(manifest, InstanceObserved(NAMESPACE))
    return {apply.ref: stored(apply.manifest) for apply in decision.applies}


def stored(manifest: Manifest, generation: int = 1) -> dict[str, Any]:
    """As stored: with uid, generation and resourceVersion, and Flux's default status."""
    kept = copy.deepcopy(dict(manifest))
    uid = f"uid-{manifest['kind'].lower()}-{manifest['metadata']['name']}"
    kept["metadata"] |= {"uid": uid, "generation": generation, "resourceVersion": "20"}
    if manifest["kind"] in ("HelmRelease", "OCIRepository"):
        kept["status"] = {"observedGeneration": -1}
    return kept


def flux_condition(kind: str, status: str, reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """One condition as Flux writes it, an hour old unless told otherwise."""
    moment = (NOW - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment,
        "observedGeneration": 1,
        **more,
    }


def fetched(digest: str = DIGEST, tag: str = "6.6.0", generation: int = 1) -> dict[str, Any]:
    """Status of an OCIRepository that holds its artifact."""
    return {
        "observedGeneration": generation,
        "artifact": {"revision": f"{tag}@{digest}", "digest": digest},
        "conditions": [flux_condition("Ready", "True", "Succeeded", "stored artifact")],
    }


def attempted(
    conditions: Iterable[Mapping[str, Any]],
    *,
    version: str = "6.6.0",
    digest: str = DIGEST,
    generation: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """Status of a HelmRelease whose last attempt was at that version, digest and generation."""
    return {
        "observedGeneration": generation,
        "lastAttemptedGeneration": generation,
        "lastAttemptedRevision": f"{version}+{digest[7:19]}",
        "lastAttemptedRevisionDigest": digest,
        "conditions": list(conditions),
        **more,
    }


def history(version: str = "6.6.0", digest: str = DIGEST, status: str = "deployed") -> dict[str, Any]:
    """One history entry."""
    return {"chartVersion": f"{version}+{digest[7:19]}", "ociDigest": digest, "status": status}


def deployed(version: str = "6.6.0", digest: str = DIGEST, **more: Any) -> dict[str, Any]:
    """Status of a HelmRelease that is released and ready."""
    message = f"Helm install succeeded for release org-myteam/nextcloud.v1 with chart nextcloud@{version}"
    conditions = [
        flux_condition("Ready", "True", "InstallSucceeded", message),
        flux_condition("Released", "True", "InstallSucceeded", message),
    ]
    status = attempted(conditions, version=version, digest=digest, history=[history(version, digest)])
    return {**status, **more}


@attrs.frozen
class Scene:
    """An instance, and what Flux reports of its release."""

    manifest: Mapping[str, Any]
    observed: InstanceObserved

    @property
    def source(self) -> ApplicationInstance:
        """The instance, structured."""
        return read_application_instance(self.manifest)

    def decide(self, context: Context = CONTEXT) -> Decision:
        """What is to be done."""
        return decide(self.manifest, self.observed, context)


def scene(
    release_status: Mapping[str, Any] | None,
    source_status: Mapping[str, Any] | None = None,
    *,
    manifest: Mapping[str, Any] | None = None,
    suspended_by_hand: bool = False,
) -> Scene:
    """A world in which everything wanted is applied, and Flux reports these statuses."""
    manifest = manifest or instance_manifest()
    objects = applied(manifest)
    for ref, live in objects.items():
        if ref.kind == HELM_RELEASE and release_status is not None:
            live["status"] = dict(release_status)
            if suspended_by_hand:
                live["spec"]["suspend"] = True
        elif ref.kind == OCI_REPOSITORY:
            live["status"] = dict(source_status or fetched())
    return Scene(manifest, InstanceObserved(NAMESPACE, objects))


def conditions_of(decision: Decision) -> dict[str, tuple[str, str]]:
    """Status and reason by condition type, as the decision would leave them."""
    assert decision.status is not None, "no status was decided"
    return {c["type"]: (c["status"], c["reason"]) for c in decision.status["status"]["conditions"]}


def message_of(decision: Decision, kind: str) -> str:
    """A condition's message."""
    assert decision.status is not None, "no status was decided"
    return str(next(c["message"] for c in decision.status["status"]["conditions"] if c["type"] == kind))

"""PH-5: the readiness of objects of the cluster and of engines, each answer and each bound."""

from typing import Any

import pytest

from purekube.readiness import State, readiness

CRD = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
READY, PROGRESSING, FAILED = State.READY, State.PROGRESSING, State.FAILED


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def conditions(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"conditions": list(given), **more}


def judged(api_version: str, kind: str, status: Any, **more: Any) -> tuple[State, str, str]:
    meta = {"name": "a", "generation": 2, **more.pop("metadata", {})}
    found = readiness({"apiVersion": api_version, "kind": kind, "metadata": meta, "status": status, **more})
    return found.state, found.reason, found.message


UNSEEN = "its controller has not observed it yet"


@pytest.mark.parametrize("kind", ["OCIRepository", "GitRepository", "Bucket", "HelmChart", "HelmRepository"])
@pytest.mark.parametrize(
    ("spec", "fetched", "is_ready"),
    [
        ({"suspend": True}, 1, False),
        ({"suspend": True}, 2, True),
        ({"suspend": True}, None, True),
        ({"suspend": False}, 1, True),
        ({}, 1, True),
    ],
)
def test_a_suspended_source_is_ready_only_with_the_artifact_of_its_generation(
    kind: str, spec: Any, fetched: int | None, is_ready: bool
) -> None:
    """source-controller says Ready=True of the new generation, and leaves the old artifact there."""
    stored = {} if fetched is None else {"observedGeneration": fetched}
    status = conditions(
        condition("Ready", "True", "Succeeded", "stored artifact", observedGeneration=2),
        condition("ArtifactInStorage", "True", "Succeeded", "stored artifact", **stored),
        observedGeneration=2,
        artifact={"revision": "1.0.0@sha256:a"},
    )

    told = judged("source.toolkit.fluxcd.io/v1", kind, status, spec=spec)

    message = f"the {kind} is suspended: what it asks for by now is not fetched"
    assert told == ((READY, "Succeeded", "") if is_ready else (PROGRESSING, "Suspended", message))


@pytest.mark.parametrize(
    ("version", "status", "told"),
    [
        ("v1", {"currentReplicas": 1}, (READY, "Observed", "")),
        ("v1", {}, (PROGRESSING, "NoStatus", UNSEEN)),
        ("v2", {"currentReplicas": 1}, (PROGRESSING, "NoStatus", UNSEEN)),
        ("v2", conditions(condition("AbleToScale"), condition("ScalingActive")), (READY, "AbleToScale", "")),
        ("v2", conditions(condition("AbleToScale", "False", "FailedGet", "no")), (PROGRESSING, "FailedGet", "no")),
        ("v2", conditions(condition("ScalingActive", "False")),
         (PROGRESSING, "NotScalingActive", "ScalingActive is False")),
        ("v2", conditions(condition("ScalingActive", "False", "ScalingDisabled")), (READY, "AbleToScale", "")),
        ("v2", conditions(condition("ScalingActive", "Unknown")), (READY, "AbleToScale", "")),
    ],
)  # fmt: skip
def test_an_autoscaler_is_ready_while_it_can_scale(version: str, status: Any, told: Any) -> None:
    assert judged(f"autoscaling/{version}", "HorizontalPodAutoscaler", status) == told


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"observedGeneration": 2, "currentHealthy": 2, "desiredHealthy": 2}, (READY, "SufficientPods", "")),
        ({"observedGeneration": 2, "desiredHealthy": 2}, (PROGRESSING, "InsufficientPods", "0 of 2 pods are healthy")),
        ({"observedGeneration": 2}, (READY, "SufficientPods", "")),
        ({"currentHealthy": 2}, (PROGRESSING, "GenerationNotObserved", UNSEEN)),
    ],
)
def test_a_budget_is_ready_with_as_many_healthy_pods_as_it_wants(status: Any, told: Any) -> None:
    assert judged("policy/v1", "PodDisruptionBudget", status) == told


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "told"),
    [
        ("v1", "Namespace", {"phase": "Active"}, (READY, "Active", "")),
        ("v1", "Namespace", {}, (READY, "Active", "")),
        ("v1", "Namespace", {"phase": "Terminating"}, (PROGRESSING, "Terminating", "the namespace is Terminating")),
        (*CRD, conditions(condition("Established")),
         (READY, "Established", "")),
        (*CRD, conditions(condition("Established", "False", "", "soon")),
         (PROGRESSING, "NotEstablished", "soon")),
        (*CRD, {},
         (PROGRESSING, "NotEstablished", "the API server does not serve it yet")),
        (*CRD,
         conditions(condition("NamesAccepted", "False", "ListKindConflict", "taken"), condition("Established")),
         (FAILED, "ListKindConflict", "taken")),
        (*CRD, conditions(condition("NamesAccepted", "False")),
         (FAILED, "NamesNotAccepted", "")),
        (*CRD,
         conditions(condition("NonStructuralSchema", "True", "", "no type"), condition("Established")),
         (FAILED, "NonStructuralSchema", "no type")),
        (*CRD, conditions(condition("NonStructuralSchema")),
         (FAILED, "NonStructuralSchema", "its schema is not structural")),
        ("apiregistration.k8s.io/v1", "APIService", conditions(condition("Available")), (READY, "Available", "")),
        ("apiregistration.k8s.io/v1", "APIService", conditions(condition("Available", "False", "Missing", "gone")),
         (PROGRESSING, "Missing", "gone")),
        ("apiregistration.k8s.io/v1", "APIService", {}, (PROGRESSING, "NotAvailable", "it does not answer")),
        ("networking.k8s.io/v1", "ServiceCIDR", conditions(condition("Ready")), (READY, "Ready", "")),
        ("networking.k8s.io/v1", "ServiceCIDR", conditions(condition("Ready", "False", "Going", "going")),
         (PROGRESSING, "Going", "going")),
        ("networking.k8s.io/v1", "ServiceCIDR", {}, (PROGRESSING, "NotReady", "it is not in use yet")),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", {"certificate": "x"}, (READY, "Issued", "")),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", {},
         (PROGRESSING, "NotIssued", "no certificate was issued yet")),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", conditions(condition("Denied", "True", "No", "no")),
         (FAILED, "No", "no")),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", conditions(condition("Failed"), certificate="x"),
         (FAILED, "Failed", "the request is Failed")),
        ("v1", "PersistentVolume", {"phase": "Released"}, (READY, "Released", "")),
        ("v1", "PersistentVolume", {"phase": "Available"}, (READY, "Available", "")),
        ("v1", "PersistentVolume", {"phase": "Bound"}, (READY, "Bound", "")),
        ("v1", "PersistentVolume", {"phase": "Failed", "message": "no"}, (FAILED, "Failed", "no")),
        ("v1", "PersistentVolume", {"phase": "Failed"}, (FAILED, "Failed", "the volume could not be reclaimed")),
        ("v1", "PersistentVolume", {}, (PROGRESSING, "Pending", "the volume is not available yet")),
        ("v1", "PersistentVolumeClaim", {"phase": "Lost"}, (FAILED, "Lost", "the volume that it was bound to is gone")),
        ("v1", "PersistentVolumeClaim", {}, (PROGRESSING, "Pending", "no volume is bound yet")),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": True, "boundVolumeSnapshotContentName": "c"},
         (READY, "ReadyToUse", "")),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": True},
         (PROGRESSING, "SnapshotPending", "the snapshot is not ready to use yet")),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": False, "boundVolumeSnapshotContentName": "c"},
         (PROGRESSING, "SnapshotPending", "the snapshot is not ready to use yet")),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"error": {"message": "no"}},
         (PROGRESSING, "SnapshotError", "no")),
    ],
)  # fmt: skip
def test_objects_of_the_cluster_are_ready_by_their_own_word(
    api_version: str, kind: str, status: Any, told: Any
) -> None:
    assert judged(api_version, kind, status) == told


BALANCED = {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}
NO_ADDRESS = (PROGRESSING, "LoadBalancerPending", "the load balancer has no address yet")


@pytest.mark.parametrize(
    ("spec", "entries", "told"),
    [
        ({}, None, (READY, "Exists", "")),
        ({"type": "ClusterIP"}, None, (READY, "Exists", "")),
        ({"type": "LoadBalancer"}, [{"ip": "1"}], (PROGRESSING, "NoClusterIP", "it has no address in the cluster yet")),
        (BALANCED, None, NO_ADDRESS),
        (BALANCED, "x", NO_ADDRESS),
        (BALANCED, ["x", {}, {"ip": ""}], NO_ADDRESS),
        (BALANCED, [{}, {"hostname": "h"}, {"ip": "1"}], (READY, "LoadBalancerReady", "reached at h")),
        (BALANCED, [{"ip": "1", "hostname": "h"}], (READY, "LoadBalancerReady", "reached at 1")),
    ],
)
def test_a_service_is_reached_at_its_first_address(spec: Any, entries: Any, told: Any) -> None:
    status = {"loadBalancer": {"ingress": entries}}

    assert judged("v1", "Service", status, spec=spec) == told
    at = told[2] if told[1] == "LoadBalancerReady" else ""
    pending = (PROGRESSING, "NoAddress", "no ingress controller has given it an address yet")
    if spec == BALANCED:
        assert judged("networking.k8s.io/v1", "Ingress", status) == ((READY, "HasAddress", at) if at else pending)


LONG = "x" * 1025


@pytest.mark.parametrize(
    ("kind", "status", "told"),
    [
        ("Backup", {"phase": "Completed"}, (READY, "Completed", "")),
        ("Backup", {"phase": "PartiallyFailed"}, (READY, "PartiallyFailed", "")),
        ("Backup", {"phase": "Failed", "failureReason": "a", "message": "b"}, (FAILED, "Failed", "a")),
        ("Backup", {"phase": "Failed", "message": "b", "validationErrors": ["c"]}, (FAILED, "Failed", "b")),
        ("Backup", {"phase": "FailedValidation", "validationErrors": ["c", "d"]}, (FAILED, "FailedValidation", "c")),
        ("Backup", {"phase": "FailedValidation", "validationErrors": [LONG]},
         (FAILED, "FailedValidation", "x" * 1024)),
        ("Backup", {"phase": "Failed", "validationErrors": []}, (FAILED, "Failed", "the backup has failed")),
        ("Backup", {"phase": "Failed", "validationErrors": [1]}, (FAILED, "Failed", "the backup has failed")),
        ("Backup", {"phase": "Failed", "validationErrors": "c"}, (FAILED, "Failed", "the backup has failed")),
        ("Backup", {}, (PROGRESSING, "Pending", "the backup is not begun")),
        ("Backup", {"phase": "InProgress"}, (PROGRESSING, "InProgress", "the backup is InProgress")),
        ("Restore", {"phase": "Completed"}, (READY, "Completed", "")),
        ("Restore", {"phase": "PartiallyFailed"}, (FAILED, "PartiallyFailed", "the restore has failed")),
        ("Restore", {"phase": "Failed"}, (FAILED, "Failed", "the restore has failed")),
        ("BackupStorageLocation", {"phase": "Available"}, (READY, "Available", "")),
        ("BackupStorageLocation", {"phase": "Unavailable"},
         (PROGRESSING, "Unavailable", "the storage location is Unavailable")),
    ],
)  # fmt: skip
def test_what_velero_says_of_its_phase_is_told(kind: str, status: Any, told: Any) -> None:
    assert judged("velero.io/v1", kind, status) == told


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        ("Succeeded", (READY, "Succeeded", "")),
        ("Failed", (FAILED, "Failed", "the workflow has failed")),
        ("Error", (FAILED, "Error", "the workflow has failed")),
        ("Running", (PROGRESSING, "Running", "the workflow is Running")),
    ],
)
def test_a_workflow_is_ready_once_it_has_succeeded(phase: str, told: Any) -> None:
    assert judged("argoproj.io/v1alpha1", "Workflow", {"phase": phase}) == told


WELL = {"latestMoverStatus": {"result": "Successful"}}
SYNCED, PENDING = (READY, "Synchronized", ""), (PROGRESSING, "SyncPending", "no sync has ended yet")


@pytest.mark.parametrize(
    ("trigger", "status", "told"),
    [
        ({"manual": "x"}, {**WELL, "lastManualSync": "x"}, SYNCED),
        ({"manual": "x"}, {**WELL, "lastManualSync": "y", "lastSyncTime": "t"}, PENDING),
        ({"manual": "x"}, {"lastManualSync": "x"}, PENDING),
        ({}, {**WELL, "lastSyncTime": "t"}, SYNCED),
        ({}, WELL, PENDING),
        ({}, conditions(condition("Synchronizing", "True", "Syncing", "on")), (PROGRESSING, "Syncing", "on")),
        ({"manual": "x"}, {"latestMoverStatus": {"result": "Failed"}, "lastManualSync": "x"},
         (PROGRESSING, "MoverFailed", "the last sync has failed; VolSync tries again")),
    ],
)  # fmt: skip
def test_a_replication_is_ready_once_its_sync_has_succeeded(trigger: Any, status: Any, told: Any) -> None:
    for kind in ("ReplicationSource", "ReplicationDestination"):
        assert judged("volsync.backube/v1alpha1", kind, status, spec={"trigger": trigger}) == told


FLUX = [
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease", {}),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", {}),
    ("source.toolkit.fluxcd.io/v1", "OCIRepository", {"artifact": {"digest": "d"}}),
]


@pytest.mark.parametrize(("api_version", "kind", "more"), FLUX)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([condition("Stalled", "True", "Gone", "gone"), condition("Ready")], (FAILED, "Gone", "gone")),
        ([condition("Stalled")], (FAILED, "Stalled", "Flux has given up")),
        ([condition("Ready", "True", "Fine", observedGeneration=2)], (READY, "Fine", "")),
        ([condition("Ready", "True", observedGeneration=3)], (READY, "Ready", "")),
        ([condition("Ready")], (READY, "Ready", "")),
        ([condition("Ready", "True", "Old", "old", observedGeneration=1)], (PROGRESSING, "Old", "old")),
        ([condition("Ready", "False", "No", "no")], (PROGRESSING, "No", "no")),
        ([condition("Reconciling", "True", "On", "on")], (PROGRESSING, "On", "on")),
        ([condition("Ready", "Unknown"), condition("Reconciling", "True", "On", "on")], (PROGRESSING, "On", "on")),
        ([], (PROGRESSING, "Pending", "Flux has not observed it yet")),
    ],
)
def test_an_object_of_flux_is_ready_at_its_generation(
    api_version: str, kind: str, more: dict[str, Any], given: list[dict[str, Any]], told: Any
) -> None:
    assert judged(api_version, kind, conditions(*given, **more)) == told


def test_an_object_of_flux_is_not_ready_while_suspended_or_without_its_artifact() -> None:
    well = conditions(condition("Ready"))
    source = "source.toolkit.fluxcd.io/v1"

    for api_version, kind, _ in FLUX[:2]:
        suspended = judged(api_version, kind, well, spec={"suspend": True})
        assert suspended == (PROGRESSING, "Suspended", f"the {kind} is suspended")
        assert judged(api_version, kind, well, spec={"suspend": False})[0] is READY
    for kind in ("OCIRepository", "GitRepository", "Bucket", "HelmChart", "HelmRepository"):
        assert judged(source, kind, well) == (PROGRESSING, "NoArtifact", "it has no artifact yet")
        assert judged(source, kind, conditions(condition("Ready", "False", "No", "no")))[1:] == ("No", "no")
    assert judged(source, "HelmRepository", {}, spec={"type": "oci"}) == (READY, "Exists", "")
    assert judged(source, "HelmRepository", {}, spec={"type": "default"})[0] is PROGRESSING


def of_pod(status: dict[str, Any]) -> tuple[Any, str, str]:
    found = readiness({"apiVersion": "v1", "kind": "Pod", "status": status})
    return found.state, found.reason, found.message


def waits(reason: str, message: str = "", name: str = "web") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


NOT_READY = (PROGRESSING, "PodNotReady", "its containers are not ready")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, NOT_READY),
        ({"phase": "Succeeded"}, (READY, "PodCompleted", "it has ended well")),
        ({"phase": "Failed"}, (FAILED, "PodFailed", "its containers have failed")),
        ({"phase": "Failed", "reason": "Evicted", "message": "no memory"}, (FAILED, "Evicted", "no memory")),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, (READY, "PodReady", "")),
        ({"conditions": [{"type": "Ready", "status": "False", "message": "m"}]}, (PROGRESSING, "PodNotReady", "m")),
        ({"containerStatuses": [waits("")]}, NOT_READY),
        ({"containerStatuses": [waits("ContainerCreating")]}, NOT_READY),
        ({"initContainerStatuses": [waits("PodInitializing")]}, NOT_READY),
        ({"containerStatuses": [{"name": "web", "state": {"running": {}}}, "odd"]}, NOT_READY),
        ({"containerStatuses": "odd"}, NOT_READY),
        ({"containerStatuses": [waits("ErrImagePull")]},
         (PROGRESSING, "ErrImagePull", "container web: ErrImagePull")),
        ({"containerStatuses": [waits(""), waits("Back", "again", "db")]},
         (PROGRESSING, "Back", "container db: again")),
        ({"containerStatuses": [waits("B")], "initContainerStatuses": [waits("A", "", "i")]},
         (PROGRESSING, "A", "container i: A")),
        ({"conditions": [{"type": "PodScheduled", "status": "False"}]},
         (PROGRESSING, "Unscheduled", "no node takes it")),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]},
         (PROGRESSING, "Unschedulable", "full")),
        ({"conditions": [{"type": "PodScheduled", "status": "True", "reason": "x"}]}, NOT_READY),
    ],
)  # fmt: skip
def test_a_pod_says_why_it_is_not_ready(status: dict[str, Any], told: Any) -> None:
    assert of_pod(status) == told


def of_job(status: dict[str, Any], **spec: Any) -> tuple[Any, str, str]:
    found = readiness({"apiVersion": "batch/v1", "kind": "Job", "spec": spec, "status": status})
    return found.state, found.reason, found.message


def holds(type_: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True", **more}]}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, (PROGRESSING, "JobPending", "no pod of the Job is active yet")),
        ({"active": 2}, (PROGRESSING, "JobRunning", "0 of 3 completions, 2 pods are active")),
        ({"succeeded": 1}, (PROGRESSING, "JobRunning", "1 of 3 completions, 0 pods are active")),
        (holds("Failed"), (FAILED, "JobFailed", "the Job has failed")),
        (holds("Failed", reason="BackoffLimitExceeded"), (FAILED, "BackoffLimitExceeded", "BackoffLimitExceeded")),
        (holds("Failed", reason="Late", message="too late"), (FAILED, "Late", "too late")),
        (holds("Complete"), (READY, "JobCompleted", "the Job has ended well")),
        (holds("Suspended"), (PROGRESSING, "JobSuspended", "the Job is suspended")),
        (holds("FailureTarget"), (PROGRESSING, "JobPending", "no pod of the Job is active yet")),
        (holds("SuccessCriteriaMet"), (PROGRESSING, "JobPending", "no pod of the Job is active yet")),
    ],
)
def test_a_job_ends_by_its_own_conditions(status: dict[str, Any], told: Any) -> None:
    assert of_job(status, completions=3) == told


def test_a_job_wants_one_completion_unless_it_says_otherwise() -> None:
    assert of_job({"active": 1})[2] == "0 of 1 completions, 1 pods are active"


@pytest.mark.parametrize(
    ("generation", "observed", "ready"),
    [(None, None, True), (2, None, True), (None, 1, True), (2, 1, False), (2, 2, True), (2, 3, True)],
)
def test_a_release_is_ready_at_its_generation_as_far_as_both_are_known(
    generation: int | None, observed: int | None, ready: bool
) -> None:
    meta = {} if generation is None else {"generation": generation}
    more = {} if observed is None else {"observedGeneration": observed}
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "Done", **more}]}
    release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": meta, "status": status}

    assert readiness(release).is_ready is ready

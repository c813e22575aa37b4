"""Readiness rules for Services, claims, volumes, Namespaces, autoscalers, CRDs and other kinds without pods."""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.result import Conditions, Readiness, count, failed, mapping, progressing, ready, text


def autoscaler(manifest: Manifest) -> Readiness:
    """Return the readiness of an autoscaler. It is ready if it can scale its target, and progressing while metrics are
    missing.

    An object of autoscaling/v1, which has no conditions, is ready once its controller has observed it.
    """
    if text(manifest, "apiVersion") == "autoscaling/v1" and mapping(manifest, "status"):
        return ready("Observed")
    conditions = Conditions.of(manifest)
    for kind in ("AbleToScale", "ScalingActive"):
        # ScalingDisabled: the target has zero replicas, which the autoscaler leaves alone (kubernetes:
        # pkg/controller/podautoscaler/horizontal.go).
        if conditions.status(kind) == "False" and conditions.reason(kind) != "ScalingDisabled":
            return conditions.progressing(kind, f"{kind} is False", f"Not{kind}")
    if not conditions.by_type:
        return progressing("NoStatus", "its controller has not observed it yet")
    return ready("AbleToScale")


def disruption_budget(manifest: Manifest) -> Readiness:
    """Return the readiness of a PodDisruptionBudget. It is ready if as many pods are healthy as the budget requires."""
    status = mapping(manifest, "status")
    if "observedGeneration" not in status:
        return progressing("GenerationNotObserved", "its controller has not observed it yet")
    # kstatus takes every budget for Current (core.go, pdbConditions).
    have, want = count(status, "currentHealthy"), count(status, "desiredHealthy")
    if have < want:
        return progressing("InsufficientPods", f"{have} of {want} pods are healthy")
    return ready("SufficientPods")


def namespace(manifest: Manifest) -> Readiness:
    """Return the readiness of a namespace. It is ready while it is Active."""
    phase = text(mapping(manifest, "status"), "phase")
    return ready("Active") if phase in ("", "Active") else progressing(phase, f"the namespace is {phase}")


def custom_resource_definition(manifest: Manifest) -> Readiness:
    """Return the readiness of a CRD. It is ready once its names are accepted and the API server serves its kind."""
    conditions = Conditions.of(manifest)
    # A name conflict is no progress: it ends only when the other CRD goes or changes (apiextensions-apiserver:
    # pkg/controller/status/naming_controller.go).
    if conditions.status("NamesAccepted") == "False":
        return conditions.failed("NamesAccepted", "", "NamesNotAccepted")
    if conditions.status("NonStructuralSchema") == "True":
        return failed(
            "NonStructuralSchema", conditions.message_or_reason("NonStructuralSchema", "its schema is not structural")
        )
    if not conditions.holds("Established"):
        return progressing(
            "NotEstablished", conditions.message_or_reason("Established", "the API server does not serve it yet")
        )
    return ready("Established")


def api_service(manifest: Manifest) -> Readiness:
    """Return the readiness of an APIService. It is ready while it is Available."""
    conditions = Conditions.of(manifest)
    if conditions.holds("Available"):
        return ready("Available")
    return conditions.progressing("Available", "it does not answer", "NotAvailable")


def service_cidr(manifest: Manifest) -> Readiness:
    """Return the readiness of a ServiceCIDR. It is ready once its addresses can be assigned."""
    conditions = Conditions.of(manifest)
    if conditions.holds("Ready"):
        return ready("Ready")
    return conditions.progressing("Ready", "it is not in use yet", "NotReady")


def signing_request(manifest: Manifest) -> Readiness:
    """Return the readiness of a CertificateSigningRequest. It is ready once a certificate was issued."""
    conditions = Conditions.of(manifest)
    for kind in ("Denied", "Failed"):
        if conditions.holds(kind):
            return conditions.failed(kind, f"the request is {kind}")
    if text(mapping(manifest, "status"), "certificate"):
        return ready("Issued")
    return progressing("NotIssued", "no certificate was issued yet")


def _addresses(manifest: Manifest) -> list[str]:
    """Return the load balancer's addresses in the status of a Service or Ingress; none before they are assigned."""
    listed = mapping(manifest, "status", "loadBalancer").get("ingress")
    entries: list[Any] = listed if isinstance(listed, list) else []
    addresses = (text(entry, "ip") or text(entry, "hostname") for entry in entries if isinstance(entry, Mapping))
    return [entry for entry in addresses if entry]


def service(manifest: Manifest) -> Readiness:
    """Return the readiness of a Service.

    A Service of type LoadBalancer is ready once it has an address, any other at once.
    """
    spec = mapping(manifest, "spec")
    if text(spec, "type") != "LoadBalancer":
        return ready("Exists")
    if not text(spec, "clusterIP"):
        return progressing("NoClusterIP", "it has no address in the cluster yet")
    # kstatus is content with a clusterIP (core.go, serviceConditions): without the load balancer's address no client
    # outside reaches it.
    addresses = _addresses(manifest)
    if not addresses:
        return progressing("LoadBalancerPending", "the load balancer has no address yet")
    return ready("LoadBalancerReady", f"reached at {addresses[0]}")


def ingress(manifest: Manifest) -> Readiness:
    """Return the readiness of an Ingress. It is ready once it has an address."""
    addresses = _addresses(manifest)
    if not addresses:
        return progressing("NoAddress", "no ingress controller has given it an address yet")
    return ready("HasAddress", f"reached at {addresses[0]}")


def persistent_volume_claim(manifest: Manifest) -> Readiness:
    """Return the readiness of a PersistentVolumeClaim.

    It is ready once Bound; with WaitForFirstConsumer this happens when a pod uses the claim.
    """
    match text(mapping(manifest, "status"), "phase"):
        case "Bound":
            return ready("Bound", f"bound to {text(mapping(manifest, 'spec'), 'volumeName')}")
        case "Lost":
            return failed("Lost", "the volume that it was bound to is gone")
        case _:
            return progressing("Pending", "no volume is bound yet")


def persistent_volume(manifest: Manifest) -> Readiness:
    """Return the readiness of a PersistentVolume. It is ready if Available, Bound or Released."""
    status = mapping(manifest, "status")
    match text(status, "phase"):
        case "Available" | "Bound" | "Released" as phase:
            return ready(phase)
        case "Failed":
            return failed("Failed", text(status, "message") or "the volume could not be reclaimed")
        case _:
            return progressing("Pending", "the volume is not available yet")


def volume_snapshot(manifest: Manifest) -> Readiness:
    """Return the readiness of a VolumeSnapshot.

    It is ready once usable and bound. An error is transient, because the snapshotter retries.
    """
    status = mapping(manifest, "status")
    if status.get("readyToUse") is True and text(status, "boundVolumeSnapshotContentName"):
        return ready("ReadyToUse")
    error = text(mapping(status, "error"), "message")
    return progressing("SnapshotError" if error else "SnapshotPending", error or "the snapshot is not ready to use yet")

"""The readiness of autoscalers, disruption budgets, namespaces, and objects that extend or secure the API."""

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.fields import Conditions, count, mapping, text
from purekube.readiness.result import Readiness, failed, progressing, ready


def autoscaler(manifest: Manifest) -> Readiness:
    """Judge an autoscaler: ready if it can scale its target; without metrics it is progressing, not failed.

    autoscaling/v1 has no conditions: there it is ready once its controller has observed it.
    """
    if text(manifest, "apiVersion") == "autoscaling/v1" and mapping(manifest, "status"):
        return ready("Observed")
    conditions = Conditions.of(manifest)
    for kind in ("AbleToScale", "ScalingActive"):
        if conditions.status(kind) == "False" and conditions.reason(kind) != "ScalingDisabled":
            return progressing(
                conditions.reason(kind) or f"Not{kind}", conditions.message_or_reason(kind, f"{kind} is False")
            )
    if not conditions.by_type:
        return progressing("NoStatus", "its controller has not observed it yet")
    return ready("AbleToScale")


def disruption_budget(manifest: Manifest) -> Readiness:
    """Judge a disruption budget: ready if as many pods are healthy as it requires."""
    status = mapping(manifest, "status")
    if "observedGeneration" not in status:
        return progressing("GenerationNotObserved", "its controller has not observed it yet")
    have, want = count(status, "currentHealthy"), count(status, "desiredHealthy")
    if have < want:
        return progressing("InsufficientPods", f"{have} of {want} pods are healthy")
    return ready("SufficientPods")


def namespace(manifest: Manifest) -> Readiness:
    """Judge a namespace: ready while it is Active."""
    phase = text(mapping(manifest, "status"), "phase")
    return ready("Active") if phase in ("", "Active") else progressing(phase, f"the namespace is {phase}")


def custom_resource_definition(manifest: Manifest) -> Readiness:
    """Judge a definition: ready once its names are accepted and it is served."""
    conditions = Conditions.of(manifest)
    if conditions.status("NamesAccepted") == "False":
        return failed(
            conditions.reason("NamesAccepted") or "NamesNotAccepted", conditions.message_or_reason("NamesAccepted", "")
        )
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
    """Judge an APIService: ready while it is Available."""
    conditions = Conditions.of(manifest)
    if conditions.holds("Available"):
        return ready("Available")
    return progressing(
        conditions.reason("Available") or "NotAvailable",
        conditions.message_or_reason("Available", "it does not answer"),
    )


def service_cidr(manifest: Manifest) -> Readiness:
    """Judge a ServiceCIDR: ready once addresses are taken from it."""
    conditions = Conditions.of(manifest)
    if conditions.holds("Ready"):
        return ready("Ready")
    return progressing(
        conditions.reason("Ready") or "NotReady", conditions.message_or_reason("Ready", "it is not in use yet")
    )


def signing_request(manifest: Manifest) -> Readiness:
    """Judge a signing request: ready once a certificate was issued."""
    conditions = Conditions.of(manifest)
    for kind in ("Denied", "Failed"):
        if conditions.holds(kind):
            return failed(conditions.reason(kind) or kind, conditions.message_or_reason(kind, f"the request is {kind}"))
    if text(mapping(manifest, "status"), "certificate"):
        return ready("Issued")
    return progressing("NotIssued", "no certificate was issued yet")

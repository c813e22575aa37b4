"""The readiness of Flux's kinds.

Reconciling=True appears together with Ready=True at every interval of Flux; only a condition of the object's own
generation counts. A HelmRepository of OCI charts has no status at all.
"""

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.fields import Conditions, mapping, number, text
from purekube.readiness.result import Readiness, failed, progressing, ready


def _judged(manifest: Manifest) -> Readiness:
    conditions, generation = Conditions.of(manifest), number(mapping(manifest, "metadata"), "generation")
    if conditions.holds("Stalled"):
        return failed(
            conditions.reason("Stalled") or "Stalled", conditions.message_or_reason("Stalled", "Flux has given up")
        )
    observed = conditions.observed("Ready")
    if conditions.holds("Ready") and (observed is None or generation is None or observed >= generation):
        return ready(conditions.reason("Ready") or "Ready")
    reason = conditions.reason("Ready") or conditions.reason("Reconciling") or "Pending"
    return progressing(
        reason,
        conditions.message_or_reason(
            "Ready", conditions.message_or_reason("Reconciling", "Flux has not observed it yet")
        ),
    )


def _suspended(manifest: Manifest) -> bool:
    return mapping(manifest, "spec").get("suspend") is True


def helm_release(manifest: Manifest) -> Readiness:
    """Judge a HelmRelease by Ready at its generation; a suspended one keeps an old Ready and ignores the new spec."""
    # helm-controller returns early for a suspended object: observedGeneration moves, Ready stays as it was.
    if _suspended(manifest):
        return progressing("Suspended", "the HelmRelease is suspended")
    return _judged(manifest)


def kustomization(manifest: Manifest) -> Readiness:
    """Judge a Kustomization like a HelmRelease."""
    if _suspended(manifest):
        return progressing("Suspended", "the Kustomization is suspended")
    return _judged(manifest)


def source(manifest: Manifest) -> Readiness:
    """Judge a source: Ready, and with an artifact, which its readers need."""
    readiness = _judged(manifest)
    artifact = mapping(manifest, "status", "artifact")
    if readiness.is_ready and not artifact:
        return progressing("NoArtifact", "it has no artifact yet")
    return readiness


def helm_repository(manifest: Manifest) -> Readiness:
    """Judge a HelmRepository; one of type `oci` has no controller and is ready once it exists."""
    return ready("Exists") if text(mapping(manifest, "spec"), "type") == "oci" else source(manifest)

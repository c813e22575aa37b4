"""Which machine reconciles which kind."""

from datetime import datetime

from vworkspace_core.apimachinery.manifest import Kind, Manifest
from vworkspace_core.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from vworkspace_fake.flux.behaviour import FluxBehaviour
from vworkspace_fake.flux.effects import Step, Verdict
from vworkspace_fake.flux.helm import reconcile_helm_release
from vworkspace_fake.flux.source import reconcile_helm_chart, reconcile_helm_repository, reconcile_oci_repository

_SOURCES = {
    OCI_REPOSITORY: reconcile_oci_repository,
    HELM_REPOSITORY: reconcile_helm_repository,
    HELM_CHART: reconcile_helm_chart,
}


def begin_pass(kind: Kind, manifest: Manifest, now: datetime, behaviour: FluxBehaviour) -> Step[Verdict]:
    """A pass over one object, not yet begun. Raises KeyError for a kind that Flux does not reconcile."""
    if kind == HELM_RELEASE:
        return reconcile_helm_release(
            manifest,
            now,
            dependency_requeue=behaviour.dependency_requeue_seconds,
            ready_stuck_unknown=behaviour.ready_stuck_unknown,
        )
    return _SOURCES[kind](manifest, now)

"""The assignment of kinds to controllers."""

from datetime import datetime
from typing import Final

from kubelab.flux.behaviour import FluxBehaviour
from kubelab.flux.helm import HELM_CONTROLLER, reconcile_helm_release
from kubelab.flux.source import (
    SOURCE_CONTROLLER,
    reconcile_helm_chart,
    reconcile_helm_repository,
    reconcile_oci_repository,
)
from kubelab.simulation.effects import ControllerResult, PassStep, get_object
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

_SOURCES: Final = {
    OCI_REPOSITORY: reconcile_oci_repository,
    HELM_REPOSITORY: reconcile_helm_repository,
    HELM_CHART: reconcile_helm_chart,
}


def field_manager_of(ref: ObjectRef) -> str:
    """Return the field manager of the controller of an object."""
    return HELM_CONTROLLER if ref.kind == HELM_RELEASE else SOURCE_CONTROLLER


def reconcile(ref: ObjectRef, now: datetime, behaviour: FluxBehaviour) -> PassStep[ControllerResult]:
    """Run a pass over one object. Raises KeyError for a kind that Flux does not reconcile."""
    manifest = yield from get_object(ref)
    if manifest is None:
        return ControllerResult()
    if ref.kind != HELM_RELEASE:
        return (yield from _SOURCES[ref.kind](manifest, now, events=behaviour.events))
    return (
        yield from reconcile_helm_release(
            manifest,
            now,
            dependency_requeue=behaviour.dependency_requeue_seconds,
            ready_stuck_unknown=behaviour.ready_stuck_unknown,
            events=behaviour.events,
        )
    )

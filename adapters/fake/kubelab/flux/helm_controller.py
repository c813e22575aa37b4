"""helm-controller: one pass over a HelmRelease.

Behaviour that misleads naive readers of its status is imitated with care (helm-controller 1.6.1,
`internal/controller/helmrelease_controller.go`; comments name files below `internal`): Reconciling=True at the start of
every pass while Ready stays True; `observedGeneration` that does not advance while waiting or retrying; conditions
written before the rest of the status; a new chart of an OCI source without a new generation; failures of the previous
request that stay until the next attempt begins.
"""

from typing import Final

from kubelab.flux.behaviour import FluxBehaviour
from kubelab.flux.conditions import READY, condition
from kubelab.flux.draft import REQUESTED_AT, Draft
from kubelab.flux.helm_actions import uninstall
from kubelab.flux.helm_inputs import (
    InputUnavailable,
    compose_values,
    find_source,
    load_chart,
    source_problem,
    unready_dependency,
)
from kubelab.flux.helm_release import release
from kubelab.flux.helm_spec import FAILURE_COUNTERS, Chart, HelmRequest, HelmSpec, HelmValues
from kubelab.flux.questions import CanImpersonate
from kubelab.simulation.effects import (
    REQUEUE,
    ControllerResult,
    PassStep,
    SimulatedApply,
    SimulatedDelete,
    done,
    failed,
    waiting,
)
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_CHART

HELM_CONTROLLER: Final = "helm-controller"
"""The field manager of all writes of helm-controller."""

FORCE_AT: Final = "reconcile.fluxcd.io/forceAt"
RESET_AT: Final = "reconcile.fluxcd.io/resetAt"

_RECOVERING: Final = "reconciliation in progress"


def reconcile_helm_release(draft: Draft, behaviour: FluxBehaviour) -> PassStep[ControllerResult]:
    """Run one reconcile pass over the HelmRelease in `draft`, its working copy.

    The result has the time of the next pass, and the error of a failed pass.
    """
    result = yield from _pass(draft, HelmSpec.of(draft.object), behaviour)
    # The token is copied after a failed pass too, so lastHandledReconcileAt proves that a pass ran, not that it
    # succeeded.
    draft.handle_request()
    # Waiting, an error or an immediate requeue does not count as having observed the generation (the deferred function
    # of Reconcile).
    yield from draft.patch(observed=not result.retries)
    return result


def _pass(draft: Draft, spec: HelmSpec, behaviour: FluxBehaviour) -> PassStep[ControllerResult]:
    if draft.deleting:
        return (yield from _delete(draft, spec))
    if not draft.has_finalizer:
        # A pass of its own: an object that is deleted before it has the finalizer cannot have installed anything.
        draft.add_finalizer()
        return REQUEUE
    if draft.spec.get("suspend"):
        # A suspended pass ends without an error, so observedGeneration advances while Ready stays as it was.
        return done()
    yield from _keep_chart_object(draft, spec)
    # helm-controller does this at every interval, too: Reconciling=True does not mean a change, and Ready stays True.
    draft.mark_reconciling("Progressing", "Fulfilling prerequisites")
    yield from draft.patch()
    prepared = yield from _prepare(draft, spec, behaviour.dependency_requeue_seconds)
    if not isinstance(prepared, HelmRequest):
        return prepared
    if _target_changed(prepared):
        return (yield from _reinstall(draft, spec))
    forced = _begin_attempt(prepared)
    return (yield from release(prepared, forced=forced, ready_stuck_unknown=behaviour.ready_stuck_unknown))


def _prepare(draft: Draft, spec: HelmSpec, dependency_requeue: float) -> "PassStep[HelmRequest | ControllerResult]":
    problem = yield from unready_dependency(draft, spec)
    if problem:
        # The delay is fixed: with a backoff the last of a chain of dependencies would start far too late
        # (reconcileRelease).
        draft.report(READY, "False", "DependencyNotReady", problem)
        return waiting(dependency_requeue)
    source = yield from find_source(draft, spec)
    if isinstance(source, InputUnavailable):
        draft.mark(READY, "False", "ArtifactFailed", source.message)
        return failed(source.message)
    problem = source_problem(source)
    if problem:
        draft.mark(READY, "False", "SourceNotReady", problem)
        return waiting(dependency_requeue)
    values = yield from compose_values(draft, spec)
    if isinstance(values, InputUnavailable):
        draft.report(READY, "False", "ValuesError", values.message)
        return failed(values.message)
    _recover(draft)
    return HelmRequest(draft, spec, load_chart(source), values)


def _recover(draft: Draft) -> None:
    """Set Ready to Unknown if it still reports that a source, artifact, dependency or value is missing.

    The function is called when all of them exist again.
    """
    reason = (condition(draft.object, READY) or {}).get("reason")
    if reason in ("DependencyNotReady", "ArtifactFailed", "SourceNotReady", "ValuesError"):
        draft.mark(READY, "Unknown", "Progressing", _RECOVERING)


def _target_changed(request: HelmRequest) -> bool:
    status, spec = request.draft.status, request.spec
    if not status.get("storageNamespace") or not request.history:
        return False
    entry = request.history[0]
    # The comparison is with what was installed, not with the spec before, so that a move while Flux was down is seen
    # (action/verify.go, ReleaseTargetChanged).
    installed = (status["storageNamespace"], entry["namespace"], entry["name"])
    if installed != (spec.storage_namespace, spec.release_namespace, spec.stored_name):
        return True
    # By default another chart is installed after an uninstall of the old one; this default is in an accessor, not
    # in the CRD's schema (api/v2/helmrelease_types.go, Upgrade.GetChartNameChangeStrategy).
    in_place = get_path(spec.raw, "upgrade", "chartNameChangeStrategy") == "InPlaceUpdate"
    return not in_place and bool(entry["chartName"] != request.chart.name)


def _reinstall(draft: Draft, spec: HelmSpec) -> PassStep[ControllerResult]:
    # The old release goes first, as Helm refuses to install objects that belong to another release.
    error = yield from uninstall(draft, spec)
    if error:
        return failed(error)
    for field in ("history", "storageNamespace", *FAILURE_COUNTERS):
        draft.status.pop(field, None)
    return REQUEUE


def _begin_attempt(request: HelmRequest) -> bool:
    """Record in the status that an attempt to release begins. Return whether a user requested a forced release."""
    draft, chart, values = request.draft, request.chart, request.values
    # It is recorded before the first action, because a deletion without it skips the uninstall.
    draft.status["storageNamespace"] = request.spec.storage_namespace
    # The token is read even if the counters are reset for another reason: otherwise it would reset them once more, at
    # the next pass (action/reset.go, MustResetFailures).
    reset = _token(draft, RESET_AT, "lastHandledResetAt")
    if _has_new_request(draft, chart, values) or reset:
        for counter in FAILURE_COUNTERS:
            draft.status.pop(counter, None)
    draft.status["lastAttemptedGeneration"] = draft.generation
    draft.status["lastAttemptedRevision"] = chart.version
    draft.status["lastAttemptedConfigDigest"] = values.digest
    draft.status.pop("lastAttemptedRevisionDigest", None)
    if chart.oci_digest:
        draft.status["lastAttemptedRevisionDigest"] = chart.oci_digest
    return _token(draft, FORCE_AT, "lastHandledForceAt")


def _has_new_request(draft: Draft, chart: Chart, values: HelmValues) -> bool:
    attempted = tuple(
        draft.status.get(field)
        for field in ("lastAttemptedGeneration", "lastAttemptedRevision", "lastAttemptedConfigDigest")
    )
    return attempted != (draft.generation, chart.version, values.digest)


def _token(draft: Draft, annotation: str, handled: str) -> bool:
    """Report whether a user requested an action by a new token in the annotation `annotation`.

    The annotation `requestedAt` must have the same token. The token is recorded in the status field `handled`, so that
    the same request is not reported again.
    """
    token = draft.annotations.get(annotation)
    if token is None:
        return False
    seen, draft.status[handled] = draft.status.get(handled), token
    requested = draft.annotations.get(REQUESTED_AT)
    # forceAt and resetAt count only if they equal the token of requestedAt, but are marked as handled in any case
    # (fluxcd/pkg: apis/meta/annotations.go, HandleAnnotationRequest).
    return token == requested and token not in (seen, draft.status.get("lastHandledReconcileAt"))


def _keep_chart_object(draft: Draft, spec: HelmSpec) -> PassStep[None]:
    """Create or update the HelmChart that `spec.chart` of the HelmRelease describes.

    A former HelmChart with another name or namespace, or one that the spec no longer describes, is deleted.
    """
    template = get_path(draft.spec, "chart")
    namespace = str(get_path(template, "spec", "sourceRef", "namespace") or spec.namespace)
    desired = f"{namespace}/{spec.chart_object}" if template else ""
    known = str(draft.status.get("helmChart", ""))
    # reconcile/helmchart_template.go: the name in the status, not the former spec, says which HelmChart is to be
    # deleted.
    if known and known != desired:
        yield from _drop_chart_object(draft)
    if not template:
        return
    if not known:
        source = f"{get_path(template, 'spec', 'sourceRef', 'kind')}/{namespace}"
        source += f"/{get_path(template, 'spec', 'sourceRef', 'name')}"
        draft.tell("HelmChartCreated", f"Created HelmChart/{desired} with SourceRef '{source}'")
    yield SimulatedApply(HELM_CHART, _chart_manifest(draft, spec, namespace))
    draft.status["helmChart"] = desired


def _chart_manifest(draft: Draft, spec: HelmSpec, namespace: str) -> Manifest:
    asked = get_path(draft.spec, "chart", "spec") or {}
    meta = get_path(draft.spec, "chart", "metadata") or {}
    manifest = HELM_CHART.manifest(spec.chart_object, namespace)
    owner = {"helm.toolkit.fluxcd.io/name": spec.name, "helm.toolkit.fluxcd.io/namespace": spec.namespace}
    manifest["metadata"]["labels"] = {**meta.get("labels", {}), **owner}
    if meta.get("annotations"):
        manifest["metadata"]["annotations"] = dict(meta["annotations"])
    manifest["spec"] = {
        "chart": asked.get("chart"),
        "interval": asked.get("interval") or spec.raw["interval"],
        "reconcileStrategy": asked.get("reconcileStrategy", "ChartVersion"),
        "sourceRef": {key: get_path(asked, "sourceRef", key) for key in ("kind", "name")},
        "version": asked.get("version", "*"),
    }
    return manifest


def _drop_chart_object(draft: Draft) -> PassStep[None]:
    namespace, _, name = str(draft.status.pop("helmChart")).partition("/")
    yield SimulatedDelete(ObjectRef(HELM_CHART, namespace, name))


def _delete(draft: Draft, spec: HelmSpec) -> PassStep[ControllerResult]:
    """Uninstall the release, then remove the HelmRelease's finalizer.

    The finalizer of a suspended HelmRelease is removed without the uninstall, so its workload stays
    (`reconcileDelete`).
    """
    if not draft.spec.get("suspend"):  # no uninstall of a suspended one
        error = yield from _uninstall_for_good(draft, spec)
        if error:
            return failed(error)
        if draft.status.get("helmChart"):
            yield from _drop_chart_object(draft)
    draft.remove_finalizer()
    return done()


def _uninstall_for_good(draft: Draft, spec: HelmSpec) -> PassStep[str]:
    account = draft.spec.get("serviceAccountName")
    if not draft.status.get("storageNamespace"):
        return ""
    # Without the account, as in a namespace that is being deleted, the release stays and the HelmRelease goes. Only the
    # account is looked up: missing rights fail the uninstall instead (reconcileReleaseDeletion; docs/flux.md).
    if account and not (yield from CanImpersonate(spec.namespace, str(account)).ask()):
        return ""
    error = yield from uninstall(draft, spec)
    if not error:
        draft.status.pop("history", None)
        draft.status.pop("storageNamespace", None)
    return error

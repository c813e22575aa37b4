"""The simulated source-controller: its reconcile passes over OCIRepository, HelmRepository and HelmChart objects.

Statuses follow `api/v1` and `docs/spec/v1` of source-controller 1.9.3. Comments name files in its
`internal/controller`.
"""

from typing import Final

from kubelab.flux.artifacts import (
    IMAGE_VERSION,
    chart_failure,
    has_revision,
    index_failure,
    new_artifact,
    not_found,
    oci_failure,
    storage_url,
)
from kubelab.flux.behaviour import PullAnswer, PullRequest, PullStage, SourceFault
from kubelab.flux.conditions import BUILD_FAILED, FETCH_FAILED
from kubelab.flux.draft import Draft
from kubelab.flux.questions import Pull
from kubelab.flux.source_pass import (
    FetchResult,
    SourceResult,
    announce,
    fetch_source,
    missing_secret,
    rebuild,
    stored,
    trouble,
)
from kubelab.simulation.effects import ControllerResult, PassStep, done, get_object
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_CHART, HELM_REPOSITORY, OCI_REPOSITORY

SOURCE_CONTROLLER: Final = "source-controller"
"""The field manager of all writes of source-controller."""


def reconcile_source(draft: Draft) -> PassStep[ControllerResult]:
    """Run one reconcile pass over the source in `draft`, its working copy, by the source's kind.

    The result says whether the pass failed, and when the next pass follows. helm-controller creates a HelmChart from
    the `spec.chart` of a HelmRelease. A HelmRepository of type `oci` is a static object: the pass only removes its
    status and finalizer, if it has any.
    """
    if draft.ref.kind == OCI_REPOSITORY:
        return (yield from fetch_source(draft, _fetch_oci))
    if draft.ref.kind == HELM_CHART:
        return (yield from fetch_source(draft, _fetch_chart))
    if draft.spec.get("type") != "oci":
        return (yield from fetch_source(draft, _fetch_index))
    # A static data container without status and artifact: existing ones are removed (helmrepository_controller.go,
    # migrationToStatic, which also leaves a suspended one as it is).
    if not draft.spec.get("suspend") or draft.deleting:
        draft.remove_finalizer()
        draft.object["status"] = {}
        yield from draft.patch()
    return done()


def _pull(draft: Draft, request: PullRequest) -> PassStep[PullAnswer]:
    answer = yield from Pull(request).ask()
    yield from draft.sleep(answer.seconds)
    return answer


def _fetch_oci(draft: Draft) -> PassStep[FetchResult]:
    missing = yield from missing_secret(draft)
    if missing:
        place = f"{draft.ref.namespace}/{missing}"
        detail = f"failed to get credential: failed to get secret '{place}': secrets \"{missing}\" not found"
        return trouble(draft, "AuthenticationFailed", detail)
    url, desired = str(draft.spec.get("url", "")), draft.spec.get("ref") or {}
    # ocirepository_controller.go, getArtifactRef: the digest wins over the range, and the range over the tag.
    version = str(desired.get("digest") or desired.get("semver") or desired.get("tag") or "latest")
    request = PullRequest(PullStage.OCI, str(draft.ref.namespace), draft.ref.name, url, url.rpartition("/")[2], version)
    answer = yield from _pull(draft, request)
    if answer.fault is not SourceFault.NONE:
        reason, message = oci_failure(request, answer)
        return trouble(draft, reason, message, stalls=answer.fault is SourceFault.INVALID_URL)
    draft.unmark(FETCH_FAILED)
    revision = answer.digest if desired.get("digest") else f"{answer.version}@{answer.digest}"
    new = not has_revision(draft.object, revision)
    if new:
        reference = f"@{answer.digest}" if desired.get("digest") else f":{answer.version}"
        place = url.partition("://")[2]
        yield from rebuild(draft, "NewRevision", f"new revision '{revision}' for '{place}{reference}'")
    # Another layer or ignore rule stores the artifact again, although its revision stays (reconcileArtifact).
    if new or _content_config_changed(draft):
        _store_oci(draft, revision, answer)
    announce(draft, f"stored artifact with revision '{revision}' from '{url}'", new=new)
    return stored(draft, "Succeeded", f"stored artifact for digest '{revision}'")


def _content_config_changed(draft: Draft) -> bool:
    observed = draft.status.get("observedLayerSelector"), draft.status.get("observedIgnore")
    return (draft.spec.get("layerSelector"), draft.spec.get("ignore")) != observed


def _store_oci(draft: Draft, revision: str, answer: PullAnswer) -> None:
    artifact = new_artifact(draft.ref, revision, f"{answer.digest}.tar.gz", draft.now)
    if "@" not in revision and answer.version:
        artifact["metadata"] = {IMAGE_VERSION: answer.version}
    draft.status["artifact"] = artifact
    draft.status["url"] = storage_url(draft.ref, "latest.tar.gz")
    for observed, field in (("observedLayerSelector", "layerSelector"), ("observedIgnore", "ignore")):
        draft.status.pop(observed, None)
        if field in draft.spec:
            draft.status[observed] = draft.spec[field]


def _fetch_index(draft: Draft) -> PassStep[FetchResult]:
    url = str(draft.spec.get("url", ""))
    if url.startswith("oci://"):
        detail = "invalid Helm repository URL: 'oci' URL scheme cannot be used with 'default' HelmRepository type"
        return trouble(draft, "URLInvalid", detail, stalls=True)
    missing = yield from missing_secret(draft)
    if missing:
        place = f"{draft.ref.namespace}/{missing}"
        detail = f"failed to get authentication secret '{place}': secrets \"{missing}\" not found"
        return trouble(draft, "AuthenticationFailed", detail)
    request = PullRequest(PullStage.INDEX, str(draft.ref.namespace), draft.ref.name, url)
    answer = yield from _pull(draft, request)
    if answer.fault is not SourceFault.NONE:
        reason, message = index_failure(request, answer)
        return trouble(draft, reason, message, stalls=answer.fault is SourceFault.INVALID_URL)
    draft.unmark(FETCH_FAILED)
    new = not has_revision(draft.object, answer.digest)
    if new:
        yield from rebuild(draft, "NewRevision", f"new index revision '{answer.digest}'")
        file_name = f"index-{answer.digest.rpartition(':')[2]}.yaml"
        draft.status["artifact"] = new_artifact(draft.ref, answer.digest, file_name, draft.now)
        draft.status["url"] = storage_url(draft.ref, "index.yaml")
    announce(draft, f"stored fetched index of size {draft.status['artifact']['size']}B from '{url}'", new=new)
    return stored(draft, "Succeeded", f"stored artifact: revision '{answer.digest}'")


def _fetch_chart(draft: Draft) -> PassStep[FetchResult]:
    source = dict(draft.spec.get("sourceRef") or {})
    kind = HELM_REPOSITORY if source.get("kind") == "HelmRepository" else _foreign(str(source.get("kind")))
    repository = None
    if kind == HELM_REPOSITORY:
        repository = yield from get_object(ObjectRef(kind, draft.ref.namespace, str(source.get("name"))))
    if repository is None:
        message = f"failed to get source: {not_found(kind, str(source.get('name')))}"
        return trouble(draft, "SourceUnavailable", message)
    revision = get_path(repository, "status", "artifact", "revision")
    if revision is None and get_path(repository, "spec", "type") != "oci":
        message = f"no artifact available for {kind.kind} source '{source.get('name')}'"
        # No error: the pass is requeued at once, and later the index triggers it (helmchart_controller.go,
        # reconcileSource).
        draft.mark(FETCH_FAILED, "True", "NoSourceArtifact", message)
        return SourceResult.UNAVAILABLE
    # A HelmRepository of type oci has no index to observe.
    if revision is not None:
        draft.status["observedSourceArtifactRevision"] = revision
    return (yield from _pull_chart(draft, str(get_path(repository, "spec", "url") or ""), str(source.get("name"))))


def _pull_chart(draft: Draft, url: str, source: str) -> PassStep[FetchResult]:
    chart, desired = str(draft.spec.get("chart", "")), str(draft.spec.get("version", "*"))
    request = PullRequest(PullStage.CHART, str(draft.ref.namespace), source, url, chart, desired)
    answer = yield from _pull(draft, request)
    if answer.fault is not SourceFault.NONE:
        reason, message = chart_failure(request, answer)
        # A missing version stalls the HelmChart (internal/helm/chart/errors.go, IsPersistentBuildErrorReason); on its
        # HelmRelease it shows as SourceNotReady only.
        stalls = answer.fault in (SourceFault.NOT_FOUND, SourceFault.INVALID_URL)
        draft.unmark(BUILD_FAILED)
        return trouble(draft, reason, message, stalls=stalls)
    summary = f"pulled '{chart}' chart with version '{answer.version}'"
    new = draft.status.get("observedChartName") != chart or not has_revision(draft.object, answer.version)
    if new:
        yield from rebuild(draft, "NewChart", summary)
        file_name = f"{chart}-{answer.version}.tgz"
        draft.status["artifact"] = new_artifact(draft.ref, answer.version, file_name, draft.now)
        draft.status["observedChartName"] = chart
        draft.status["url"] = storage_url(draft.ref, "latest.tar.gz")
    draft.unmark(BUILD_FAILED)
    announce(draft, summary, new=new, reason="ChartPullSucceeded", again="ChartPullSucceeded")
    return stored(draft, "ChartPullSucceeded", summary)


def _foreign(kind: str) -> Kind:
    """Return the Kind of a source that is not simulated, such as GitRepository. No object of it is ever found."""
    return Kind(HELM_REPOSITORY.group, HELM_REPOSITORY.version, kind, f"{kind.lower()}s")

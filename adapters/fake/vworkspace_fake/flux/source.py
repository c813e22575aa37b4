"""source-controller: what an OCIRepository, a HelmRepository and a HelmChart go through.

`reconcile_oci_repository`, `reconcile_helm_repository` and `reconcile_helm_chart` are one pass each over
one object (see `vworkspace_fake.flux.effects` for what a pass is). Facts: downstream-status 6.5, 7.6, 7.7.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeAlias, assert_never

import attrs

from vworkspace_core.known import HELM_CHART, HELM_REPOSITORY, OCI_REPOSITORY, SECRET
from vworkspace_core.manifest import Kind, Manifest, ObjectRef, dig
from vworkspace_fake.flux.artifacts import (
    chart_failure,
    has_revision,
    index_failure,
    new_artifact,
    not_found,
    oci_failure,
    storage_url,
)
from vworkspace_fake.flux.behaviour import PullRequest, PullStage, SourceFault
from vworkspace_fake.flux.conditions import (
    ARTIFACT_IN_STORAGE,
    ARTIFACT_OUTDATED,
    BUILD_FAILED,
    FETCH_FAILED,
    READY,
    RECONCILING,
    SOURCE_VERIFIED,
    STALLED,
    STORAGE_OPERATION_FAILED,
    condition,
    conditions_of,
    is_stalled,
    status_of,
    summarize,
)
from vworkspace_fake.flux.draft import REQUESTED_AT, Draft
from vworkspace_fake.flux.durations import parse_duration
from vworkspace_fake.flux.effects import Done, Failed, Requeue, Step, Verdict, pull, read

__all__ = ["SOURCE_CONTROLLER", "reconcile_helm_chart", "reconcile_helm_repository", "reconcile_oci_repository"]

SOURCE_CONTROLLER: Final = "source-controller"
"""Field manager of everything source-controller writes."""

_DEFAULT_INTERVAL: Final = 60.0

# In the order in which source-controller looks for Ready's reason.
_SCOPE: Final = (
    STORAGE_OPERATION_FAILED,
    FETCH_FAILED,
    BUILD_FAILED,
    ARTIFACT_OUTDATED,
    ARTIFACT_IN_STORAGE,
    SOURCE_VERIFIED,
    STALLED,
    RECONCILING,
)
_NEGATIVE: Final = frozenset(_SCOPE) - {ARTIFACT_IN_STORAGE, SOURCE_VERIFIED}


@attrs.frozen
class Fetched:
    """The artifact is what the spec asks for."""


@attrs.frozen
class Unavailable:
    """Something to wait for, with backoff but without an error."""


@attrs.frozen
class Trouble:
    """An error; `stalls` when only a change of the spec (or a new index) can help."""

    reason: str
    message: str
    stalls: bool = False


@attrs.frozen
class Idle:
    """Nothing was looked at: suspended, or being deleted."""


_Result: TypeAlias = Fetched | Unavailable | Trouble | Idle
_Fetch: TypeAlias = Callable[[Draft], Step[_Result]]


def reconcile_oci_repository(manifest: Manifest, now: datetime) -> Step[Verdict]:
    """One pass over an OCIRepository."""
    return (yield from _reconcile(Draft(manifest, OCI_REPOSITORY, SOURCE_CONTROLLER, now), _fetch_oci))


def reconcile_helm_repository(manifest: Manifest, now: datetime) -> Step[Verdict]:
    """One pass over a HelmRepository. One of type `oci` is a static object: its status is emptied, nothing else."""
    draft = Draft(manifest, HELM_REPOSITORY, SOURCE_CONTROLLER, now)
    if draft.spec.get("type") != "oci":
        return (yield from _reconcile(draft, _fetch_index))
    if not draft.spec.get("suspend") or draft.deleting:
        draft.remove_finalizer()
        draft.object["status"] = {}
        yield from draft.patch()
    return Done()


def reconcile_helm_chart(manifest: Manifest, now: datetime) -> Step[Verdict]:
    """One pass over a HelmChart, the object helm-controller makes of `spec.chart`."""
    return (yield from _reconcile(Draft(manifest, HELM_CHART, SOURCE_CONTROLLER, now), _fetch_chart))


def _reconcile(draft: Draft, fetch: _Fetch) -> Step[Verdict]:
    if draft.deleting:
        draft.status.pop("artifact", None)
        draft.remove_finalizer()
        return (yield from _conclude(draft, Idle()))
    if not draft.has_finalizer:
        draft.add_finalizer()
        return (yield from _conclude(draft, Unavailable()))
    if draft.spec.get("suspend"):
        return (yield from _conclude(draft, Idle()))
    yield from _announce(draft)
    result = yield from fetch(draft)
    return (yield from _conclude(draft, result))


def _announce(draft: Draft) -> Step[None]:
    draft.progress("reconciliation in progress", drift=False)
    observed = draft.status.get("observedGeneration", 0)
    if observed != draft.generation:
        draft.progress(f"processing object: new generation {observed} -> {draft.generation}", drift=False)
        yield from draft.patch()
    elif draft.annotations.get(REQUESTED_AT, "") != draft.status.get("lastHandledReconcileAt", ""):
        yield from draft.patch()
    if "artifact" not in draft.status:
        draft.progress("building artifact", drift=True)
        draft.unmark(ARTIFACT_IN_STORAGE)
        yield from draft.patch()


def _conclude(draft: Draft, result: _Result) -> Step[Verdict]:
    draft.handle_request()
    if isinstance(result, Fetched):
        draft.unmark(RECONCILING)
    reconciling = condition(draft.object, RECONCILING)
    if reconciling is not None:
        draft.mark(RECONCILING, "True", "ProgressingWithRetry", str(reconciling["message"]))
    if isinstance(result, Trouble) and result.stalls:
        draft.mark_stalled(result.reason, result.message)
    else:
        draft.unmark(STALLED)
    final = isinstance(result, Fetched | Idle) or is_stalled(draft.object)
    _set_ready(draft)
    yield from draft.patch(observed=final and bool(conditions_of(draft.object)))
    return _verdict(draft, result)


def _set_ready(draft: Draft) -> None:
    summary = summarize(conditions_of(draft.object), _SCOPE, _NEGATIVE)
    if summary is not None:
        draft.mark(READY, *summary)


def _verdict(draft: Draft, result: _Result) -> Verdict:
    match result:
        case Fetched():
            if status_of(draft.object, READY) != "True":
                return Failed(str((condition(draft.object, READY) or {}).get("message", "not ready")))
            interval = draft.spec.get("interval")
            return Done(parse_duration(interval) if interval else _DEFAULT_INTERVAL)
        case Unavailable():
            return Requeue()
        case Trouble(stalls=True) | Idle():
            return Done()
        case Trouble():
            return Failed(result.message)
        case _:
            assert_never(result)


def _trouble(draft: Draft, reason: str, message: str, *, stalls: bool = False) -> Trouble:
    draft.mark(FETCH_FAILED, "True", reason, message)
    return Trouble(reason, message, stalls)


def _missing_secret(draft: Draft) -> Step[str]:
    """Name of a referenced Secret that does not exist; empty when all do."""
    for field in ("secretRef", "certSecretRef", "proxySecretRef"):
        name = dig(draft.spec, field, "name")
        if name and (yield from read(ObjectRef(SECRET, draft.ref.namespace, name))) is None:
            return str(name)
    return ""


def _rebuild(draft: Draft, outdated: str, message: str) -> Step[None]:
    """Say that a new artifact is on its way: from here on Ready is Unknown."""
    if "artifact" in draft.status:
        draft.mark(ARTIFACT_OUTDATED, "True", outdated, message)
    draft.progress(f"building artifact: {message}", drift=True)
    yield from draft.patch()


def _stored(draft: Draft, reason: str, message: str) -> Fetched:
    draft.unmark(FETCH_FAILED)
    draft.unmark(ARTIFACT_OUTDATED)
    draft.mark(ARTIFACT_IN_STORAGE, "True", reason, message)
    return Fetched()


def _fetch_oci(draft: Draft) -> Step[_Result]:
    missing = yield from _missing_secret(draft)
    if missing:
        place = f"{draft.ref.namespace}/{missing}"
        detail = f"failed to get credential: failed to get secret '{place}': secrets \"{missing}\" not found"
        return _trouble(draft, "AuthenticationFailed", detail)
    url, wanted = str(draft.spec.get("url", "")), draft.spec.get("ref") or {}
    version = str(wanted.get("digest") or wanted.get("semver") or wanted.get("tag") or "latest")
    request = PullRequest(PullStage.OCI, str(draft.ref.namespace), draft.ref.name, url, url.rpartition("/")[2], version)
    answer = yield from pull(request)
    yield from draft.sleep(answer.seconds)
    if answer.fault is not SourceFault.NONE:
        reason, message = oci_failure(request, answer)
        return _trouble(draft, reason, message, stalls=answer.fault is SourceFault.INVALID_URL)
    revision = answer.digest if wanted.get("digest") else f"{answer.version}@{answer.digest}"
    if not has_revision(draft.object, revision):
        yield from _rebuild(
            draft, "NewRevision", f"new revision '{revision}' for '{url.partition('://')[2]}:{version}'"
        )
    if not has_revision(draft.object, revision) or _content_config_changed(draft):
        _store_oci(draft, revision, answer.digest)
    return _stored(draft, "Succeeded", f"stored artifact for digest '{revision}'")


def _content_config_changed(draft: Draft) -> bool:
    observed = draft.status.get("observedLayerSelector"), draft.status.get("observedIgnore")
    return (draft.spec.get("layerSelector"), draft.spec.get("ignore")) != observed


def _store_oci(draft: Draft, revision: str, digest: str) -> None:
    draft.status["artifact"] = new_artifact(draft.ref, revision, f"{digest}.tar.gz", draft.now)
    draft.status["url"] = storage_url(draft.ref, "latest.tar.gz")
    for observed, field in (("observedLayerSelector", "layerSelector"), ("observedIgnore", "ignore")):
        draft.status.pop(observed, None)
        if field in draft.spec:
            draft.status[observed] = draft.spec[field]


def _fetch_index(draft: Draft) -> Step[_Result]:
    url = str(draft.spec.get("url", ""))
    if url.startswith("oci://"):
        detail = "invalid Helm repository URL: 'oci' URL scheme cannot be used with 'default' HelmRepository type"
        return _trouble(draft, "URLInvalid", detail, stalls=True)
    missing = yield from _missing_secret(draft)
    if missing:
        place = f"{draft.ref.namespace}/{missing}"
        detail = f"failed to get authentication secret '{place}': secrets \"{missing}\" not found"
        return _trouble(draft, "AuthenticationFailed", detail)
    request = PullRequest(PullStage.INDEX, str(draft.ref.namespace), draft.ref.name, url)
    answer = yield from pull(request)
    yield from draft.sleep(answer.seconds)
    if answer.fault is not SourceFault.NONE:
        reason, message = index_failure(request, answer)
        return _trouble(draft, reason, message, stalls=answer.fault is SourceFault.INVALID_URL)
    draft.unmark(FETCH_FAILED)
    if not has_revision(draft.object, answer.digest):
        yield from _rebuild(draft, "NewRevision", f"new index revision '{answer.digest}'")
        file_name = f"index-{answer.digest.rpartition(':')[2]}.yaml"
        draft.status["artifact"] = new_artifact(draft.ref, answer.digest, file_name, draft.now)
        draft.status["url"] = storage_url(draft.ref, "index.yaml")
    return _stored(draft, "Succeeded", f"stored artifact: revision '{answer.digest}'")


def _fetch_chart(draft: Draft) -> Step[_Result]:
    source = dict(draft.spec.get("sourceRef") or {})
    kind = HELM_REPOSITORY if source.get("kind") == "HelmRepository" else _foreign(str(source.get("kind")))
    repository = None
    if kind == HELM_REPOSITORY:
        repository = yield from read(ObjectRef(kind, draft.ref.namespace, str(source.get("name"))))
    if repository is None:
        message = f"failed to get source: {not_found(kind, str(source.get('name')))}"
        return _trouble(draft, "SourceUnavailable", message)
    revision = dig(repository, "status", "artifact", "revision")
    if revision is None and dig(repository, "spec", "type") != "oci":
        message = f"no artifact available for {kind.kind} source '{source.get('name')}'"
        draft.mark(FETCH_FAILED, "True", "NoSourceArtifact", message)
        return Unavailable()
    if revision is not None:
        draft.status["observedSourceArtifactRevision"] = revision
    return (yield from _pull_chart(draft, str(dig(repository, "spec", "url") or ""), str(source.get("name"))))


def _pull_chart(draft: Draft, url: str, source: str) -> Step[_Result]:
    chart, wanted = str(draft.spec.get("chart", "")), str(draft.spec.get("version", "*"))
    request = PullRequest(PullStage.CHART, str(draft.ref.namespace), source, url, chart, wanted)
    answer = yield from pull(request)
    yield from draft.sleep(answer.seconds)
    if answer.fault is not SourceFault.NONE:
        reason, message = chart_failure(request, answer)
        stalls = answer.fault in (SourceFault.NOT_FOUND, SourceFault.INVALID_URL)
        draft.unmark(BUILD_FAILED)
        return _trouble(draft, reason, message, stalls=stalls)
    summary = f"pulled '{chart}' chart with version '{answer.version}'"
    if draft.status.get("observedChartName") != chart or not has_revision(draft.object, answer.version):
        yield from _rebuild(draft, "NewChart", summary)
        file_name = f"{chart}-{answer.version}.tgz"
        draft.status["artifact"] = new_artifact(draft.ref, answer.version, file_name, draft.now)
        draft.status["observedChartName"] = chart
        draft.status["url"] = storage_url(draft.ref, "latest.tar.gz")
    draft.unmark(BUILD_FAILED)
    return _stored(draft, "ChartPullSucceeded", summary)


def _foreign(kind: str) -> Kind:
    """A kind of source that is not simulated; an object of it is never found."""
    return Kind(HELM_REPOSITORY.group, HELM_REPOSITORY.version, kind, f"{kind.lower()}s")

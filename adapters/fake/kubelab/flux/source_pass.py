"""The reconcile pass of the simulated source-controller, as far as it is the same for all kinds of sources.

Each kind supplies only the fetch of its artifact. The pass handles finalizer, suspension, deletion and conditions.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias, assert_never

import attrs

from kubelab.flux.conditions import (
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
    status_of,
    summarize,
)
from kubelab.flux.draft import REQUESTED_AT, Draft
from kubelab.simulation.effects import REQUEUE, ControllerResult, PassStep, done, failed, get_object
from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import SECRET

_DEFAULT_INTERVAL: Final = 60.0

# The order in which source-controller searches the reason of Ready (ociRepositoryReadyCondition, and the same for the
# other kinds). Reconciling and Stalled are in it, so Ready cannot be True next to one of them.
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


class SourceResult(Enum):
    """The result of a pass over a source that did not fail."""

    FETCHED = "fetched"
    """The source has an artifact that matches its spec."""
    UNAVAILABLE = "unavailable"
    """The fetch has to wait: the finalizer is new, or a HelmRepository has no index. The pass is repeated."""
    IDLE = "idle"
    """The fetch is left out, because the source is suspended or being deleted."""


@attrs.frozen
class SourceFailure:
    """The result of a failed fetch.

    `stalls` is True if a retry is useless, because only a change of the spec or of the chart index can help.
    """

    reason: str
    message: str
    stalls: bool = False


FetchResult: TypeAlias = SourceResult | SourceFailure
Fetch: TypeAlias = Callable[[Draft], PassStep[FetchResult]]


def fetch_source(draft: Draft, fetch: Fetch) -> PassStep[ControllerResult]:
    """Run one reconcile pass over a source. `draft` is the working copy of the source, which the pass changes.

    The pass handles deletion, finalizer and suspension first. Then it calls `fetch` to get the artifact, and sets the
    conditions that follow from the result. The returned ControllerResult says whether the pass failed, and when the
    next pass follows.
    """
    if draft.deleting:
        if draft.status.pop("artifact", None):
            draft.tell("GarbageCollectionSucceeded", "garbage collected artifacts for deleted resource")
        draft.remove_finalizer()
        return (yield from _conclude(draft, SourceResult.IDLE))
    # As in source-controller, the first pass only adds the finalizer; the fetch comes with the next one. An object that
    # is deleted at once has its finalizer then, or has stored nothing (ocirepository_controller.go, Reconcile).
    if not draft.has_finalizer:
        draft.add_finalizer()
        return (yield from _conclude(draft, SourceResult.UNAVAILABLE))
    if draft.spec.get("suspend"):
        return (yield from _conclude(draft, SourceResult.IDLE))
    yield from _announce(draft)
    result = yield from fetch(draft)
    return (yield from _conclude(draft, result))


def _announce(draft: Draft) -> PassStep[None]:
    draft.progress("reconciliation in progress", drift=False)
    observed = draft.status.get("observedGeneration", 0)
    if observed != draft.generation:
        draft.progress(f"processing object: new generation {observed} -> {draft.generation}", drift=False)
        yield from draft.patch()
    # Only then is Reconciling written early: a pass at the interval writes nothing before it has a result (reconcile).
    elif draft.annotations.get(REQUESTED_AT, "") != draft.status.get("lastHandledReconcileAt", ""):
        yield from draft.patch()
    if "artifact" not in draft.status:
        draft.progress("building artifact", drift=True)
        draft.unmark(ARTIFACT_IN_STORAGE)
        yield from draft.patch()


def _conclude(draft: Draft, result: FetchResult) -> PassStep[ControllerResult]:
    draft.handle_request()
    if result is SourceResult.FETCHED:
        draft.unmark(RECONCILING)
    reconciling = condition(draft.object, RECONCILING)
    if reconciling is not None:
        # internal/reconcile/reconcile.go, ComputeReconcileResult: what is still reconciling at the end has not
        # succeeded.
        draft.mark(RECONCILING, "True", "ProgressingWithRetry", str(reconciling["message"]))
    final = result.stalls if isinstance(result, SourceFailure) else result is not SourceResult.UNAVAILABLE
    if final and isinstance(result, SourceFailure):
        draft.mark_stalled(result.reason, result.message)
    else:
        draft.unmark(STALLED)
    summary = summarize(conditions_of(draft.object), _SCOPE, _NEGATIVE)
    if summary is not None:
        draft.mark(READY, *summary)
    yield from draft.patch(observed=final and bool(conditions_of(draft.object)))
    return _result_of(draft, result)


def _result_of(draft: Draft, result: FetchResult) -> ControllerResult:
    match result:
        case SourceResult.FETCHED:
            if status_of(draft.object, READY) != "True":
                return failed(str((condition(draft.object, READY) or {}).get("message", "not ready")))
            interval = draft.spec.get("interval")
            return done(seconds_of(interval) if interval else _DEFAULT_INTERVAL)
        case SourceResult.UNAVAILABLE:
            return REQUEUE
        case SourceFailure(stalls=True) | SourceResult.IDLE:
            return done()
        case SourceFailure():
            return failed(result.message)
        case _:
            assert_never(result)


def trouble(draft: Draft, reason: str, message: str, *, stalls: bool = False) -> SourceFailure:
    """Set the condition FetchFailed=True in `draft`, and return a SourceFailure with the same reason and message.

    `draft` is the working copy of the source. `stalls` says that a retry is useless, because only a change of the spec
    or of the chart index can help.
    """
    draft.report(FETCH_FAILED, "True", reason, message)
    return SourceFailure(reason, message, stalls)


def missing_secret(draft: Draft) -> PassStep[str]:
    """Return the name of a Secret that does not exist, and that the spec of the source in `draft` references.

    The name is empty if all referenced Secrets exist.
    """
    for field in ("secretRef", "certSecretRef", "proxySecretRef"):
        name = get_path(draft.spec, field, "name")
        if name and (yield from get_object(ObjectRef(SECRET, draft.ref.namespace, name))) is None:
            return str(name)
    return ""


def rebuild(draft: Draft, outdated: str, message: str) -> PassStep[None]:
    """Report in the conditions of the source in `draft` that a new artifact is being built, and set Ready to Unknown.

    If there is an artifact already, ArtifactOutdated becomes True with the reason `outdated`. `message` says what has
    changed, and is a part of the conditions' messages.
    """
    if "artifact" in draft.status:
        draft.mark(ARTIFACT_OUTDATED, "True", outdated, message)
    draft.progress(f"building artifact: {message}", drift=True)
    yield from draft.patch()


def announce(draft: Draft, message: str, *, new: bool, reason: str = "NewArtifact", again: str = "Succeeded") -> None:
    """Post an Event with `message` if the source's artifact is new, or if fetching works again after a failure.

    `draft` is the working copy of the source. `new` says that its artifact is new. The Event's reason is `reason` for a
    new artifact and `again` for an unchanged one. In all other cases nothing is posted.
    """
    # An unchanged artifact has an Event only after a failure (notify, FailureRecovery).
    if new or draft.had_failed:
        draft.tell(reason if new else again, message)


def stored(draft: Draft, reason: str, message: str) -> SourceResult:
    """Set the conditions of a successful fetch in `draft`, the working copy of the source, and return its result.

    ArtifactInStorage becomes True, with `reason` and `message`. FetchFailed and ArtifactOutdated are removed.
    """
    draft.unmark(FETCH_FAILED)
    draft.unmark(ARTIFACT_OUTDATED)
    draft.mark(ARTIFACT_IN_STORAGE, "True", reason, message)
    return SourceResult.FETCHED

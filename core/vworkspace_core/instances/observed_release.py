"""A HelmRelease as Flux reports on it (REC-5), and questions about it, such as whether it was ever deployed.

By the answers, `release_state.classify` finds the row of the table of release states that applies.

An attempt of Flux is *ours* if it was made for exactly the operator's latest request: for its generation, its version
without build metadata, and for OCI the digest of the artifact that the source holds.

A request to Flux for another try of a release (REC-14) consists of annotations of the HelmRelease that are patched,
never applied: an earlier requester causes no conflict, and they stay on the object. One is sent at most every ten
seconds, whatever its origin.

The token is the value of the annotations `requestedAt` and `resetAt` of Flux. Flux resets its counts of failures for a
`resetAt` that equals `requestedAt`, and only at the start of an attempt. A pass that fails at the chart or the values
still handles `requestedAt`: the reset of that token is lost, and another token has to request it once the attempt can
be made.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.manifest import Manifest, get_path, metadata, ref_of
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import MergePatch
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.chart import ChartSource, DeployedChart
from vworkspace_core.api.labels import RETRY_SENT, retry_token
from vworkspace_core.api.release_override import is_retry_request

# helm-controller's messages name the chart of an attempt as `with chart <name>@<version>` (1.6.1:
# internal/reconcile/install.go, fmtInstallFailure; upgrade.go, fmtUpgradeFailure).
_CHART_IN_MESSAGE = re.compile(r"\bwith chart \S+?@([0-9A-Za-z.+_-]*[0-9A-Za-z])")
# Of an OCI chart helm-controller reports the artifact's digest, cut, in place of the version's build metadata
# (internal/controller/helmrelease_controller.go, mutateChartWithSourceRevision).
_DIGEST_IN_VERSION = re.compile(r"\+[0-9a-f]{12}\Z")
_NONE: Mapping[str, Any] = {}
COUNTED_FAILURES = ("failures", "installFailures", "upgradeFailures")
"""The fields of a HelmRelease's status in which Flux counts the failures of one request. A new request resets them."""
_REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
_RESET_AT = "reconcile.fluxcd.io/resetAt"
_LONGEST_FAILURE: Final = 512
"""The most bytes of Flux's message about an uninstall that are quoted, so that the remedy after it fits."""
_OPERATION = "/operation/"
_AGAIN = "/again"
_LOOK = "/look"
_SECONDS_BETWEEN: Final = 10.0
# The passes with these reasons end before Flux looks for a reset (helm-controller 1.6.3:
# internal/controller/helmrelease_controller.go, reconcileRelease).
_UNPREPARED = (
    "SourceNotReady",
    "ArtifactFailed",
    "ValuesError",
    "DependencyNotReady",
    "ChartMutateError",
    "RESTClientError",
    "ResourceManagerError",
)


@attrs.frozen
class ReleaseRequest:
    """The latest request to Flux: effective chart version, whether the source is OCI, and a retry token or ""."""

    version: str
    oci: bool
    retry_token: str = ""


@attrs.frozen
class ReleaseTimeouts:
    """The numbers of seconds for which the operator treats some states of a release as temporary.

    Each is the setting of that name with `_seconds` in `Settings`. `source_grace` is how long a Flux source must fail
    before a deployed release counts as degraded, and how long Flux must be unable to act on any release. `source_wait`
    is how long SourceNotReady counts as progress. `stuck_ready` is how long Ready=Unknown counts as progress after
    Flux's last action has succeeded.
    """

    source_grace: float
    source_wait: float
    stuck_ready: float


@attrs.frozen
class ObservedRelease:
    """A HelmRelease with its source, its HelmChart, and the operator's latest request to Flux.

    `status`, `conditions` and `generation` are the HelmRelease's.
    """

    release: Manifest
    source: Manifest | None
    chart: Manifest | None
    request: ReleaseRequest
    now: datetime
    timeouts: ReleaseTimeouts
    status: Mapping[str, Any]
    conditions: Mapping[str, Mapping[str, Any]]
    generation: int

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return the HelmRelease's condition of type `kind`, or an empty mapping if it has no such condition."""
        return self.conditions.get(kind, _NONE)

    def seconds_since(self, condition: Mapping[str, Any]) -> float:
        """Return the seconds since a condition's last transition, or infinity if the condition has no time."""
        return _seconds(condition.get("lastTransitionTime"), self.now)


def is_ours(observed: ObservedRelease) -> bool:
    """Report whether Flux's last attempt to install or upgrade the release was made for the operator's
    latest request.
    """
    status = observed.status
    if status.get("lastAttemptedGeneration") != observed.generation:
        return False
    if not is_handled(status, observed.request.retry_token):
        return False
    if not _same_version(status.get("lastAttemptedRevision"), observed.request.version):
        return False
    # A new URL or new credentials change only the source: until it was fetched, Flux reports on the old one.
    return _same_artifact(observed) if observed.request.oci else _is_fetched(observed)


def _is_fetched(observed: ObservedRelease) -> bool:
    """Report whether Flux has fetched the repository and the HelmChart in their present generation.

    helm-controller installs the artifact of a HelmChart even if its latest fetch failed, except while the HelmChart is
    Stalled. A comparison of versions does not show a fetch if they differ only in build metadata.
    """
    return is_observed(observed.source) and (observed.chart is None or is_observed(observed.chart))


def is_observed(source: Manifest | None) -> bool:
    """Report whether source-controller has fetched, or tried to fetch, the source's present generation.

    `status.observedGeneration` alone does not prove a fetch: it also changes for a source that is suspended or whose
    URL is invalid. The condition ArtifactInStorage keeps the generation of the stored artifact.
    """
    generation = get_path(source, "metadata", "generation")
    if generation is None or get_path(source, "status", "observedGeneration") != generation:
        return False
    # A condition takes the object's generation when it is set, and only a fetch sets this one (source-controller 1.9.3:
    # internal/controller/ocirepository_controller.go, reconcileArtifact).
    return bool(condition_of(source, "ArtifactInStorage").get("observedGeneration", generation) == generation)


def _same_artifact(observed: ObservedRelease) -> bool:
    """Report whether Flux's last attempt used the OCI artifact that the source holds now.

    The digests are compared, since a new tag does not change the HelmRelease's generation.
    """
    desired = _artifact_digest(observed.source)
    if desired is None:
        return False
    history = get_path(observed.status, "history", 0, "ociDigest")
    return bool((observed.status.get("lastAttemptedRevisionDigest") or history) == desired)


def _artifact_digest(source: Manifest | None) -> str | None:
    if not is_observed(source):
        return None
    revision = get_path(source, "status", "artifact", "revision")
    return revision.partition("@")[2] or None if isinstance(revision, str) else None


def failure_is_ours(observed: ObservedRelease, released: Mapping[str, Any]) -> bool:
    """Report whether Released=False is about the present attempt and not about the former attempt.

    `released` is that condition of the HelmRelease. Flux records an attempt before running it, and leaves the former
    Released=False until the action ends. The condition's generation is thus no proof. The failure counts are a proof,
    since they restart at zero when an attempt is recorded. The message also names the chart of its attempt.
    """
    if released.get("observedGeneration", observed.generation) != observed.generation:
        return False
    if not any(observed.status.get(field) for field in COUNTED_FAILURES):
        return False
    named = _CHART_IN_MESSAGE.search(message_of(released))
    return named is None or named.group(1) == observed.status.get("lastAttemptedRevision")


def deployed_as_wanted(observed: ObservedRelease) -> bool:
    """Report whether the newest release in Helm's history is deployed, and results from the operator's latest request.

    The history is that in the HelmRelease's status.
    """
    newest = get_path(observed.status, "history", 0)
    # Build metadata counts too: without it, 1.0.0 would seem deployed while the upgrade from 1.0.0+a still runs.
    if get_path(newest, "status") != "deployed" or get_path(newest, "chartVersion") != observed.status.get(
        "lastAttemptedRevision"
    ):
        return False
    # The same version with other values is another release: Flux keeps a digest of both.
    attempted = observed.status.get("lastAttemptedConfigDigest")
    if attempted and get_path(newest, "configDigest") not in (None, attempted):
        return False
    return not observed.request.oci or _is_of_artifact(newest, _artifact_digest(observed.source))


def _is_of_artifact(release: Any, digest: str | None) -> bool:
    """Report whether `release`, an entry of Flux's release history, was made from the artifact with `digest`.

    The entry of a rollback has no `ociDigest`; its chart version then shows the artifact, since Flux replaces the build
    metadata by the first 12 hex digits of the digest.
    """
    if digest is None:
        return False
    deployed = get_path(release, "ociDigest")
    if deployed is not None:
        return bool(deployed == digest)
    build = str(get_path(release, "chartVersion")).partition("+")[2]
    return bool(build) and digest.partition(":")[2].startswith(build)


def deployed_chart(release: Manifest | None) -> DeployedChart | None:
    """Return the chart of the release that Helm records as deployed, or None if there is none.

    The digest by which Flux replaces a chart's build metadata is cut off from the version.
    """
    status = get_path(release, "status")
    history = get_path(status, "history")
    for entry in history if isinstance(history, list) else ():
        if get_path(entry, "status") == "deployed":
            name, version = (str(get_path(entry, field) or "") for field in ("chartName", "chartVersion"))
            of_oci = get_path(entry, "ociDigest") or get_path(status, "lastAttemptedRevisionDigest")
            return DeployedChart(name, _DIGEST_IN_VERSION.sub("", version) if of_oci else version)
    return None


def was_released(status: Mapping[str, Any]) -> bool:
    """Report whether any release of a HelmRelease was ever deployed. `status` is the HelmRelease's status."""
    history = status.get("history")
    if not isinstance(history, list):
        return False
    # The rule by which Flux finds a target for a rollback (helm-controller: api/v2/snapshot_types.go, Previous).
    return any(get_path(entry, "status") in ("deployed", "superseded") for entry in history)


def is_first_pass(status: Mapping[str, Any]) -> bool:
    """Report whether Flux is still in the pass that first installs the release. `status` is the HelmRelease's status.

    In that pass Flux records the release first and the observed generation last. A first pass over an existing release,
    for a HelmRelease that was recreated, does not count: its status shows an upgrade.
    """
    # -1 is the default of the schema of Flux's CRD: an object just created has it before any pass.
    return bool(status.get("observedGeneration", -1) == -1 and status.get("lastAttemptedReleaseAction") != "upgrade")


def failed_uninstall(release: Manifest) -> str:
    """Return Flux's message about a failed uninstall of a HelmRelease, or an empty string if no uninstall failed."""
    for kind in ("Released", "Ready"):
        condition = condition_of(release, kind)
        if condition.get("status") == "False" and condition.get("reason") == "UninstallFailed":
            return f"UninstallFailed: {safe(message_of(condition), _LONGEST_FAILURE)}"
    return ""


def message_of(condition: Mapping[str, Any]) -> str:
    """Return a condition's message, or an empty string if it has none."""
    message = condition.get("message")
    return message if isinstance(message, str) else ""


def _same_version(reported: Any, desired: str) -> bool:
    """Report whether `reported` and `desired` are the same version, apart from build metadata, which Flux replaces."""
    return isinstance(reported, str) and _bare(reported) == _bare(desired)


def _bare(version: str) -> str:
    return version.partition("+")[0].removeprefix("v")


def _seconds(moment: Any, now: datetime) -> float:
    """Return the seconds from `moment`, an RFC 3339 text, until `now`.

    Return infinity if the text is missing or malformed.
    """
    if not isinstance(moment, str):
        return float("inf")
    try:
        return (now - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")


# --- retries ----------------------------------------------------------------------------------------------------------


def token_of(instance: ApplicationInstance, chart: ChartSource, override: ReleaseOverride | None) -> str:
    """Return the token of the requested retry, or an empty string if no retry is requested.

    A retry is requested by an annotation, by an Upgrade Operation that changes nothing, or by both. `override` has the
    changes of that Operation, and `chart` is the chart in the spec, with which they are compared. The token changes
    with every new request.
    """
    token = retry_token(instance.metadata) or ""
    if override is not None and is_retry_request(override, chart.version):
        token += f"{_OPERATION}{override.uid}"
    return token


def is_handled(status: Mapping[str, Any], token: str) -> bool:
    """Report whether Flux's status shows an attempt for the retry token `token`.

    A token has up to two parts, one from an annotation and one from an Operation (see `token_of`). An attempt for a
    longer token that includes `token` counts too, since the other part may have been withdrawn after it was sent. The
    answer is True for an empty token.
    """
    handled = status.get("lastHandledResetAt")
    if not token or not isinstance(handled, str):
        return not token
    handled = handled.removesuffix(_AGAIN)
    return (
        handled == token
        or handled.startswith(token + _OPERATION)
        or (token.startswith(_OPERATION) and token in handled)
    )


@attrs.frozen
class ReconcileRequest:
    """The patches by which the operator requests a retry from Flux; empty if no request is to be sent now.

    `wait` is the number of seconds after which a request may be sent, None if there is nothing to wait for.
    """

    patches: tuple[MergePatch, ...] = ()
    wait: float | None = None


SILENT: Final = ReconcileRequest()


def reconcile_request(token: str, release: Manifest | None, now: datetime) -> ReconcileRequest:
    """Return the patch on the HelmRelease `release` by which the operator requests the retry `token` from Flux.

    There is no patch if it was sent already, if Flux has handled the token, or if an earlier request was sent too
    recently.
    """
    if release is None or metadata(release).get("deletionTimestamp"):
        return SILENT
    desired, there = retry_annotations(token, release), metadata(release).get("annotations") or {}
    if all(there.get(name) == value for name, value in desired.items()):
        return SILENT
    if (wait := _wait(there.get(RETRY_SENT), now)) > 0:
        return ReconcileRequest(wait=wait)
    # Flux takes a `resetAt` for handled whatever `requestedAt` is, so an earlier one must not stay next to a request
    # without reset.
    left = {_RESET_AT: None} if _RESET_AT in there else {}
    meta = {
        "resourceVersion": metadata(release)["resourceVersion"],
        "annotations": {**left, **desired, RETRY_SENT: format_time(now)},
    }
    return ReconcileRequest((MergePatch(ref_of(release, HELM_RELEASE), {"metadata": meta}),))


def _wait(sent: Any, now: datetime) -> float:
    """Return the seconds until the next retry request may be sent; `sent` is the time of the last one as text.

    They are 0 if `sent` is malformed, or is in the future because a clock was set back.
    """
    try:
        age = (now - datetime.fromisoformat(sent)).total_seconds()
    except (TypeError, ValueError):
        return 0.0
    return _SECONDS_BETWEEN - age if 0 <= age < _SECONDS_BETWEEN else 0.0


def retry_annotations(token: str, release: Manifest) -> dict[str, str]:
    """Return the annotations by which the HelmRelease requests the retry `token` from Flux; empty if there is none to
    write.

    While chart or values are missing, the annotations only request a reconcile, since a reset of Flux's failure counts
    would come too early. A suspended release gets no annotations. A token that Flux has handled twice without success
    is not sent a third time.
    """
    status: Mapping[str, Any] = get_path(release, "status") or {}
    if is_handled(status, token) or get_path(release, "spec", "suspend") is True:
        return {}
    if any(status.get(field) for field in COUNTED_FAILURES):
        if _is_unprepared(status):
            return {_REQUESTED_AT: token + _LOOK}
        if status.get("lastHandledReconcileAt") == token + _AGAIN:
            return {}
        if status.get("lastHandledReconcileAt") == token:
            token += _AGAIN
    return {_REQUESTED_AT: token, _RESET_AT: token}


def _is_unprepared(status: Mapping[str, Any]) -> bool:
    """Report whether Flux's `status` says that something is missing for an attempt, such as the chart or the values."""
    return any(
        get_path(condition, "type") == "Ready"
        and get_path(condition, "status") == "False"
        and get_path(condition, "reason") in _UNPREPARED
        for condition in status.get("conditions") or ()
    )

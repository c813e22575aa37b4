"""Requests to Flux for another try of a release (REC-14): the token that names a request, when it is sent, and whether
Flux has handled it.

A request consists of annotations of the HelmRelease that are patched, never applied: an earlier requester causes no
conflict, and they stay on the object. One is sent at most every ten seconds, whatever its origin.

The token is the value of the annotations `requestedAt` and `resetAt` of Flux. Flux resets its counts of failures for a
`resetAt` that equals `requestedAt`, and only at the start of an attempt. A pass that fails at the chart or the values
still handles `requestedAt`: the reset of that token is lost, and another token has to request it once the attempt can
be made.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path, metadata, ref_of
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.timestamps import format_time
from purekube.controller.decision import MergePatch
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.chart import ChartSource
from vworkspace_core.api.labels import RETRY_SENT, retry_token
from vworkspace_core.api.release_override import is_retry_request

COUNTED_FAILURES = ("failures", "installFailures", "upgradeFailures")
"""The fields of a HelmRelease's status in which Flux counts the failures of one request. A new request resets them."""

_REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
_RESET_AT = "reconcile.fluxcd.io/resetAt"
_OPERATION = "/operation/"
_AGAIN = "/again"
_LOOK = "/look"
_SECONDS_BETWEEN: Final = 10.0
_UNPREPARED = ("SourceNotReady", "ArtifactFailed", "ValuesError", "DependencyNotReady")


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
    """Report whether Flux's `status` says that the chart, the values or a dependency is missing for an attempt."""
    return any(
        get_path(condition, "type") == "Ready"
        and get_path(condition, "status") == "False"
        and get_path(condition, "reason") in _UNPREPARED
        for condition in status.get("conditions") or ()
    )

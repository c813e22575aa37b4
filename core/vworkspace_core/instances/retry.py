"""Asking Flux for another try (REC-14): the token, when to send it, and whether Flux has acted on it.

It is asked by annotations, which are a doorbell and no field that anybody owns: they are patched, never applied, so
that whoever rang before is in nobody's way, and left there. It is rung at most every ten seconds, whoever asks.

Flux resets its counts of failures for a `resetAt` that equals `requestedAt`, and at the start of an attempt only. A
pass that gets no further than the chart or the values handles `requestedAt` all the same: the reset of that token is
lost, and another token has to ask for it once the attempt can be made.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.chart import ChartSource
from vworkspace_core.api.labels import RETRY_SENT, retry_token
from vworkspace_core.api.release_override import asks_again
from vworkspace_core.apimachinery.manifest import Manifest, get_path, metadata, ref_of
from vworkspace_core.apimachinery.resources import HELM_RELEASE
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_core.controller.decision import MergePatch

COUNTED_FAILURES = ("failures", "installFailures", "upgradeFailures")
"""Fields of a HelmRelease's status that count the failures of one request, and start anew with the next."""

_REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
_RESET_AT = "reconcile.fluxcd.io/resetAt"
_OPERATION = "/operation/"
_AGAIN = "/again"
_LOOK = "/look"
_SECONDS_BETWEEN: Final = 10.0
_UNPREPARED = ("SourceNotReady", "ArtifactFailed", "ValuesError", "DependencyNotReady")


def token_of(instance: ApplicationInstance, chart: ChartSource, override: ReleaseOverride | None) -> str:
    """Who asks for another try: the annotation, an Upgrade that changes nothing by itself, or both; else empty.

    A function of what is asked for, so that it changes when something new is asked.
    """
    token = retry_token(instance.metadata) or ""
    if override is not None and asks_again(override, chart.version):
        token += f"{_OPERATION}{override.uid}"
    return token


def is_handled(status: Mapping[str, Any], token: str) -> bool:
    """Whether Flux says that it has begun an attempt for that token, or for more than it: a part may be withdrawn."""
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
class Bell:
    """The patch that asks Flux, if any, and in how many seconds it may be sent where it has to wait."""

    patches: tuple[MergePatch, ...] = ()
    wait: float | None = None


SILENT: Final = Bell()


def ring(token: str, release: Manifest | None, now: datetime) -> Bell:
    """What is to be done so that Flux acts on the token; nothing once it is asked, or says that it has."""
    if release is None or metadata(release).get("deletionTimestamp"):
        return SILENT
    wanted, there = retry_annotations(token, release), metadata(release).get("annotations") or {}
    if all(there.get(name) == value for name, value in wanted.items()):
        return SILENT
    if (wait := _wait(there.get(RETRY_SENT), now)) > 0:
        return Bell(wait=wait)
    # Flux takes a `resetAt` for handled whatever `requestedAt` is: one of before must not stand beside a mere look.
    left = {_RESET_AT: None} if _RESET_AT in there else {}
    meta = {
        "resourceVersion": metadata(release)["resourceVersion"],
        "annotations": {**left, **wanted, RETRY_SENT: format_time(now)},
    }
    return Bell((MergePatch(ref_of(release, HELM_RELEASE), {"metadata": meta}),))


def _wait(sent: Any, now: datetime) -> float:
    """Seconds until it may be rung again; none for a time that cannot be read, or that a clock set back has made."""
    try:
        age = (now - datetime.fromisoformat(sent)).total_seconds()
    except (TypeError, ValueError):
        return 0.0
    return _SECONDS_BETWEEN - age if 0 <= age < _SECONDS_BETWEEN else 0.0


def retry_annotations(token: str, release: Manifest) -> dict[str, str]:
    """What the HelmRelease is to be annotated with for that token.

    While chart or values are missing, Flux is only asked to look again: it would lose the reset. What is suspended is
    asked nothing, and what Flux has handled twice in vain is not asked a third time.
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
    """Whether Flux lacks what an attempt is made of."""
    return any(
        get_path(condition, "type") == "Ready"
        and get_path(condition, "status") == "False"
        and get_path(condition, "reason") in _UNPREPARED
        for condition in status.get("conditions") or ()
    )

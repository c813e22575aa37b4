"""Asking Flux for another try (REC-14): the token, when to send it, and whether Flux has acted on it.

Flux resets its counts of failures for a `resetAt` that equals `requestedAt`, and at the start of an attempt only. A
pass that gets no further than the chart or the values handles `requestedAt` all the same: the reset of that token is
lost, and another token has to ask for it once the attempt can be made.
"""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.kinds.application_instance import ApplicationInstance, ChartSource, ReleaseOverride
from vworkspace_core.kinds.labels import retry_token
from vworkspace_core.manifest import Manifest, dig

__all__ = ["COUNTED_FAILURES", "is_handled", "retry_annotations", "token_of"]

COUNTED_FAILURES = ("failures", "installFailures", "upgradeFailures")
"""Fields of a HelmRelease's status that count the failures of one request, and start anew with the next."""

_REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
_RESET_AT = "reconcile.fluxcd.io/resetAt"
_OPERATION = "/operation/"
_AGAIN = "/again"
_LOOK = "/look"
_UNPREPARED = ("SourceNotReady", "ArtifactFailed", "ValuesError", "DependencyNotReady")


def token_of(instance: ApplicationInstance, chart: ChartSource, override: ReleaseOverride | None) -> str:
    """Who asks for another try: the annotation, an Upgrade that changes nothing by itself, or both; else empty.

    A function of what is asked for, so that it changes when something new is asked.
    """
    token = retry_token(instance.metadata) or ""
    if override is not None and override.version in (None, chart.version) and not override.values_patch:
        token += f"{_OPERATION}{override.uid}"
    return token


def is_handled(status: Mapping[str, Any], token: str) -> bool:
    """Whether Flux says that it has begun an attempt for that token, or for more than it: a part may be withdrawn."""
    told = status.get("lastHandledResetAt")
    if not token or not isinstance(told, str):
        return not token
    told = told.removesuffix(_AGAIN)
    return told == token or told.startswith(token + _OPERATION) or (token.startswith(_OPERATION) and token in told)


def retry_annotations(token: str, release: Manifest | None) -> dict[str, str]:
    """What the live HelmRelease is to be annotated with, until Flux says that it has handled the token.

    Afterwards the annotations are given up again, so that `flux reconcile` by hand meets no conflict. While chart or
    values are missing, Flux is only asked to look again: it would lose the reset. What is suspended is asked nothing,
    and what Flux has handled twice in vain is not asked a third time.
    """
    status: Mapping[str, Any] = dig(release, "status") or {}
    if is_handled(status, token) or dig(release, "spec", "suspend") is True:
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
        dig(found, "type") == "Ready" and dig(found, "status") == "False" and dig(found, "reason") in _UNPREPARED
        for found in status.get("conditions") or ()
    )

"""Meaning of a refused write for the instance (REC-8, REC-13): conflict, terminal or transient, never ignored."""

from collections.abc import Mapping

import attrs

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    Unavailable,
)
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Failure
from purekube.controller.managed_fields import kubectl_patch
from purekube.controller.refused_writes import conflict_message, other_holders
from purekube.controller.requeue import Requeue
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import not_installed, not_permitted
from vworkspace_core.instances.blocker import Blocker


@attrs.frozen
class TransientFailure:
    """A failure that may pass: `reason` is one of Reconciling's, `message` names it and says that it is retried."""

    reason: str
    message: str
    requeue: Requeue


def meaning(
    failure: Failure, *, released_before: bool, installation: Installation = PRINTED
) -> Blocker | TransientFailure:
    """Decide whether the failure blocks the instance or is retried."""
    what, error = f"{failure.verb} {failure.ref}", failure.error
    message = safe(error.message if error.message.startswith(what) else f"{what}: {error.message}")
    match error:
        case Conflict():
            return Blocker(Reason.FIELD_CONFLICT, conflict_message(failure, error, FIELD_MANAGER), requeue=Requeue.SLOW)
        case Invalid() if leftover := _leftover(failure):
            return Blocker(Reason.FIELD_CONFLICT, leftover, requeue=Requeue.SLOW)
        case Invalid():
            return Blocker(Reason.VALIDATION_FAILED, message, stalled=True)
        case KindMissing():
            missing = not_installed([failure.ref.kind.crd_name])
            return Blocker(Reason.MISSING_DEPENDENCIES, missing, requeue=Requeue.SLOW)
        case NotFound():  # the namespace is missing: an apply creates an absent object (S-01, S-19)
            return Blocker(Reason.NAMESPACE_NOT_GATED, message)
        case Forbidden(namespace_terminating=True):
            return Blocker(Reason.NAMESPACE_NOT_GATED, f"namespace {failure.ref.namespace} is being terminated")
        case Forbidden() if error.right is not None:
            return Blocker(Reason.FORBIDDEN, not_permitted(error.right, installation), requeue=Requeue.REFUSED)
        case Forbidden():
            refused = f"{what} is not permitted: {error.message}"
            return _retried(failure, refused, Requeue.SLOW, released_before)
        case Permanent():
            return _retried(failure, message, Requeue.SLOW, released_before)
        case Stale() | AlreadyExists() | Expired() | Unavailable() | OperatorError():
            return _retried(failure, message, Requeue.BACKOFF, released_before)


def _retried(failure: Failure, message: str, requeue: Requeue, released_before: bool) -> TransientFailure:
    if failure.ref.kind != HELM_RELEASE:
        reason = Reason.CHART_SOURCE_SYNCING
    else:
        reason = Reason.HELM_RELEASE_UPGRADING if released_before else Reason.HELM_RELEASE_INSTALLING
    pace = "slow backoff, at most every five minutes" if requeue is Requeue.SLOW else "backoff"
    return TransientFailure(reason, f"{message}; tried again with {pace}", requeue)


def _leftover(failure: Failure) -> str:
    """Explain a field of `chart` left next to a `chartRef`, or the other way round; empty if that is not the cause.

    A HelmRelease may have only one of the two. A field in the other one that another manager holds stays when we stop
    applying it, and makes the object invalid: in effect a conflict.
    """
    have, want = get_path(failure.live, "spec"), get_path(failure.wanted, "spec")
    if failure.ref.kind != HELM_RELEASE or not isinstance(have, Mapping) or not isinstance(want, Mapping):
        return ""
    for old, new in (("chart", "chartRef"), ("chartRef", "chart")):
        if old in have and old not in want and new in want:
            holders = sorted(other_holders(failure.live, FIELD_MANAGER, "spec", old))
            held = ", ".join(f'"{manager}"' for manager in holders) or "nobody"
            steps = [
                {"op": "remove", "path": f"/spec/{old}"},
                {"op": "add", "path": f"/spec/{new}", "value": want[new]},
            ]
            message = f"{failure.ref}: .spec.{old}, held by field manager {held}, must give way to .spec.{new}"
            return f"{message}. To hand it back: {kubectl_patch(failure.ref, steps)}"
    return ""

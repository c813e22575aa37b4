"""Obstacles that keep the operator from applying anything for an instance: every reason of Blocked (RES-4, RES-5).

Only the first obstacle found is reported: first those of the instance itself, then names that are taken, then refused
writes (REC-8, REC-13). A refused write blocks the instance or is retried; it is never ignored. An obstacle never
changes a running release. Errors that stop a whole pass are in `purekube.controller.reconcile_error`.
"""

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
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.problems import Problem
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Failure, Requeue
from purekube.controller.managed_fields import conflict_message, kubectl_patch, other_holders
from purekube.controller.ownership import is_controlled_by
from vworkspace_core.api.admission import AdmissionSettings, check_application_instance
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.chart import is_allowed_source, is_forbidden
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.managed_namespace import closed_namespace, wrong_cluster
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import not_installed, not_permitted
from vworkspace_core.instances.context import InstanceObserved, Settings
from vworkspace_core.instances.desired import DesiredObjects, source_kind
from vworkspace_core.instances.intent import recall
from vworkspace_core.instances.naming import unimpersonated
from vworkspace_core.instances.observe import foreign_release
from vworkspace_core.instances.ownership import is_ours, name_taken


@attrs.frozen
class BlockingReason:
    """A reason of the condition Blocked; while it holds, nothing is applied.

    `requeue` says when to try again. `stalled` says that only a change of the spec can help.
    """

    reason: str
    message: str
    stalled: bool = False
    requeue: Requeue = Requeue.NO


@attrs.frozen
class TransientFailure:
    """A failure of a write that may be temporary. `reason` is a reason of the condition Reconciling.

    `message` names the failure and says that the write is retried.
    """

    reason: str
    message: str
    requeue: Requeue


def intent_blocking_reason(
    source: ApplicationInstance, observed: InstanceObserved, settings: Settings
) -> BlockingReason | None:
    """Return the first obstacle to applying `source` that can be found without looking up objects by name, or None.

    The checks are cluster, namespace, content, policy, service account, mode and missing CRDs, in this order.
    """
    return (
        _wrong_cluster(source, settings)
        or _managed_namespace(source, observed, settings)
        or _invalid(source, settings)
        or _policy(source, settings)
        or _account(source, settings)
        or _demoted(source, observed)
        or _missing(source, observed)
    )


def _wrong_cluster(source: ApplicationInstance, settings: Settings) -> BlockingReason | None:
    message = wrong_cluster(APPLICATION_INSTANCE, source.metadata, settings.cluster_id)
    return BlockingReason(Reason.WRONG_CLUSTER, message) if message else None


def _managed_namespace(
    source: ApplicationInstance, observed: InstanceObserved, settings: Settings
) -> BlockingReason | None:
    message = closed_namespace(source.metadata.namespace, observed.namespace, settings.installation)
    return BlockingReason(Reason.NAMESPACE_NOT_GATED, message) if message else None


def _invalid(source: ApplicationInstance, settings: Settings) -> BlockingReason | None:
    problems = recall(_problems, source, settings.admission)
    if not problems:
        return None
    return BlockingReason(Reason.VALIDATION_FAILED, "; ".join(str(problem) for problem in problems), stalled=True)


def _problems(source: ApplicationInstance, settings: AdmissionSettings) -> tuple[Problem, ...]:
    return check_application_instance(source, settings=settings)


def _policy(source: ApplicationInstance, settings: Settings) -> BlockingReason | None:
    chart, policy = source.spec.chart, settings.policy
    if chart is None:
        return None
    for allowed in policy.chart_source_lists:
        if not is_allowed_source(chart, allowed):
            sources, url = ", ".join(allowed), f"{chart.url.rstrip('/')}/{chart.name}"
            message = (
                f"spec.chart.url: charts may come from {sources} only (spec.policy of the Cluster), not from {url}"
            )
            return BlockingReason(Reason.POLICY_DENIED, message)
    if is_forbidden(chart.name, chart.version, policy):
        message = f"spec.chart.version: {chart.version} of {chart.name} is forbidden here (spec.policy of the Cluster)"
        return BlockingReason(Reason.POLICY_DENIED, f"{message}: choose another version")
    return None


def _account(source: ApplicationInstance, settings: Settings) -> BlockingReason | None:
    message = unimpersonated(source.spec.release, settings)
    return BlockingReason(Reason.POLICY_DENIED, message) if message else None


def _demoted(source: ApplicationInstance, observed: InstanceObserved) -> BlockingReason | None:
    """Return the obstacle that `source` became a placeholder (an instance without a release) while it may still own a
    release.

    Return None if there is no such obstacle (RES-1, REC-14).
    """
    if source.spec.mode is not Mode.PLACEHOLDER:
        return None
    uid = source.metadata.uid
    owned = any(ref.kind == HELM_RELEASE and is_controlled_by(live, uid) for ref, live in observed.objects.items())
    if not owned and source.status.helm_release_ref is None:
        return None
    message = (
        "spec.mode: a managed instance cannot become a placeholder while it owns a release; delete and recreate it"
    )
    return BlockingReason(Reason.VALIDATION_FAILED, message, stalled=True)


def without_chart() -> BlockingReason:
    """Return the obstacle of a managed instance that lacks a chart or release. Admission refuses such instances."""
    return BlockingReason(Reason.MISSING_CHART_SOURCE, "spec.chart, spec.release: required when managed", stalled=True)


def needed_kinds(source: ApplicationInstance) -> tuple[Kind, ...]:
    """Return the kinds that must be installed for this instance: HelmRelease and the kind of its chart source."""
    if source.spec.mode is Mode.PLACEHOLDER or source.spec.chart is None:
        return ()
    return (source_kind(source.spec.chart), HELM_RELEASE)


def _missing(source: ApplicationInstance, observed: InstanceObserved) -> BlockingReason | None:
    missing = [kind.crd_name for kind in needed_kinds(source) if kind in observed.missing_kinds]
    if not missing:
        return None
    return BlockingReason(Reason.MISSING_DEPENDENCIES, not_installed(missing), requeue=Requeue.SLOW)


def name_blocking_reason(
    source: ApplicationInstance, desired: DesiredObjects, observed: InstanceObserved
) -> BlockingReason | None:
    """Return the obstacle that an object of another owner already has a desired name, or None if no such object exists.

    An apply would silently take over that object (REC-4). The HelmRelease is checked first, because two instances with
    the same release collide on it.
    """
    for apply in reversed(desired.applies):
        live = observed.objects.get(apply.ref)
        if live is not None and not is_ours(live, source):
            return BlockingReason(Reason.NAME_TAKEN, name_taken(apply.ref, live, source), requeue=Requeue.SLOW)
    message = foreign_release(source, observed)
    return BlockingReason(Reason.NAME_TAKEN, message, requeue=Requeue.SLOW) if message else None


def meaning(
    failure: Failure, *, released_before: bool, installation: Installation = PRINTED
) -> BlockingReason | TransientFailure:
    """Return what a refused write means for the instance.

    The result is a `TransientFailure` if the write is to be retried, and a `BlockingReason` otherwise.
    `released_before` says that a release of the instance was deployed before: the reason is then that of an upgrade,
    not of an installation. `installation` is used for the help in messages about missing rights.
    """
    what, error = f"{failure.verb} {failure.ref}", failure.error
    message = safe(error.message if error.message.startswith(what) else f"{what}: {error.message}")
    match error:
        case Conflict():
            return BlockingReason(
                Reason.FIELD_CONFLICT, conflict_message(failure, error, FIELD_MANAGER), requeue=Requeue.SLOW
            )
        case Invalid() if leftover := _leftover(failure):
            return BlockingReason(Reason.FIELD_CONFLICT, leftover, requeue=Requeue.SLOW)
        case Invalid():
            return BlockingReason(Reason.VALIDATION_FAILED, message, stalled=True)
        case KindMissing():
            missing = not_installed([failure.ref.kind.crd_name])
            return BlockingReason(Reason.MISSING_DEPENDENCIES, missing, requeue=Requeue.SLOW)
        case NotFound():  # the namespace is missing: an apply creates an absent object (S-01, S-19)
            return BlockingReason(Reason.NAMESPACE_NOT_GATED, message)
        case Forbidden(namespace_terminating=True):
            return BlockingReason(Reason.NAMESPACE_NOT_GATED, f"namespace {failure.ref.namespace} is being terminated")
        case Forbidden() if error.right is not None:
            return BlockingReason(Reason.FORBIDDEN, not_permitted(error.right, installation), requeue=Requeue.REFUSED)
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
    pace = "every minute" if requeue is Requeue.SLOW else "with backoff"
    return TransientFailure(reason, f"{message}; tried again {pace}", requeue)


def _leftover(failure: Failure) -> str:
    """Return a message if `failure` was caused by a HelmRelease that has both `chart` and `chartRef`, of which only one
    may be set. Return "" for any other failure.

    The operator applies only one of the two. The other stays in the object if another field manager owns it, so this is
    in effect a field conflict.
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

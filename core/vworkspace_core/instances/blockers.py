"""Obstacles that keep the operator from applying anything for an instance: the reasons of Blocked (RES-4, RES-5).

The first blocker found is reported. A blocker never changes a running release.
"""

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.problems import Problem
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.ownership import is_controlled_by
from purekube.controller.requeue import Requeue
from vworkspace_core.api.admission import AdmissionSettings, check_application_instance
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.gating import closed_namespace, wrong_cluster
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.policy import is_allowed_source, is_forbidden
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import not_installed
from vworkspace_core.instances.blocker import Blocker
from vworkspace_core.instances.context import InstanceObserved, Settings
from vworkspace_core.instances.desired import DesiredObjects, source_kind
from vworkspace_core.instances.helm_storage import foreign_release
from vworkspace_core.instances.intent import Intent, remembered
from vworkspace_core.instances.ownership import is_ours, name_taken
from vworkspace_core.instances.service_accounts import account_blocker


def intent_blocker(source: ApplicationInstance, observed: InstanceObserved, settings: Settings) -> Blocker | None:
    """Return the first blocker that needs no names: cluster, namespace, content, policy, placeholder, missing kinds."""
    return (
        _wrong_cluster(source, settings)
        or _gate(source, observed)
        or _invalid(source, settings)
        or _policy(source, settings)
        or account_blocker(source.spec.release, settings)
        or _demoted(source, observed)
        or _missing(source, observed)
    )


def _wrong_cluster(source: ApplicationInstance, settings: Settings) -> Blocker | None:
    message = wrong_cluster(APPLICATION_INSTANCE, source.metadata, settings.cluster_id)
    return Blocker(Reason.WRONG_CLUSTER, message) if message else None


def _gate(source: ApplicationInstance, observed: InstanceObserved) -> Blocker | None:
    message = closed_namespace(source.metadata.namespace, observed.namespace)
    return Blocker(Reason.NAMESPACE_NOT_GATED, message) if message else None


def _invalid(source: ApplicationInstance, settings: Settings) -> Blocker | None:
    problems = _problems(Intent(source), settings.admission)
    if not problems:
        return None
    return Blocker(Reason.VALIDATION_FAILED, "; ".join(str(problem) for problem in problems), stalled=True)


@remembered
def _problems(intent: Intent, settings: AdmissionSettings) -> tuple[Problem, ...]:
    """Return the problems that admission finds."""
    return check_application_instance(intent.instance, settings=settings)


def _policy(source: ApplicationInstance, settings: Settings) -> Blocker | None:
    chart, policy = source.spec.chart, settings.policy
    if chart is None:
        return None
    for allowed in policy.chart_source_lists:
        if not is_allowed_source(chart, allowed):
            sources, url = ", ".join(allowed), f"{chart.url.rstrip('/')}/{chart.name}"
            message = (
                f"spec.chart.url: charts may come from {sources} only (spec.policy of the Cluster), not from {url}"
            )
            return Blocker(Reason.POLICY_DENIED, message)
    if is_forbidden(chart.name, chart.version, policy):
        message = f"spec.chart.version: {chart.version} of {chart.name} is forbidden here (spec.policy of the Cluster)"
        return Blocker(Reason.POLICY_DENIED, f"{message}: choose another version")
    return None


def _demoted(source: ApplicationInstance, observed: InstanceObserved) -> Blocker | None:
    """Refuse a placeholder that was managed and owns, or may own, a release (RES-1, REC-14)."""
    if source.spec.mode is not Mode.PLACEHOLDER:
        return None
    uid = source.metadata.uid
    owned = any(ref.kind == HELM_RELEASE and is_controlled_by(live, uid) for ref, live in observed.objects.items())
    if not owned and source.status.helm_release_ref is None:
        return None
    message = (
        "spec.mode: a managed instance cannot become a placeholder while it owns a release; delete and recreate it"
    )
    return Blocker(Reason.VALIDATION_FAILED, message, stalled=True)


def needed_kinds(source: ApplicationInstance) -> tuple[Kind, ...]:
    """Return the downstream kinds that must be installed for this instance."""
    if source.spec.mode is Mode.PLACEHOLDER or source.spec.chart is None:
        return ()
    return (source_kind(source.spec.chart), HELM_RELEASE)


def _missing(source: ApplicationInstance, observed: InstanceObserved) -> Blocker | None:
    missing = [kind.crd_name for kind in needed_kinds(source) if kind in observed.missing_kinds]
    if not missing:
        return None
    return Blocker(Reason.MISSING_DEPENDENCIES, not_installed(missing), requeue=Requeue.SLOW)


def name_blocker(source: ApplicationInstance, desired: DesiredObjects, observed: InstanceObserved) -> Blocker | None:
    """Return the blocker of a wanted name that is neither free nor ours: apply would silently take it over (REC-4).

    The HelmRelease is checked first: two instances with the same release collide on it.
    """
    for apply in reversed(desired.applies):
        live = observed.objects.get(apply.ref)
        if live is not None and not is_ours(live, source):
            return Blocker(Reason.NAME_TAKEN, name_taken(apply.ref, live, source), requeue=Requeue.SLOW)
    return foreign_release(source, observed)

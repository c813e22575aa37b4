"""What keeps the operator from applying anything for an instance: the reasons of Blocked (RES-4, RES-5).

The first barrier that stands is the one that is named. A barrier never changes what is running.
"""

from functools import lru_cache
from typing import Protocol

from vworkspace_core.kinds.admission import AdmissionSettings, Problem, check_application_instance
from vworkspace_core.kinds.application_instance import ApplicationInstance, Mode
from vworkspace_core.kinds.cures import gate_command, not_installed
from vworkspace_core.kinds.labels import (
    CLUSTER_ID,
    NAMESPACE_GATE,
    NAMESPACE_GATE_VALUE,
    bounded_name,
    cluster_id_of,
    namespace_is_gated,
    namespace_is_terminating,
)
from vworkspace_core.kinds.meta import Condition, ObjectMeta
from vworkspace_core.kinds.reasons import InstanceConditionType as Type
from vworkspace_core.kinds.reasons import InstanceReason as Reason
from vworkspace_core.known import HELM_RELEASE
from vworkspace_core.manifest import Kind, Manifest
from vworkspace_core.reconcile.accounts import account_barrier
from vworkspace_core.reconcile.barrier import Barrier
from vworkspace_core.reconcile.decision import Observed, Requeue, Settings
from vworkspace_core.reconcile.desired import Desired, source_kind
from vworkspace_core.reconcile.ownership import is_controlled_by, is_ours, stranger
from vworkspace_core.reconcile.policy import is_allowed_source, is_forbidden
from vworkspace_core.reconcile.records import foreign_release

__all__ = [
    "Barrier",
    "Claimable",
    "claimed_by_another_operator",
    "closed_namespace",
    "intent_barrier",
    "name_barrier",
    "needed_kinds",
    "wrong_cluster",
]


def intent_barrier(source: ApplicationInstance, observed: Observed, settings: Settings) -> Barrier | None:
    """Cluster, namespace, content, policy, placeholder contract, installed kinds: everything before names."""
    return (
        _wrong_cluster(source, settings)
        or _gate(source, observed)
        or _invalid(source, settings)
        or _policy(source, settings)
        or account_barrier(source.spec.release, settings)
        or _demoted(source, observed)
        or _missing(source, observed)
    )


def _wrong_cluster(source: ApplicationInstance, settings: Settings) -> Barrier | None:
    told = wrong_cluster(source.metadata, settings.cluster_id)
    return Barrier(Reason.WRONG_CLUSTER, told) if told else None


def wrong_cluster(meta: ObjectMeta, cluster_id: str) -> str:
    """Why an object is none of this cluster's; empty when it is one."""
    meant = cluster_id_of(meta)
    if meant == bounded_name(cluster_id):
        return ""
    if meant is None:
        return f'the label {CLUSTER_ID} is missing; this cluster is "{cluster_id}"'
    return f'the object is meant for cluster "{meant}"; this cluster is "{cluster_id}"'


class _Status(Protocol):
    @property
    def conditions(self) -> tuple[Condition, ...]: ...


class Claimable(Protocol):
    """One of our own kinds, with a status that tells who wrote it."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""
        ...

    @property
    def status(self) -> _Status:
        """Its status."""
        ...


class _OfCluster(Protocol):
    @property
    def cluster_id(self) -> str: ...


def claimed_by_another_operator(source: Claimable, settings: _OfCluster) -> bool:
    """Whether a foreign cluster's operator may own the object: then not even its status is ours to write (RES-5).

    Its status tells: one that holds conditions, other than a WrongCluster of our own making, was written by the
    operator the object is meant for.
    """
    if cluster_id_of(source.metadata) in (None, bounded_name(settings.cluster_id)):
        return False
    conditions = {condition.type: condition for condition in source.status.conditions}
    mark = conditions.get(Type.BLOCKED)
    own_mark = mark is not None and mark.reason == Reason.WRONG_CLUSTER and f'"{settings.cluster_id}"' in mark.message
    return bool(conditions) and not own_mark


def _gate(source: ApplicationInstance, observed: Observed) -> Barrier | None:
    told = closed_namespace(source.metadata.namespace, observed.namespace)
    return Barrier(Reason.NAMESPACE_NOT_GATED, told) if told else None


def closed_namespace(name: str, namespace: Manifest | None) -> str:
    """Why nothing may be created in the namespace; empty when something may."""
    if namespace_is_terminating(namespace):
        return f"namespace {name} is being terminated: nothing new can be created in it"
    if namespace_is_gated(namespace):
        return ""
    return f"namespace {name} does not carry the label {NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}: {gate_command(name)}"


def _invalid(source: ApplicationInstance, settings: Settings) -> Barrier | None:
    problems = _problems(_TheVery(source), settings.admission)
    if not problems:
        return None
    return Barrier(Reason.VALIDATION_FAILED, "; ".join(str(problem) for problem in problems), stalled=True)


class _TheVery:
    """An instance by identity: passes that follow one another often decide on the very same one."""

    __slots__ = ("instance",)

    def __init__(self, instance: ApplicationInstance) -> None:
        self.instance = instance

    def __hash__(self) -> int:
        return id(self.instance)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TheVery) and self.instance is other.instance


@lru_cache(maxsize=64)
def _problems(source: _TheVery, settings: AdmissionSettings) -> tuple[Problem, ...]:
    """What admission says, remembered: a fifth of a decision, and the same each time."""
    return check_application_instance(source.instance, settings=settings)


def _policy(source: ApplicationInstance, settings: Settings) -> Barrier | None:
    chart, policy = source.spec.chart, settings.policy
    if chart is None:
        return None
    for allowed in policy.chart_source_lists:
        if not is_allowed_source(chart, allowed):
            sources, found = ", ".join(allowed), f"{chart.url.rstrip('/')}/{chart.name}"
            told = f"spec.chart.url: charts may come from {sources} only (spec.policy of the Cluster), not from {found}"
            return Barrier(Reason.POLICY_DENIED, told)
    if is_forbidden(chart.name, chart.version, policy):
        told = f"spec.chart.version: {chart.version} of {chart.name} is forbidden here (spec.policy of the Cluster)"
        return Barrier(Reason.POLICY_DENIED, f"{told}: choose another version")
    return None


def _demoted(source: ApplicationInstance, observed: Observed) -> Barrier | None:
    """A managed instance never becomes a placeholder while a release is or may be owned (RES-1, REC-14)."""
    if source.spec.mode is not Mode.PLACEHOLDER:
        return None
    uid = source.metadata.uid
    owned = any(ref.kind == HELM_RELEASE and is_controlled_by(live, uid) for ref, live in observed.objects.items())
    if not owned and source.status.helm_release_ref is None:
        return None
    told = "spec.mode: a managed instance cannot become a placeholder while it owns a release; delete and recreate it"
    return Barrier(Reason.VALIDATION_FAILED, told, stalled=True)


def needed_kinds(source: ApplicationInstance) -> tuple[Kind, ...]:
    """The downstream kinds that have to be installed for this instance."""
    if source.spec.mode is Mode.PLACEHOLDER or source.spec.chart is None:
        return ()
    return (source_kind(source.spec.chart), HELM_RELEASE)


def _missing(source: ApplicationInstance, observed: Observed) -> Barrier | None:
    missing = [kind.crd_name for kind in needed_kinds(source) if kind in observed.missing_kinds]
    if not missing:
        return None
    return Barrier(Reason.MISSING_DEPENDENCIES, not_installed(missing), requeue=Requeue.SLOW)


def name_barrier(source: ApplicationInstance, desired: Desired, observed: Observed) -> Barrier | None:
    """Every name that we want must be free or ours: server-side apply alone would take it over silently (REC-4).

    The HelmRelease's first: it is what two instances with the same release quarrel about.
    """
    for apply in reversed(desired.applies):
        live = observed.objects.get(apply.ref)
        if live is not None and not is_ours(live, source):
            return Barrier(Reason.NAME_TAKEN, stranger(apply.ref, live, source), requeue=Requeue.SLOW)
    return foreign_release(source, observed)

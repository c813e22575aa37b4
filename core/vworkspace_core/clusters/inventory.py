"""The input from which the status of a Cluster object is decided (RUN-12).

It consists of reports on the agent and the caches, and of the settings that are weaker than recommended.

A controller that the operator relies on counts as missing if a CRD of its kinds is missing, and only if instances need
it: a missing engine (a controller such as Velero that carries out Operations) is no fault of the cluster (an Operation
that requires it reports that). It counts as degraded if the operator cannot watch its kinds: their informer has failed
several times in a row, which takes at least half a minute, so that a passing failure changes nothing. A missing right
is named, with the command that grants it. The controller's pods are not checked: only its objects show whether they
work.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from purekube.apimachinery import resources as known
from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import refused_right
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.timestamps import Instant
from purekube.controller.decision import Snapshot
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.api.remedies import FLUX, crds_remedy, not_permitted
from vworkspace_core.control_plane.connection import ConnectionState
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.approvals import are_lowered
from vworkspace_core.operations.engines import ENGINES
from vworkspace_core.operations.settings import OperationSettings

_OPERATOR: Final = "vworkspace-operator"
IN_A_ROW: Final = 6
"""The number of consecutive failures of an informer from which its controller counts as degraded.

With the informer's backoff this takes half a minute.
"""
_MOST_NAMES = 5
_PAGE = "docs/security.md tells what each means"


@attrs.frozen
class InformerReport:
    """The state of one kind's informer. `trouble` is the error message of the last failure, empty if there is none.

    `served` says that the API server serves the kind. `failures` counts consecutive failures.
    """

    served: bool = True
    failures: int = 0
    trouble: str = ""


@attrs.frozen
class _Controller:
    name: str
    kinds: tuple[Kind, ...]
    install: str = ""
    """The project to install for a controller that instances need; empty for one that only Operations need."""


_SOURCES: Final = (known.OCI_REPOSITORY, known.HELM_REPOSITORY, known.HELM_CHART)
FLUX_KINDS: Final = (known.HELM_RELEASE, *_SOURCES)
"""The kinds of Flux whose CRDs must be installed before any instance can be deployed."""
_CONTROLLERS: Final = (
    _Controller("source-controller", _SOURCES, FLUX),
    _Controller("helm-controller", (known.HELM_RELEASE,), FLUX),
    *(
        _Controller(engine.controller.name, engine.controller.definitions)
        for engine in ENGINES.values()
        if engine.controller is not None and engine.controller.install != FLUX
    ),
)
_FLUX_CONTROLLERS: Final = tuple(
    attrs.evolve(each, install=f"install {each.install}") for each in _CONTROLLERS if each.install
)
_NAMES: Final = {kind: controller.name for controller in _CONTROLLERS for kind in controller.kinds} | dict.fromkeys(
    own_kinds.OWN_KINDS, _OPERATOR
)
"""The name of the controller that reconciles each kind."""


def installed_engines(watched: Mapping[Kind, InformerReport]) -> tuple[str, ...]:
    """Return the names of the engines (such as `velero`) whose kinds the API server serves, in alphabetical order.

    `watched` has the states of all informers by kind.
    """
    return tuple(
        name
        for name, engine in sorted(ENGINES.items())
        if engine.controller is None or all(_served(watched, kind) for kind in engine.controller.definitions)
    )


def controllers_condition(
    watched: Mapping[Kind, InformerReport], installation: Installation = PRINTED
) -> DesiredCondition:
    """Return the condition ControllersHealthy of the Cluster object from `watched`, the states of all informers by
    kind.

    Its reason is about missing controllers if there are any, or else about degraded controllers. Its message names all
    missing and degraded controllers. `installation` decides how the message says to grant a missing right.
    """
    missing, degraded = list(_missing(watched, installation)), list(_degraded(watched, installation))
    message = ". ".join((*missing, *degraded))
    kind = ClusterConditionType.CONTROLLERS_HEALTHY
    if missing:
        return DesiredCondition(kind, ConditionStatus.FALSE, ClusterReason.CONTROLLER_MISSING, message)
    if degraded:
        return DesiredCondition(kind, ConditionStatus.FALSE, ClusterReason.CONTROLLER_DEGRADED, message)
    return DesiredCondition(kind, ConditionStatus.TRUE, ClusterReason.ALL_CONTROLLERS_READY)


def _missing(watched: Mapping[Kind, InformerReport], installation: Installation) -> Iterator[str]:
    own = _Controller(_OPERATOR, own_kinds.OWN_KINDS, crds_remedy(installation))
    for controller in (own, *_FLUX_CONTROLLERS):
        if absent := [kind.crd_name for kind in controller.kinds if not _served(watched, kind)]:
            yield f"{controller.name}: {', '.join(absent)} not installed. To fix: {controller.install}"


def _degraded(watched: Mapping[Kind, InformerReport], installation: Installation) -> Iterator[str]:
    troubles = {kind: each.trouble for kind, each in watched.items() if each.served and each.failures >= IN_A_ROW}
    for kind, trouble in sorted(troubles.items()):
        if trouble:
            right = refused_right(trouble)
            message = trouble if right is None else not_permitted(right, installation)
            yield f"{_NAMES.get(kind, 'kube-apiserver')}: {kind.kind} cannot be watched: {message}"


def _served(watched: Mapping[Kind, InformerReport], kind: Kind) -> bool:
    return kind in watched and watched[kind].served


@attrs.frozen
class WeakSettings:
    """The settings of this cluster that are weaker than recommended.

    `settings` are sentences, one per setting. `unguarded` are managed namespaces without Pod Security. `unsigned` says
    that jobs of the control plane are accepted without a signature.
    """

    settings: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()
    unsigned: bool = False
    any_chart_source: bool = False


def hardened_condition(weak_settings: WeakSettings) -> DesiredCondition:
    """Return the condition Hardened of the Cluster object.

    It is True if there is no weak setting, and False otherwise, with every weak setting in its message.
    """
    findings = [*weak_settings.settings, *_policy_findings(weak_settings)]
    if not findings:
        return DesiredCondition(Type.HARDENED, ConditionStatus.TRUE, Reason.NOTHING_OPEN)
    return DesiredCondition(
        Type.HARDENED, ConditionStatus.FALSE, _reason(weak_settings), f"{'; '.join(findings)}. {_PAGE}"
    )


def _reason(weak_settings: WeakSettings) -> Reason:
    """Return the reason of the condition Hardened, for the most severe of the weak settings.

    The condition's message names that setting first.
    """
    if weak_settings.settings:
        return Reason.OPEN_SETTINGS
    if weak_settings.any_chart_source or weak_settings.unsigned:
        return Reason.OPEN_POLICY
    return Reason.UNGUARDED_NAMESPACES


def _policy_findings(weak_settings: WeakSettings) -> Iterator[str]:
    if weak_settings.any_chart_source:
        yield (
            "charts may come from anywhere: name their registries in spec.policy.allowedChartSources of a Cluster, or "
            "by --allowed-chart-sources"
        )
    if weak_settings.unsigned:
        yield (
            "jobs are taken without a signature: put the control plane's signing-public-key into the credentials "
            "Secret, and require it by spec.security.requireSignedPayloads or --job-signatures=required"
        )
    if weak_settings.unguarded:
        names = _few(weak_settings.unguarded)
        yield (
            f"managed namespaces without Pod Security: {names} (label them "
            "pod-security.kubernetes.io/enforce=baseline, once their pods keep to it)"
        )


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def weak_settings_of_cluster(
    settings: Iterable[str], unguarded: Iterable[str], policy: Policy, *, unsigned: bool
) -> WeakSettings:
    """Return the weak settings of this cluster.

    `settings` are sentences about settings, `unguarded` the managed namespaces without Pod Security. `unsigned` says
    that unsigned jobs of the control plane are accepted. `policy` shows whether charts may come from any source.
    """
    return WeakSettings(tuple(settings), tuple(sorted(unguarded)), unsigned, not policy.chart_source_lists)


WINDOW_SECONDS: Final = 300.0
DAMPING_SECONDS: Final = 10.0


@attrs.frozen
class PendingDeliveries:
    """The numbers of messages that wait to be sent to the control plane: results of jobs, status reports of jobs, and
    events.

    Acknowledgements of jobs count as results. `dropped` is the number of events lost since the buffer was last empty.
    """

    results: int = 0
    statuses: int = 0
    events: int = 0
    dropped: int = 0

    def __str__(self) -> str:
        kinds = {"acks and results": self.results, "statuses": self.statuses, "events": self.events}
        waiting = ", ".join(f"{what} {count}" for what, count in kinds.items() if count)
        parts = {"waiting": waiting, "dropped": f"events {self.dropped}" if self.dropped else ""}
        return "; ".join(f"{what}: {counts}" for what, counts in parts.items() if counts)


@attrs.frozen
class AgentReport:
    """The state of the connection between the operator's agent and the control plane. `overflow` is the condition
    BufferOverflow of its buffer of events.

    `apart` says by how much the clocks of control plane and operator differ, if too much; it is empty otherwise.
    `unrecorded` says why jobs wait to be recorded in the cluster; it is empty if none does.
    """

    connection: ConnectionState
    started: Instant
    overflow: DesiredCondition
    pending: PendingDeliveries = PendingDeliveries()
    apart: str = ""
    unrecorded: str = ""

    @property
    def quiet_since(self) -> Instant:
        """The time of the last successful call to the control plane, or of the agent's start if there was none."""
        return self.connection.last_ok or self.started


@attrs.frozen(kw_only=True)
class ClusterInventory(Snapshot):
    """The state of the operator at one moment, for a decision about the Cluster status.

    Times are monotonic, so that steps of the wall clock have no effect. After `window` seconds without any successful
    call to the control plane, the cluster counts as disconnected. After `damping` seconds of failed polls, the
    condition Connected becomes False. `written` is when this process last wrote the status, None if it has not.
    `credentials_secret` is empty if the credential comes from a file. `agent` is None if the operator runs without a
    job agent (SEE-4).
    """

    cluster_id: str
    now: Instant
    agent: AgentReport | None
    window: float = WINDOW_SECONDS
    damping: float = DAMPING_SECONDS
    watched: Mapping[Kind, InformerReport] = attrs.field(factory=dict)
    namespaces: tuple[str, ...] = ()
    operator_version: str = ""
    credentials_secret: str = ""
    credential_expires: datetime | None = None
    written: Instant | None = None
    weak_settings: WeakSettings = attrs.field(factory=WeakSettings)
    installation: Installation = PRINTED


def weak_settings_of(
    decisions: Settings, operations: OperationSettings, required_bindings: frozenset[str]
) -> Iterator[str]:
    """Yield a sentence for each setting that is too weak for a cluster with several tenants, with its consequence.

    `decisions` are the settings for instances, `operations` those for Operations. `required_bindings` are the fields,
    such as the namespace, that an approval must have so that it is valid for one Operation only.
    """
    if not decisions.default_service_account and decisions.allow_unimpersonated_releases:
        yield "--allow-unimpersonated-releases: charts are installed with Flux's own rights"
    if not operations.allowed_images:
        yield "--allowed-images is empty: Operations may run any image"
    if are_lowered(required_bindings):
        yield "--required-claim-bindings lacks ns or params: an approval can be used for something else"
    if decisions.admission.allow_http:
        yield "--allow-http: charts may come over plain http://"

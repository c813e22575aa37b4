"""The input from which the status of a Cluster object is decided (RUN-12).

It consists of reports on the agent and the caches, and of the settings that are weaker than recommended.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.timestamps import Instant
from purekube.controller.decision import Snapshot
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason
from vworkspace_core.clusters.controllers import InformerReport
from vworkspace_core.control_plane.connection import ConnectionState

_MOST_NAMES = 5
_PAGE = "docs/security.md tells what each means"


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
            f"gated namespaces without Pod Security: {names} (label them pod-security.kubernetes.io/enforce=baseline, "
            "once their pods keep to it)"
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

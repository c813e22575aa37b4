"""Weak settings of this installation: openings for tenants, or between it and its control plane (RUN-12).

Each is a setting that was chosen, or not closed yet; the Cluster names them with the remedy.
"""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.policy import Policy
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason

_MOST_NAMES = 5
_PAGE = "docs/security.md tells what each means"


@attrs.frozen
class WeakSettings:
    """The weak settings.

    `settings` are sentences, one per setting; `unguarded` are gated namespaces without Pod Security; `unsigned`: jobs
    are accepted without a signature.
    """

    settings: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()
    unsigned: bool = False
    any_chart_source: bool = False


def hardened_condition(weak_settings: WeakSettings) -> DesiredCondition:
    """Return the condition Hardened, with every weak setting in its message."""
    findings = [*weak_settings.settings, *_policy_findings(weak_settings)]
    if not findings:
        return DesiredCondition(Type.HARDENED, ConditionStatus.TRUE, Reason.NOTHING_OPEN)
    return DesiredCondition(
        Type.HARDENED, ConditionStatus.FALSE, _reason(weak_settings), f"{'; '.join(findings)}. {_PAGE}"
    )


def _reason(weak_settings: WeakSettings) -> Reason:
    """Return the reason of the most severe finding, with which the message begins."""
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
    """Collect all weak settings of this cluster."""
    return WeakSettings(tuple(settings), tuple(sorted(unguarded)), unsigned, not policy.chart_source_lists)

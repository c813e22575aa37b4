"""Weak settings of this installation: openings for tenants, or between it and its control plane (RUN-12).

Each is a setting that was chosen, or not closed yet; the Cluster names them with the remedy.
"""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from purekube.apimachinery.conditions import Wanted
from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.policy import Policy
from vworkspace_core.api.reasons import ClusterConditionType as Type
from vworkspace_core.api.reasons import ClusterReason as Reason

_MOST_NAMES = 5
_PAGE = "docs/security.md tells what each means"


@attrs.frozen
class Exposure:
    """The weak settings.

    `settings` are sentences, one per setting; `unguarded` are gated namespaces without Pod Security; `unsigned`: jobs
    are accepted without a signature.
    """

    settings: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()
    unsigned: bool = False
    any_chart_source: bool = False


def hardened_condition(exposure: Exposure) -> Wanted:
    """Return the condition Hardened, with every weak setting in its message."""
    openings = [*exposure.settings, *_beside(exposure)]
    if not openings:
        return Wanted(Type.HARDENED, ConditionStatus.TRUE, Reason.NOTHING_OPEN)
    return Wanted(Type.HARDENED, ConditionStatus.FALSE, _reason(exposure), f"{'; '.join(openings)}. {_PAGE}")


def _reason(exposure: Exposure) -> Reason:
    """Return the reason of the most severe finding, with which the message begins."""
    if exposure.settings:
        return Reason.OPEN_SETTINGS
    if exposure.any_chart_source or exposure.unsigned:
        return Reason.OPEN_POLICY
    return Reason.UNGUARDED_NAMESPACES


def _beside(exposure: Exposure) -> Iterator[str]:
    if exposure.any_chart_source:
        yield (
            "charts may come from anywhere: name their registries in spec.policy.allowedChartSources of a Cluster, or "
            "by --allowed-chart-sources"
        )
    if exposure.unsigned:
        yield (
            "jobs are taken without a signature: put the control plane's signing-public-key into the credentials "
            "Secret, and require it by spec.security.requireSignedPayloads or --job-signatures=required"
        )
    if exposure.unguarded:
        names = _few(exposure.unguarded)
        yield (
            f"gated namespaces without Pod Security: {names} (label them pod-security.kubernetes.io/enforce=baseline, "
            "once their pods keep to it)"
        )


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def exposure(settings: Iterable[str], unguarded: Iterable[str], policy: Policy, *, unsigned: bool) -> Exposure:
    """Return all weak settings together."""
    return Exposure(tuple(settings), tuple(sorted(unguarded)), unsigned, not policy.chart_source_lists)

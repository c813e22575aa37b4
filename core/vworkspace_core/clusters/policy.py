"""The policy of a cluster, from every Cluster object of its id: the strictest of each rule counts (RES-3)."""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from purekube.apimachinery.manifest import get_path
from vworkspace_core.api.policy import Policy


def strictest_policy(base: Policy, clusters: Iterable[bytes], cluster_id: str) -> Policy:
    """Combine `base` with the Cluster objects of this id, as JSON and in any order; each can only narrow it.

    A deleted one no longer counts: only an administrator of the cluster may delete it.
    """
    return _together(
        base, frozenset(policy for cluster in clusters if (policy := _policy_of(cluster, cluster_id)) is not None)
    )


@lru_cache(maxsize=16)
def _together(base: Policy, policies: frozenset[Policy]) -> Policy:
    ordered = (base, *sorted(policies))
    lists = dict.fromkeys(sources for policy in ordered for sources in policy.chart_source_lists)
    forbidden = dict.fromkeys(version for policy in ordered for version in policy.forbidden_versions)
    first, *further = lists or ((),)
    return Policy(first, tuple(forbidden), tuple(further))


@lru_cache(maxsize=64)
def _policy_of(cluster: bytes, cluster_id: str) -> Policy | None:
    """Return one Cluster's policy, None for another id; cached, since every decision reads it and it seldom changes."""
    spec = get_path(msgspec.json.decode(cluster), "spec")
    if get_path(spec, "clusterId") != cluster_id:
        return None
    return Policy(
        _texts(get_path(spec, "policy", "allowedChartSources")), _texts(get_path(spec, "policy", "forbiddenVersions"))
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(sorted(text for text in value if isinstance(text, str))) if isinstance(value, list) else ()

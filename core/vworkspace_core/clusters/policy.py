"""The policy of a cluster, out of every Cluster object of its id: the strictest of each rule counts (RES-3)."""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from vworkspace_core.api.policy import Policy
from vworkspace_core.apimachinery.manifest import get_path


def strictest_policy(base: Policy, clusters: Iterable[bytes], cluster_id: str) -> Policy:
    """`base` and what the Cluster objects of this id say, as JSON and in any order; each can only narrow it.

    One that somebody deletes no longer says anything: who may do that is the cluster's administrator.
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
    """What one Cluster says, None for another cluster's; asked in every decision, of an object that seldom changes."""
    spec = get_path(msgspec.json.decode(cluster), "spec")
    if get_path(spec, "clusterId") != cluster_id:
        return None
    return Policy(
        _texts(get_path(spec, "policy", "allowedChartSources")), _texts(get_path(spec, "policy", "forbiddenVersions"))
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(sorted(text for text in value if isinstance(text, str))) if isinstance(value, list) else ()

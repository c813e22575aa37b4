"""The queries of the dashboard in PromQL, restricted to the namespaces that its reader chose."""

from typing import Final

_OURS: Final = 'namespace=~"$namespace"'
_SHARDS: Final = "vworkspace_operator_shard_info"
"""The metric, 1 on each replica, whose label `shard` is missing in the metrics that count objects."""


def rate(metric: str, *by: str, where: str = "") -> str:
    """Return the growth of a counter per second, summed by labels. `where` adds further matchers."""
    return f"sum by ({', '.join(by)}) (rate({metric}{{{_labels(where)}}}[$__rate_interval]))"


def quantile(share: str, metric: str, *by: str) -> str:
    """Return the value of a histogram that this share of observations does not exceed, by labels."""
    return f"histogram_quantile({share}, {rate(metric + '_bucket', *by, 'le')})"


def gauge(metric: str, how: str, *by: str, where: str = "") -> str:
    """Return a gauge, aggregated by labels with `how`: max, min, sum, count."""
    return f"{how} by ({', '.join(by)}) ({metric}{{{_labels(where)}}})"


def total(metric: str, *by: str, where: str = "") -> str:
    """Return a number of objects, by labels: the sum over the shards, whose replicas all report the same number."""
    shards = f"{_SHARDS}{{{_OURS}}}"
    counted = f"{metric}{{{_labels(where)}}} * on (job, instance) group_left (shard) {shards}"
    summed = f"sum by ({', '.join(by)})" if by else "sum"
    return f"{summed} (max by ({', '.join(('namespace', 'shard', *by))}) ({counted}))"


def highest(metric: str) -> str:
    """Return the largest reading of a gauge, which is the leader's if the other replicas have none."""
    return f"max({metric}{{{_OURS}}})"


def _labels(where: str) -> str:
    return f"{_OURS}, {where}" if where else _OURS

"""The queries of the dashboard in PromQL, restricted to the namespaces that its reader chose."""

from typing import Final

_OURS: Final = 'namespace=~"$namespace"'


def rate(metric: str, *by: str, where: str = "") -> str:
    """Return the growth of a counter per second, summed by labels. `where` adds further matchers."""
    return f"sum by ({', '.join(by)}) (rate({metric}{{{_labels(where)}}}[$__rate_interval]))"


def quantile(share: str, metric: str, *by: str) -> str:
    """Return the value of a histogram that this share of observations does not exceed, by labels."""
    return f"histogram_quantile({share}, {rate(metric + '_bucket', *by, 'le')})"


def gauge(metric: str, how: str, *by: str, where: str = "") -> str:
    """Return a gauge, aggregated by labels with `how`: max, min, sum, count."""
    return f"{how} by ({', '.join(by)}) ({metric}{{{_labels(where)}}})"


def highest(metric: str) -> str:
    """Return the largest reading of a gauge, which is the leader's if the other replicas have none."""
    return f"max({metric}{{{_OURS}}})"


def _labels(where: str) -> str:
    return f"{_OURS}, {where}" if where else _OURS

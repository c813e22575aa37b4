"""The queries of the dashboard, in Prometheus' language: series of the namespaces that its reader chose."""

from typing import Final

_OURS: Final = 'namespace=~"$namespace"'


def rate(metric: str, *by: str, where: str = "") -> str:
    """How fast a counter grows, per second, summed by labels. `where` narrows it further."""
    return f"sum by ({', '.join(by)}) (rate({metric}{{{_labels(where)}}}[$__rate_interval]))"


def quantile(share: str, metric: str, *by: str) -> str:
    """The value of a histogram that this share of observations does not exceed, by labels."""
    return f"histogram_quantile({share}, {rate(metric + '_bucket', *by, 'le')})"


def gauge(metric: str, how: str, *by: str, where: str = "") -> str:
    """A gauge, put together by labels with `how`: max, min, sum, count."""
    return f"{how} by ({', '.join(by)}) ({metric}{{{_labels(where)}}})"


def highest(metric: str) -> str:
    """The largest reading of a gauge: that of the leader, where the others have none."""
    return f"max({metric}{{{_OURS}}})"


def _labels(where: str) -> str:
    return f"{_OURS}, {where}" if where else _OURS

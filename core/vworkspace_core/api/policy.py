"""A cluster's policy on charts (RES-3): permitted sources and forbidden versions.

The comparison ignores spelling: addresses are compared by whole parts of their path, versions as semantic versions,
names by their last part.
"""

import attrs

from purekube.apimachinery.formats import CHART_NAME, CHART_URL, FORMS, NO_USER, PLAIN_PATH
from vworkspace_core.api.chart import ChartSource


@attrs.frozen(order=True)
class Policy:
    """The limits that the Cluster objects set (RES-3). Empty means no limit.

    If several of them list chart sources, a chart has to match every list: `further_chart_sources` are the other lists.
    """

    allowed_chart_sources: tuple[str, ...] = ()
    forbidden_versions: tuple[str, ...] = ()
    further_chart_sources: tuple[tuple[str, ...], ...] = ()

    @property
    def chart_source_lists(self) -> tuple[tuple[str, ...], ...]:
        """Every list that is not empty."""
        return tuple(filter(None, (self.allowed_chart_sources, *self.further_chart_sources)))


def is_allowed_source(chart: ChartSource, allowed: tuple[str, ...]) -> bool:
    """Report whether the chart's address is an allowed one, or below one. An ambiguous address is not allowed."""
    forms = (chart.url, CHART_URL), (chart.url, PLAIN_PATH), (chart.url, NO_USER), (chart.name, CHART_NAME)
    if not all(FORMS[form].fits(text) for text, form in forms):
        return False
    address = f"{chart.url.rstrip('/')}/{chart.name}/"
    return any(address.startswith(f"{source.rstrip('/')}/") for source in allowed if source)


def is_forbidden(chart: str, version: str, policy: Policy) -> bool:
    """Report whether the policy forbids a chart version, for every chart or for this one (`<chart>@<version>`)."""
    asked = (_last(chart), _precedence(version))
    return any(_names(entry, *asked) for entry in policy.forbidden_versions)


def _names(entry: str, chart: str, version: str) -> bool:
    name, at, forbidden = entry.rpartition("@")
    return _precedence(forbidden) == version and (not at or _last(name) == chart)


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _precedence(version: str) -> str:
    """Return a semantic version without the parts that do not distinguish it: a `v`, and build metadata."""
    text = version.strip().casefold()
    return text.removeprefix("v").partition("+")[0]

"""What a cluster's policy says about charts (RES-3): where they may come from, and which versions nobody may install.

It judges what Flux would fetch, not how that is spelled (M5): the address of the chart by whole parts of its path,
versions as semantic versions, names by their last part.
"""

import attrs

from vworkspace_core.api.chart import ChartSource
from vworkspace_core.apimachinery.formats import CHART_NAME, CHART_URL, FORMS, NO_USER, PLAIN_PATH


@attrs.frozen(order=True)
class Policy:
    """What the Cluster objects allow (RES-3). Empty means everything.

    Where several of them list chart sources, a chart has to be in every list: `further_chart_sources` are the others.
    """

    allowed_chart_sources: tuple[str, ...] = ()
    forbidden_versions: tuple[str, ...] = ()
    further_chart_sources: tuple[tuple[str, ...], ...] = ()

    @property
    def chart_source_lists(self) -> tuple[tuple[str, ...], ...]:
        """Every list that says something."""
        return tuple(filter(None, (self.allowed_chart_sources, *self.further_chart_sources)))


def is_allowed_source(chart: ChartSource, allowed: tuple[str, ...]) -> bool:
    """Whether the chart's address is an allowed one, or beneath one. One that could lead elsewhere is none."""
    forms = (chart.url, CHART_URL), (chart.url, PLAIN_PATH), (chart.url, NO_USER), (chart.name, CHART_NAME)
    if not all(FORMS[form].fits(text) for text, form in forms):
        return False
    address = f"{chart.url.rstrip('/')}/{chart.name}/"
    return any(address.startswith(f"{source.rstrip('/')}/") for source in allowed if source)


def is_forbidden(chart: str, version: str, policy: Policy) -> bool:
    """Whether the policy forbids that version, of every chart or of this one (`<chart>@<version>`)."""
    asked = (_last(chart), _precedence(version))
    return any(_names(entry, *asked) for entry in policy.forbidden_versions)


def _names(entry: str, chart: str, version: str) -> bool:
    name, at, forbidden = entry.rpartition("@")
    return _precedence(forbidden) == version and (not at or _last(name) == chart)


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _precedence(version: str) -> str:
    """A semantic version without what does not tell it from others: a `v`, and build metadata."""
    text = version.strip().casefold()
    return text.removeprefix("v").partition("+")[0]

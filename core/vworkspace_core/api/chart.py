"""The source of an application's chart, the chart that was applied, and a cluster's policy on charts (RES-1, RES-3)."""

from enum import StrEnum
from typing import ClassVar

import attrs

from purekube.apimachinery.fields import CelRule, formed, schema_field
from purekube.apimachinery.formats import CHART_NAME, CHART_URL, EXACT_SEMVER, FORMS, NO_USER, PLAIN_PATH
from purekube.apimachinery.meta import NameRef


class SourceType(StrEnum):
    """The types of chart sources: an OCI registry, or a Helm repository over HTTP."""

    OCI = "oci"
    HELM = "helm"


@attrs.frozen
class ChartSource:
    """An exact chart version in a registry or repository."""

    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        # Rules of the object, not of the field: the API server would repeat the value of a field, with any password in
        # it.
        formed(CHART_URL, of="url"),
        formed(NO_USER, of="url"),
        formed(PLAIN_PATH, of="url"),
        CelRule(
            "self.sourceType != 'oci' || self.url.startsWith('oci://')",
            "must start with oci:// when sourceType is oci, such as oci://registry.example.com/charts",
            holds=lambda new, _: new.source_type is not SourceType.OCI or new.url.startswith("oci://"),
            field_path=".url",
        ),
        CelRule(
            "self.sourceType != 'helm' || self.url.startsWith('https://') || self.url.startsWith('http://')",
            "must start with https:// when sourceType is helm, such as https://charts.example.com",
            holds=lambda new, _: new.source_type is not SourceType.HELM or new.url.startswith(("https://", "http://")),
            field_path=".url",
        ),
    )

    source_type: SourceType = schema_field("oci or helm.")
    url: str = schema_field(
        "Registry or repository: oci://… or https://…, without user information.", schema={"maxLength": 2048}
    )
    name: str = schema_field("Name of the chart.", schema={"maxLength": 253}, rules=[formed(CHART_NAME)])
    version: str = schema_field(
        "One exact semantic version: no range, no latest.", schema={"maxLength": 128}, rules=[formed(EXACT_SEMVER)]
    )
    secret_ref: NameRef | None = schema_field(
        "Registry credentials, passed to the source object, never read.", default=None
    )
    cert_secret_ref: NameRef | None = schema_field(
        "Registry CA or client certificate, passed to the source object, never read.", default=None
    )


@attrs.frozen
class AppliedChart:
    """The chart that the operator last applied for an instance."""

    source_type: SourceType = schema_field("oci or helm.")
    url: str = schema_field("Registry or repository.")
    name: str = schema_field("Chart name.")
    version: str = schema_field("Exact version.")


@attrs.frozen
class DeployedChart:
    """The chart of a release that Helm has deployed."""

    name: str = schema_field("Chart name.")
    version: str = schema_field("Exact version.")


@attrs.frozen(order=True)
class Policy:
    """The limits that Cluster objects set for the charts of instances (RES-3). An empty field means no limit.

    If several Cluster objects list chart sources, a chart must match every list: `allowed_chart_sources` is the first
    list, `further_chart_sources` has the others.
    """

    allowed_chart_sources: tuple[str, ...] = ()
    forbidden_versions: tuple[str, ...] = ()
    further_chart_sources: tuple[tuple[str, ...], ...] = ()

    @property
    def chart_source_lists(self) -> tuple[tuple[str, ...], ...]:
        """All lists of chart sources that are not empty."""
        return tuple(filter(None, (self.allowed_chart_sources, *self.further_chart_sources)))


def is_allowed_source(chart: ChartSource, allowed: tuple[str, ...]) -> bool:
    """Report whether the chart's URL, with the chart's name appended, equals one of the URLs in `allowed` or is below
    it.

    A chart with a malformed URL or name is not allowed, since it could be read in two ways.
    """
    forms = (chart.url, CHART_URL), (chart.url, PLAIN_PATH), (chart.url, NO_USER), (chart.name, CHART_NAME)
    if not all(FORMS[form].fits(text) for text, form in forms):
        return False
    address = f"{chart.url.rstrip('/')}/{chart.name}/"
    return any(address.startswith(f"{source.rstrip('/')}/") for source in allowed)


def is_forbidden(chart: str, version: str, policy: Policy) -> bool:
    """Report whether `policy` forbids the version `version` of `chart`.

    An item in the policy's list of forbidden versions is a version, which is forbidden for all charts, or
    `<chart>@<version>`.
    """
    asked = (_last(chart), _precedence(version))
    return any(_names(entry, *asked) for entry in policy.forbidden_versions)


def _names(entry: str, chart: str, version: str) -> bool:
    name, at, forbidden = entry.rpartition("@")
    return _precedence(forbidden) == version and (not at or _last(name) == chart)


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _precedence(version: str) -> str:
    """Return a semantic version without a leading `v` and without build metadata, which do not distinguish versions."""
    text = version.strip().casefold()
    # Semantic Versioning 2.0.0, item 10; Helm takes a leading `v`, too.
    return text.removeprefix("v").partition("+")[0]

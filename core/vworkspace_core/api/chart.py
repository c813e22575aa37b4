"""The source of an application's chart, and the chart that was applied (RES-1)."""

from enum import StrEnum
from typing import ClassVar

import attrs

from purekube.apimachinery.fields import CelRule, formed, schema_field
from purekube.apimachinery.formats import CHART_NAME, CHART_URL, EXACT_SEMVER, NO_USER, PLAIN_PATH
from purekube.apimachinery.meta import NameRef


class SourceType(StrEnum):
    """The types of chart sources."""

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
        "Registry or repository: oci://… or https://…, without user information.",
        schema={"maxLength": 2048},
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
    """The chart of the last apply."""

    source_type: SourceType = schema_field("oci or helm.")
    url: str = schema_field("Registry or repository.")
    name: str = schema_field("Chart name.")
    version: str = schema_field("Exact version.")


@attrs.frozen
class DeployedChart:
    """The chart of a release that Helm has deployed."""

    name: str = schema_field("Chart name.")
    version: str = schema_field("Exact version.")

"""ApplicationInstance: the intent that an application exists in a namespace, from a chart, with values (RES-1)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import attrs

from purekube.apimachinery.fields import (
    CelRule,
    conditions_field,
    formed,
    immutable,
    observed_generation_field,
    observed_request_field,
    schema_field,
)
from purekube.apimachinery.formats import DNS_LABEL, DNS_SUBDOMAIN
from purekube.apimachinery.meta import Condition, KeyRef, ObjectMeta, ObjectName
from vworkspace_core.api.chart import AppliedChart, ChartSource, DeployedChart


class Mode(StrEnum):
    """The modes of an instance: managed, with a release; or a placeholder without one."""

    MANAGED = "managed"
    PLACEHOLDER = "placeholder"


class ValuesSource(StrEnum):
    """The places from which chart values can come: the spec itself, a Secret or a ConfigMap."""

    INLINE = "inline"
    SECRET_REF = "secretRef"
    CONFIG_MAP_REF = "configMapRef"


@attrs.frozen
class AppRef:
    """The catalogue entry from which the instance was made. The operator records it and never looks it up."""

    catalog_id: str = schema_field("Catalogue identifier.", schema={"minLength": 1, "maxLength": 253})


@attrs.frozen
class Release:
    """The Helm release that the instance owns."""

    name: str = schema_field(
        "Name of the Helm release and of its HelmRelease; immutable.",
        schema={"minLength": 1, "maxLength": 53},
        rules=[formed(DNS_LABEL), immutable()],
    )
    namespace: str = schema_field(
        "Namespace of the release; equals metadata.namespace; immutable.",
        schema={"minLength": 1, "maxLength": 63},
        rules=[formed(DNS_LABEL), immutable()],
    )
    service_account_name: str | None = schema_field(
        "Service account Flux impersonates.",
        default=None,
        schema={"minLength": 1, "maxLength": 253},
        rules=[formed(DNS_SUBDOMAIN)],
    )


def _only_for(source: ValuesSource, attribute: str) -> CelRule:
    """Return the CEL rule for one source of values: its field is set exactly if `source` selects it.

    The field has the name of the source in JSON. `attribute` is its name in the Python class.
    """
    name = source.value
    return CelRule(
        f"self.source == '{name}' ? has(self.{name}) : !has(self.{name})",
        f"must be set when source is {name}, and only then",
        holds=lambda new, _: (new.source is source) == (getattr(new, attribute) is not None),
        field_path=f".{name}",
    )


@attrs.frozen
class Values:
    """Chart values: inline, or one key of a Secret or ConfigMap that only Flux reads."""

    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.source == 'inline' || !has(self.inline)",
            "may be set only when source is inline",
            holds=lambda new, _: new.source is ValuesSource.INLINE or new.inline is None,
            field_path=".inline",
        ),
        _only_for(ValuesSource.SECRET_REF, "secret_ref"),
        _only_for(ValuesSource.CONFIG_MAP_REF, "config_map_ref"),
    )

    source: ValuesSource = schema_field("Which sibling is set.")
    # An apply that empties the map leaves null, which a schema without `nullable` refuses (S-42).
    inline: Mapping[str, Any] | None = schema_field(
        "Values as they are; must hold no secret material.", default=None, schema={"nullable": True}
    )
    secret_ref: KeyRef | None = schema_field("Values in a Secret.", default=None)
    config_map_ref: KeyRef | None = schema_field("Values in a ConfigMap.", default=None)

    @property
    def reference(self) -> tuple[str, KeyRef] | None:
        """The kind of the object that has the values, Secret or ConfigMap, with its name and key; None if inline."""
        match self.source:
            case ValuesSource.SECRET_REF if self.secret_ref is not None:
                return "Secret", self.secret_ref
            case ValuesSource.CONFIG_MAP_REF if self.config_map_ref is not None:
                return "ConfigMap", self.config_map_ref
        return None


@attrs.frozen
class Toggle:
    """An integration that can be switched on or off."""

    enabled: bool = schema_field("Whether it is on.", default=False)


@attrs.frozen
class IngressIntegration:
    """Ingress, with the host that becomes the instance's endpoint."""

    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.enabled) || !self.enabled || has(self.host)",
            "is required when ingress is enabled",
            holds=lambda new, _: not new.enabled or new.host is not None,
            field_path=".host",
            reason="FieldValueRequired",
        ),
    )

    enabled: bool = schema_field("Whether it is on.", default=False)
    host: str | None = schema_field(
        "Host name; required when enabled.",
        default=None,
        schema={"maxLength": 253},
        rules=[formed(DNS_SUBDOMAIN, example="cloud.example.com")],
    )


@attrs.frozen
class Integrations:
    """The integrations of an application. They imply chart values, which the explicit values override."""

    external_secrets: Toggle | None = schema_field("External Secrets.", default=None)
    cert_manager: Toggle | None = schema_field("cert-manager.", default=None)
    ingress: IngressIntegration | None = schema_field("Ingress.", default=None)


def _needed_when_managed(name: str) -> CelRule:
    return CelRule(
        f"self.mode != 'managed' || has(self.{name})",
        "is required when mode is managed",
        holds=lambda new, _: new.mode is not Mode.MANAGED or getattr(new, name) is not None,
        field_path=f".{name}",
        reason="FieldValueRequired",
    )


def _absent_when_placeholder(name: str) -> CelRule:
    return CelRule(
        f"self.mode != 'placeholder' || !has(self.{name})",
        "must be absent when mode is placeholder",
        holds=lambda new, _: new.mode is not Mode.PLACEHOLDER or getattr(new, name) is None,
        field_path=f".{name}",
        reason="FieldValueForbidden",
    )


@attrs.frozen
class ApplicationInstanceSpec:
    """The desired application: its chart and its values."""

    CEL_RULES: ClassVar[tuple[CelRule, ...]] = (
        _needed_when_managed("chart"),
        _needed_when_managed("release"),
        _absent_when_placeholder("chart"),
        _absent_when_placeholder("release"),
        _absent_when_placeholder("values"),
        # REC-14: otherwise the release would be orphaned or uninstalled unexpectedly.
        CelRule(
            "oldSelf.mode != 'managed' || self.mode != 'placeholder'",
            "a managed instance cannot become a placeholder: delete it and create it anew",
            holds=lambda new, old: old.mode is not Mode.MANAGED or new.mode is not Mode.PLACEHOLDER,
            field_path=".mode",
        ),
    )

    app_ref: AppRef = schema_field("Catalogue entry.")
    mode: Mode = schema_field("managed, or placeholder: owns no release.", default=Mode.MANAGED, publish_default=True)
    chart: ChartSource | None = schema_field("Chart; required when managed.", default=None)
    release: Release | None = schema_field("Release; required when managed.", default=None)
    values: Values | None = schema_field("Values.", default=None)
    suspend: bool = schema_field("Pauses reconciliation of the release.", default=False, publish_default=True)
    integrations: Integrations | None = schema_field("Integrations.", default=None)


@attrs.frozen
class Endpoint:
    """An address at which users reach the application."""

    name: str = schema_field("Name.")
    url: str = schema_field("URL.")
    type: str = schema_field("Type, such as ingress.", default="ingress")


@attrs.frozen
class ReplacedOverride:
    """An override that the override of a later Operation replaced. It is restored if the later Operation fails."""

    operation: str = schema_field("Name of the Operation.")
    uid: str = schema_field("Its uid.")
    spec_hash: str = schema_field("Hashes of chart and values of the spec it was asked against.")
    version: str | None = schema_field("Chart version instead of spec's.", default=None)
    values_patch: Mapping[str, Any] | None = schema_field("Merge patch over the values.", default=None)


@attrs.frozen
class ReleaseOverride:
    """The changes that helm Operations request on top of spec (REC-9); the last one overrides those before it.

    `version` lapses once the spec's chart no longer matches `spec_hash`, `values_patch` once the spec's values do not.
    """

    operation: str = schema_field("Name of the Operation.")
    uid: str = schema_field("Its uid.")
    spec_hash: str = schema_field("Hashes of chart and values of the spec it was asked against.")
    version: str | None = schema_field("Chart version instead of spec's.", default=None)
    values_patch: Mapping[str, Any] | None = schema_field("Merge patch over the values.", default=None)
    replaced: ReplacedOverride | None = schema_field("What was in force before, to go back to.", default=None)


@attrs.frozen
class ApplicationInstanceStatus:
    """The observed state, from the generation that it names."""

    observed_generation: int | None = observed_generation_field()
    reason: str | None = schema_field("Why it stands there: the reason of the condition that decides.", default=None)
    message: str | None = schema_field("The message of that condition.", default=None)
    conditions: tuple[Condition, ...] = conditions_field()
    helm_release_ref: ObjectName | None = schema_field("The HelmRelease.", default=None)
    last_applied_chart: AppliedChart | None = schema_field("Chart of the last apply.", default=None)
    deployed_chart: DeployedChart | None = schema_field(
        "Chart of the release that Helm has deployed, whatever is wanted.", default=None
    )
    last_reconcile_time: str | None = schema_field(
        "When the status last changed.", default=None, schema={"format": "date-time"}
    )
    endpoints: tuple[Endpoint, ...] = schema_field(
        "Where users reach the application.",
        default=(),
        schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    release_override: ReleaseOverride | None = schema_field(
        "Version and values that a helm Operation asked for.", default=None
    )
    observed_request: str | None = observed_request_field()


@attrs.frozen
class ApplicationInstance:
    """An application that exists in this namespace, from this chart, with these values."""

    metadata: ObjectMeta
    spec: ApplicationInstanceSpec
    status: ApplicationInstanceStatus = attrs.field(factory=ApplicationInstanceStatus)

"""Cluster: the operator's own configuration and state towards its control plane, the server that sends jobs (RES-3)."""

import attrs

from purekube.apimachinery.fields import conditions_field, formed, observed_generation_field, schema_field
from purekube.apimachinery.formats import LABEL_VALUE, WEB_URL
from purekube.apimachinery.meta import Condition, KeyRef, NameRef, ObjectMeta
from purekube.apimachinery.names import LONGEST_LABEL


@attrs.frozen
class SecuritySpec:
    """The protection that a job's payload must have (PULL-9)."""

    require_signed_payloads: bool = schema_field("Refuse jobs without a valid signature.", default=False)
    require_encrypted_secret_payloads: bool = schema_field(
        "Refuse jobs that bring secrets in the clear.", default=False
    )


@attrs.frozen
class PolicySpec:
    """The limits on charts that instances of this cluster may install."""

    allowed_chart_sources: tuple[str, ...] = schema_field(
        "URL prefixes charts may come from; empty allows all.",
        default=(),
        schema={
            "x-kubernetes-list-type": "set",
            "maxItems": 256,
            "items": {"type": "string", "minLength": 1, "maxLength": 2048},
        },
    )
    forbidden_versions: tuple[str, ...] = schema_field(
        "Chart versions nobody may install: <version>, or <chart>@<version>.",
        default=(),
        schema={
            "x-kubernetes-list-type": "set",
            "maxItems": 1024,
            "items": {"type": "string", "minLength": 1, "maxLength": 512},
        },
    )


@attrs.frozen
class ClusterSpec:
    """The control plane of this cluster, and what the cluster admits from there."""

    cluster_id: str = schema_field(
        "Id of this cluster at the control plane; a label value.",
        schema={"minLength": 1, "maxLength": LONGEST_LABEL},
        rules=[formed(LABEL_VALUE)],
    )
    control_plane_endpoint: str | None = schema_field(
        "Base URL of the control plane; none where the operator runs without an agent.",
        default=None,
        schema={"minLength": 1, "maxLength": 2048},
        rules=[formed(WEB_URL, example="https://odoo.example.com")],
    )
    registration_token_secret_ref: KeyRef | None = schema_field(
        "One-time registration token, in the operator's namespace.", default=None
    )
    rotate_credentials: bool = schema_field("Asks for a new credential now.", default=False)
    security: SecuritySpec | None = schema_field("Payload security.", default=None)
    policy: PolicySpec | None = schema_field("Policy.", default=None)


@attrs.frozen
class ClusterStatus:
    """The observed state."""

    observed_generation: int | None = observed_generation_field()
    conditions: tuple[Condition, ...] = conditions_field()
    last_heartbeat: str | None = schema_field(
        "Last round trip to the control plane; without an agent, when the operator was last at work.",
        default=None,
        schema={"format": "date-time"},
    )
    credentials_secret_ref: NameRef | None = schema_field("Where the credential is kept.", default=None)
    managed_namespaces: tuple[str, ...] = schema_field(
        "The managed namespaces.", default=(), schema={"x-kubernetes-list-type": "set"}
    )
    operator_version: str | None = schema_field("Version of the operator.", default=None)
    installed_engines: tuple[str, ...] = schema_field(
        "Engines whose kinds are served here.", default=(), schema={"x-kubernetes-list-type": "set"}
    )


@attrs.frozen
class Cluster:
    """The operator's own configuration and state towards its control plane."""

    metadata: ObjectMeta
    spec: ClusterSpec
    status: ClusterStatus = attrs.field(factory=ClusterStatus)

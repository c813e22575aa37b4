"""The values of the Helm chart as classes: their schema, their defaults and what `manifests --values` makes of them.

The chart's templates print the same for the same values; a test compares both over many of them (SEE-5).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar

import attrs
from jsonschema import Draft7Validator

from purekube.apimachinery.converters import STRICT
from purekube.apimachinery.fields import camel, schema_field
from purekube.apimachinery.formats import WEB_URL
from purekube.apimachinery.openapi import object_schema
from purekube.apimachinery.problems import Problem, ValidationProblems, path_of
from purekube.apimachinery.structuring import structure_patiently
from vworkspace_app.install.everything import installation, tenant
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import (
    CHOSEN_SETTINGS,
    LABELS,
    NAMESPACE_NAME,
    NOT_THE_RUNNER,
    OBJECT_NAME,
    PRIVATE_KEY,
    TEXTS,
    WITH_A_KEY,
    InstallOptions,
    MountedBox,
    PodOptions,
    Profile,
    PullPolicy,
    image_problem,
    optional_pattern,
)
from vworkspace_app.settings.table import Setting, as_text
from vworkspace_core.operations.settings import RUNNER

T = TypeVar("T", bound=attrs.AttrsInstance)

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""The draft of JSON Schema that all releases of Helm 3 and 4 support."""
_SETTINGS: Final = tuple(setting for setting in CHOSEN_SETTINGS if setting.name != "box")
"""The settings that no other value of the chart determines."""
_LONGEST_MESSAGE: Final = 200
_NAMES: Final = {"type": "array", "items": {"type": "string", **OBJECT_NAME}}


_OPTIONS: Final = {**attrs.fields_dict(PodOptions), **attrs.fields_dict(InstallOptions)}


def _option(name: str, about: str = "") -> Any:
    """Return the field of a chart value that is also an option of the installation, with its default and schema.

    `name` is the option's field in `InstallOptions` or `PodOptions`; `about` replaces its help text.
    """
    field = _OPTIONS[name]
    return schema_field(about or field.metadata["doc"], default=field.default, schema=field.metadata["schema"])


@attrs.frozen
class ImageValues:
    """The image of the operator."""

    repository: str = schema_field("Registry and name; a chart of a release has those of its image.", default="")
    tag: str = schema_field("Tag; needed without a digest.", default="")
    digest: str = schema_field(
        "Digest, which decides in the place of the tag: sha256:….",
        default="",
        schema={"pattern": optional_pattern(r"^sha256:[0-9a-f]{64}$")},
    )
    pull_policy: PullPolicy = _option("image_pull_policy", "When it is pulled; empty: the cluster's default.")
    pull_secrets: tuple[str, ...] = schema_field("Names of Secrets to pull it with.", default=(), schema=_NAMES)

    @property
    def reference(self) -> str:
        """The image reference for a pod spec: by digest if there is one, else by tag."""
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


@attrs.frozen
class ControlPlaneValues:
    """The control plane. Its token is no value: it is in the Secret vworkspace-agent-credentials, and is renewed there.

    The Secret has the keys control-plane-base-url, cluster-id and token, and where they are needed ca.crt (the
    authority to trust), tls.crt, tls.key, approval-secret, signing-public-key and decryption-key.
    """

    enabled: bool = schema_field("Pull jobs; false: no control plane, what is applied is reconciled.", default=True)
    url: str = schema_field(
        "Base URL; empty: the one in the Secret.", default="", schema={"pattern": optional_pattern(WEB_URL)}
    )
    cluster_id: str = _option(
        "cluster_id", "Id of this cluster; empty: the one in the Secret. Needed without a control plane."
    )


@attrs.frozen
class WebhookValues:
    """Admission webhooks: a wrong object is refused when it is applied."""

    enabled: bool = schema_field("Serve and configure the admission webhooks.", default=False)
    cert_manager: bool = schema_field("Have cert-manager make the certificate.", default=True)
    ca_bundle: str = schema_field(
        "Without cert-manager: the authority, PEM, of the certificate in the Secret vworkspace-operator-webhook-tls.",
        default="",
        # Base64, as a Secret holds it, would be encoded twice: no webhook would be trusted, and each write refused.
        schema={"pattern": optional_pattern("-----BEGIN CERTIFICATE-----")},
    )


@attrs.frozen
class ServiceMonitorValues:
    """A ServiceMonitor of the Prometheus operator."""

    enabled: bool = schema_field("Make a ServiceMonitor.", default=False)
    labels: Mapping[str, str] = schema_field("What Prometheus selects it by.", default={}, schema=LABELS)


@attrs.frozen
class PrometheusRuleValues:
    """A PrometheusRule with the alerts of docs/observability/alerts.yaml."""

    enabled: bool = schema_field("Make a PrometheusRule with the alerts.", default=False)
    labels: Mapping[str, str] = schema_field("What Prometheus selects it by.", default={}, schema=LABELS)


@attrs.frozen
class ServiceAccountValues:
    """The operator's own service account, vworkspace-operator."""

    annotations: Mapping[str, str] = schema_field("Annotations of it.", default={}, schema=TEXTS)


@attrs.frozen
class ProxyValues:
    """Proxies on the way to the control plane. The API server is always reached without one."""

    https: str = schema_field("HTTPS_PROXY.", default="")
    http: str = schema_field("HTTP_PROXY.", default="")
    none: str = schema_field("NO_PROXY: hosts and domains that need no proxy, by comma.", default="")


@attrs.frozen
class NetworkPolicyValues:
    """The network policy: metrics and webhooks can be reached, and addresses of the node itself cannot."""

    enabled: bool = schema_field("Make a NetworkPolicy.", default=True)


@attrs.frozen
class CrdValues:
    """The CustomResourceDefinitions. They are kept when the release is uninstalled, since their deletion would delete
    every instance.
    """

    install: bool = schema_field("Install and upgrade them with the chart.", default=True)


@attrs.frozen
class TenantValues:
    """The objects that the operator and its releases need in an existing managed namespace."""

    namespace: str = schema_field("Its name.", schema=NAMESPACE_NAME)
    release_role: str = schema_field(
        "A ClusterRole, such as edit, for the account of releases; empty: a Role of what an ordinary chart needs. "
        "To change it, first delete the namespace's RoleBinding of that account, whose role Kubernetes never changes.",
        default="",
        schema={"maxLength": 253},
    )
    workflows: bool = schema_field("Grant what Argo's executor needs.", default=False)


def _settings_schema() -> dict[str, Any]:
    properties = {setting.key: _setting_schema(setting) for setting in _SETTINGS}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _setting_schema(setting: Setting) -> dict[str, Any]:
    about = {"description": f"{setting.about} {setting.flag}: {setting.setting_type.about}."}
    valid = setting.setting_type.schema
    match setting.default:
        case bool():
            return {"type": "boolean", **about}
        case int():
            return {"type": "integer", **valid, **about}
        case tuple():
            return {"type": ["string", "array"], "items": {"type": "string", **valid}, **about}
        case _:
            return {"type": "string", **valid, **about}


@attrs.frozen
class OperatorChartValues:
    """Values of the Helm chart vworkspace-operator."""

    image: ImageValues = schema_field("Image of the operator.", default=ImageValues())
    replicas: int = _option("replicas")
    shards: int = _option("shards")
    control_plane: ControlPlaneValues = schema_field(
        "Where jobs come from. The token is no value: it is in the Secret vworkspace-agent-credentials.",
        default=ControlPlaneValues(),
    )
    profile: Profile = _option("profile")
    settings: Mapping[str, Any] = schema_field(
        "Settings of run by their names in a settings file, in the place of the profile's.",
        default={},
        schema=_settings_schema(),
    )
    extra_args: tuple[str, ...] = _option("extra_args")
    env: Mapping[str, str] = _option("env")
    extra_volumes: tuple[Mapping[str, Any], ...] = _option("extra_volumes")
    extra_volume_mounts: tuple[Mapping[str, Any], ...] = _option("extra_volume_mounts")
    proxy: ProxyValues = schema_field("Proxies on the way to the control plane.", default=ProxyValues())
    tenants: tuple[TenantValues, ...] = schema_field("Managed namespaces, and what each of them needs.", default=())
    release_account: str = _option("release_account")
    velero_namespace: str = _option("velero_namespace")
    tenant_roles: bool = _option("tenant_roles")
    owner_reference_protection: bool = _option("owner_reference_protection")
    applied_boxes: bool = _option("applied_boxes")
    boxes: tuple[MountedBox, ...] = _option("boxes")
    webhooks: WebhookValues = schema_field("Admission webhooks.", default=WebhookValues())
    service_monitor: ServiceMonitorValues = schema_field("For Prometheus.", default=ServiceMonitorValues())
    prometheus_rule: PrometheusRuleValues = schema_field("Alerts.", default=PrometheusRuleValues())
    network_policy: NetworkPolicyValues = schema_field("Network policy.", default=NetworkPolicyValues())
    crds: CrdValues = schema_field("CustomResourceDefinitions.", default=CrdValues())
    service_account: ServiceAccountValues = schema_field("Service account.", default=ServiceAccountValues())
    resources: Mapping[str, Any] = _option("resources")
    node_selector: Mapping[str, str] = _option("node_selector")
    tolerations: tuple[Mapping[str, Any], ...] = _option("tolerations")
    affinity: Mapping[str, Any] = _option("affinity")
    topology_spread_constraints: tuple[Mapping[str, Any], ...] = _option("topology_spread_constraints")
    priority_class_name: str = _option("priority_class_name")
    pod_labels: Mapping[str, str] = _option("pod_labels")
    pod_annotations: Mapping[str, str] = _option("pod_annotations")


# --- schema and defaults ---------------------------------------------------------------------------------------------


@cache
def values_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a values file: `values.schema.json` of the chart."""
    schema = _closed(object_schema(OperatorChartValues))
    # A parent chart hands `global` on to the charts it depends on.
    schema["properties"] = {**schema["properties"], "global": {"type": "object"}}
    return {"$schema": _DRAFT, "title": f"Values of {NAME}", **schema}


def _closed(schema: Any) -> Any:
    """Return a schema without `x-kubernetes-` keywords, in which an object with named fields allows no others."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: _closed(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if "properties" in plain:
        plain.setdefault("additionalProperties", False)
    return plain


def default_values() -> dict[str, Any]:
    """Return the default values of the chart, which apply where a values file sets nothing."""
    defaults: dict[str, Any] = _plain(OperatorChartValues())
    return defaults


def _plain(value: Any) -> Any:
    match value:
        case _ if attrs.has(type(value)):
            return {camel(field.name): _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
        case StrEnum():
            return value.value
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
        case _:
            return value


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values `given` merged into `defaults` as Helm does.

    Maps are merged key by key. Any other value replaces the default, and a null removes it.
    """
    together = dict(defaults)
    for key, value in given.items():
        default = together.get(key)
        if value is None:
            together.pop(key, None)
        elif isinstance(default, Mapping) and isinstance(value, Mapping):
            together[key] = merged(default, value)
        else:
            together[key] = value
    return together


def chart_values(given: Any) -> OperatorChartValues:
    """Return the values of a file merged into the defaults. Raises ValidationProblems with all problems of the file."""
    if not isinstance(given, Mapping):
        raise ValidationProblems([Problem("", "must be an object: the values of the chart by name")])
    values = merged(default_values(), given)
    values.pop("global", None)
    if problems := list(_problems(values)):
        raise ValidationProblems(problems)
    read: OperatorChartValues = structure_patiently(STRICT, OperatorChartValues, values)
    if problems := list(_clashes(read)):
        raise ValidationProblems(problems)
    return read


def _problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    for error in Draft7Validator(values_schema()).iter_errors(values):
        yield Problem(path_of(error.absolute_path), error.message[:_LONGEST_MESSAGE])


NO_CLUSTER_ID: Final = "is needed without a control plane: what the label app.vworkspace.io/cluster-id says on objects"
NO_AUTHORITY: Final = "is needed where the webhooks have no certificate by cert-manager: the authority of yours, PEM"
NAMED_TWICE: Final = "names {} twice: give each namespace one entry"
NO_TAG: Final = "is needed, or image.digest: which image to run"


def _clashes(values: OperatorChartValues) -> Iterator[Problem]:
    """Yield the problems of values that no schema can express. The chart's templates report the same problems."""
    if problem := image_problem(values.image.repository):
        yield Problem("image.repository", problem)
    if not values.image.tag and not values.image.digest:
        yield Problem("image.tag", NO_TAG)
    if not values.control_plane.enabled and not values.control_plane.cluster_id:
        yield Problem("controlPlane.clusterId", NO_CLUSTER_ID)
    if values.webhooks.enabled and not values.webhooks.cert_manager and not values.webhooks.ca_bundle:
        yield Problem("webhooks.caBundle", NO_AUTHORITY)
    if PRIVATE_KEY in values.webhooks.ca_bundle:
        yield Problem("webhooks.caBundle", WITH_A_KEY)
    if values.release_account == RUNNER:
        yield Problem("releaseAccount", NOT_THE_RUNNER)
    counted = Counter(one.namespace for one in values.tenants)
    for namespace in sorted(name for name, count in counted.items() if count > 1):
        yield Problem("tenants", NAMED_TWICE.format(namespace))
    for setting in _SETTINGS:
        if setting.key in values.settings:
            try:
                setting.setting_type.read(_text(values.settings[setting.key]))
            except ValueError as error:
                yield Problem(f"settings.{setting.key}", str(error))


def _text(value: Any) -> str:
    return as_text(tuple(value) if isinstance(value, list) else value)


# --- what they print -------------------------------------------------------------------------------------------------


def options_of(values: OperatorChartValues, namespace: str) -> InstallOptions:
    """Return the options of the command `manifests` that have the same effect as these values of the Helm chart.

    `namespace` is the operator's own namespace.
    """
    hooks = values.webhooks
    monitor = values.service_monitor
    return attrs.evolve(
        _shared(InstallOptions, values),
        namespace=namespace,
        image=values.image.reference,
        image_pull_policy=values.image.pull_policy,
        webhook_ca=hooks.ca_bundle.encode() if hooks.enabled and not hooks.cert_manager else b"",
        cert_manager=hooks.enabled and hooks.cert_manager,
        service_monitor=monitor.enabled,
        service_monitor_labels=monitor.labels,
        prometheus_rule=values.prometheus_rule.enabled,
        prometheus_rule_labels=values.prometheus_rule.labels,
        settings={
            setting.name: _text(values.settings[setting.key]) for setting in _SETTINGS if setting.key in values.settings
        },
        agent=values.control_plane.enabled,
        cluster_id=values.control_plane.cluster_id,
        control_plane_url=values.control_plane.url if values.control_plane.enabled else "",
        network_policy=values.network_policy.enabled,
        pods=_pods(values),
    )


def _pods(values: OperatorChartValues) -> PodOptions:
    proxies = {"HTTPS_PROXY": values.proxy.https, "HTTP_PROXY": values.proxy.http, "NO_PROXY": values.proxy.none}
    env = {**{name: text for name, text in proxies.items() if text}, **values.env}
    return attrs.evolve(
        _shared(PodOptions, values),
        pull_secrets=values.image.pull_secrets,
        env=dict(sorted(env.items())),
        account_annotations=values.service_account.annotations,
    )


def _shared(cls: type[T], values: OperatorChartValues) -> T:
    """Return an instance of `cls` whose fields have the values of the same names."""
    names = attrs.fields_dict(cls).keys() & attrs.fields_dict(OperatorChartValues).keys()
    return cls(**{name: getattr(values, name) for name in names})


def values_documents(values: OperatorChartValues, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the operator, and the manifests of each managed namespace in the values.

    `namespace` is the operator's own namespace.
    """
    options = options_of(values, namespace)
    yield from installation(options)
    for one in values.tenants:
        yield from tenant(one.namespace, attrs.evolve(options, release_role=one.release_role, workflows=one.workflows))

"""The options of an installation, and the names, labels and ports that its manifests share."""

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Annotated, Any, Final, Literal, TypeAlias

import attrs

from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.names import closed_name
from vworkspace_app import VERSION
from vworkspace_app.arguments.signature import Parameter
from vworkspace_app.install.names import NAME
from vworkspace_app.install.profiles import Profile

_NO_NAME: Final = re.compile("[^-a-z0-9.]+")
"""The characters of a user's name that a role's name replaces by `-`."""

DEFAULT_RESOURCES: Final[Mapping[str, Any]] = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}
TLS_SECRET: Final = "vworkspace-operator-webhook-tls"
TLS_FOLDER: Final = "/var/run/vworkspace/webhook-tls"
WEBHOOK_PORT: Final = 9443
HEALTH_PORT: Final = 8080
"""The port of metrics and probes."""

INSTANCE_LABELS: Final = {"app.kubernetes.io/name": NAME}
"""The labels by which Services, budgets and policies select the pods, without a version: selectors are immutable."""

COMPONENT: Final = "app.kubernetes.io/component"
"""The label that distinguishes the parts of an installation."""
SHARD_LABEL: Final = "vworkspace.io/shard"
"""The label that distinguishes the pods of several shards."""
RELEASE_ACCOUNT: Final = "release-account"
"""The component label of the account that Flux installs releases as, which must exist as long as releases do."""
RUNNER_ACCOUNT: Final = "operation-runner"
"""The component label of the account that Jobs and Workflows of Operations run as."""


EXAMPLE_REGISTRY: Final = "^([^/]+[.])?(example([.](com|net|org))?|invalid)(:[0-9]+)?/"
"""The pattern of an image whose registry has a name that RFC 2606 reserves for examples."""
NO_SUCH_REGISTRY: Final = "is in a registry that exists in examples only: name yours"


@attrs.frozen
class MountedBox:
    """A box that the operator runs in addition to its own kinds: the name of a ConfigMap, and the box's file in it."""

    config_map: str
    file: str


@attrs.frozen
class PodOptions:
    """The changes to the defaults of the operator's pods, as parts of manifests; empty parts change nothing."""

    replicas: int = 2
    resources: Mapping[str, Any] = attrs.field(factory=lambda: DEFAULT_RESOURCES)
    pull_secrets: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    """The arguments after all others, which take precedence."""
    env: Mapping[str, str] = attrs.field(factory=dict)
    boxes: tuple[MountedBox, ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = attrs.field(factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = attrs.field(factory=dict)
    """The affinity that replaces the default one, which spreads replicas over nodes."""
    topology_spread: tuple[Mapping[str, Any], ...] = ()
    priority_class: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    account_annotations: Mapping[str, str] = attrs.field(factory=dict)
    """The annotations of the service account."""


class OptionScope(Enum):
    """The kinds of output of `manifests` that an option may affect. With any other output, the option is refused."""

    OPERATOR = auto()
    ROLES = auto()
    """Both the manifests of the operator and its roles alone."""
    NAMESPACE = auto()


def option(about: str, default: Any, scope: OptionScope | None = None) -> Any:
    """Return a field with its default, its help text for `manifests --help`, and the outputs that it affects."""
    return attrs.field(default=default, metadata={"help": about, "scope": scope})


Labels: TypeAlias = Annotated[Mapping[str, str], Parameter(parse=False)]
"""Labels by name. They are no argument of their own: `manifests` reads them from another flag."""


@attrs.frozen
class InstallOptions:
    """The options of an installation, which flags of `manifests` or values of the chart set.

    Without a `velero_namespace` there is no Role for Velero's kinds: it could not be applied if the namespace did not
    exist. Webhooks are printed only with `webhook_ca` (PEM) or `cert_manager`: a configuration that the API server
    cannot trust would refuse every write to our kinds. Without an `agent` the `cluster_id` comes from a flag.
    """

    user: str = option("With --rbac-only: who runs the operator outside the cluster; else its service account.", "")
    release_account: str = option(
        "The account of each managed namespace that Flux installs releases as.", "vworkspace-release"
    )
    release_role: str = option(
        "With --namespace: a ClusterRole, such as edit, for that account; else a Role is printed.",
        "",
        OptionScope.NAMESPACE,
    )
    workflows: bool = option(
        "With --namespace: grant Operations by Argo Workflows what their pods need.", False, OptionScope.NAMESPACE
    )
    quota: int = option(
        "With --namespace: also print a ResourceQuota of so many instances, and four times as many Operations.",
        0,
        OptionScope.NAMESPACE,
    )
    namespace: Annotated[str, Parameter(name="--system-namespace")] = option(
        "The operator's own namespace.", "vworkspace-system"
    )
    velero_namespace: str = option(
        "Velero's namespace, where there is one: grants the operator its Backups and Restores.", "", OptionScope.ROLES
    )
    applied_boxes: bool = option(
        "Run the boxes, too, that are applied to the cluster, with the rights for it; their kind and the roles of each "
        "come from `box manifests` and `box rbac`.",
        False,
        OptionScope.ROLES,
    )
    image: str = option(
        "Image of the operator, at best by digest: registry.example.com/operator@sha256:….",
        f"{NAME}:{VERSION}",
        OptionScope.OPERATOR,
    )
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = option(
        "When the image is pulled; else the cluster's default: by tag once, latest always.", "", OptionScope.OPERATOR
    )
    profile: Profile = option(
        "multi-tenant: jobs are signed, and no image may run in Jobs until the setting of allowed "
        "images names it. single-tenant: everybody who may write instances may do anything in the cluster.",
        Profile.MULTI_TENANT,
        OptionScope.OPERATOR,
    )
    settings: Labels = option(
        "Settings of `run` in addition to those of the profile, as text by name.",
        attrs.Factory(dict),
        OptionScope.ROLES,
    )
    webhook_ca: Annotated[bytes, Parameter(parse=False)] = option(
        "The authority that signed the certificate of the webhooks, PEM.", b"", OptionScope.OPERATOR
    )
    cert_manager: bool = option(
        "Configure the admission webhooks, with a certificate by cert-manager.", False, OptionScope.OPERATOR
    )
    service_monitor: bool = option("Add a ServiceMonitor for Prometheus.", False, OptionScope.OPERATOR)
    service_monitor_labels: Labels = attrs.field(factory=dict)
    """The labels by which a Prometheus selects its ServiceMonitors."""
    prometheus_rule: bool = option(
        "Add a PrometheusRule with the alerts of docs/observability.", False, OptionScope.OPERATOR
    )
    prometheus_rule_labels: Labels = attrs.field(factory=dict)
    owner_reference_protection: bool = option(
        "The cluster runs the admission plugin OwnerReferencesPermissionEnforcement: grant what it asks for.",
        False,
        OptionScope.ROLES,
    )
    agent: Annotated[bool, Parameter(parse=False)] = True
    cluster_id: str = option("With --no-agent: what the label app.vworkspace.io/cluster-id says on objects here.", "")
    shards: int = option(
        "How many Deployments share the namespaces, each with a standby; docs/shards.md tells when.",
        1,
        OptionScope.OPERATOR,
    )
    control_plane_url: Annotated[str, Parameter(parse=False)] = ""
    network_policy: Annotated[bool, Parameter(parse=False)] = True
    tenant_roles: Annotated[bool, Parameter(parse=False)] = option(
        "Let people read instances and Operations who have the ClusterRole view in a namespace, and write them who "
        "have edit or admin.",
        True,
        OptionScope.OPERATOR,
    )
    pods: Annotated[PodOptions, Parameter(parse=False)] = attrs.field(factory=PodOptions)

    def role_name(self, suffix: str = "") -> str:
        """Return the name of the operator's role, with `suffix`.

        With a `user` the name is unique to that user. So it does not replace the role of another installation in the
        cluster.
        """
        if not self.user:
            return f"{NAME}{suffix}"
        plain = _NO_NAME.sub("-", self.user.lower()).strip("-.")[:40]
        return closed_name(f"{NAME}-{plain}", f"{content_hash(self.user)[:8]}{suffix}")

    @property
    def webhooks(self) -> bool:
        """Report whether the webhooks are served and configured."""
        return bool(self.webhook_ca) or self.cert_manager


def meta(name: str, namespace: str | None = None) -> dict[str, Any]:
    """Return metadata with the labels that Kubernetes recommends."""
    labels = {**INSTANCE_LABELS, "app.kubernetes.io/version": VERSION, "app.kubernetes.io/part-of": "vworkspace"}
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "labels": labels}

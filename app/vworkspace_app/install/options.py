"""The choices of an installation, and the names and ports that its parts share."""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.names import closed_name
from vworkspace_app import VERSION
from vworkspace_app.install.names import NAME
from vworkspace_app.install.profiles import Profile

_NO_NAME: Final = re.compile("[^-a-z0-9.]+")
"""The name of each object that exists once, and of the field manager."""

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
"""The labels by which Services, budgets and policies select the pods; a Deployment's are immutable: no version."""

COMPONENT: Final = "app.kubernetes.io/component"
"""The label that distinguishes parts of one installation."""
SHARD_LABEL: Final = "vworkspace.io/shard"
"""The label that distinguishes the pods of several shards."""
RELEASE_ACCOUNT: Final = "release-account"
"""The component of the account that Flux installs releases as, and its rights; needed as long as releases exist."""
RUNNER_ACCOUNT: Final = "operation-runner"
"""The component of the account that Jobs and Workflows of Operations run as."""


@attrs.frozen
class MountedBox:
    """A box that the operator runs in addition to its own kinds: an existing ConfigMap, and the file in it."""

    config_map: str
    file: str


@attrs.frozen
class PodOptions:
    """Changes to the defaults of the operator's pods, as plain parts of manifests; empty ones are left out."""

    replicas: int = 2
    resources: Mapping[str, Any] = attrs.field(factory=lambda: DEFAULT_RESOURCES)
    pull_secrets: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    """The last arguments, after all others, so that they win."""
    env: Mapping[str, str] = attrs.field(factory=dict)
    boxes: tuple[MountedBox, ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = attrs.field(factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = attrs.field(factory=dict)
    """The affinity that replaces the one that keeps replicas on different nodes."""
    topology_spread: tuple[Mapping[str, Any], ...] = ()
    priority_class: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    account_annotations: Mapping[str, str] = attrs.field(factory=dict)
    """The annotations of the service account."""


@attrs.frozen
class InstallOptions:
    """Options of `manifests`; the command's help says what each means.

    Without a `velero_namespace` there is no Role for Velero's kinds: it cannot be applied to a namespace that does not
    exist. Webhooks are printed only with `webhook_ca` (PEM) or `cert_manager`: a configuration that the API server
    cannot trust would refuse every write to our kinds. Without an `agent` the operator takes its `cluster_id` from a
    flag.
    """

    namespace: str = "vworkspace-system"
    image: str = f"{NAME}:{VERSION}"
    velero_namespace: str = ""
    webhook_ca: bytes = attrs.field(default=b"", repr=False)
    cert_manager: bool = False
    service_monitor: bool = False
    service_monitor_labels: Mapping[str, str] = attrs.field(factory=dict)
    """The labels by which a Prometheus selects its ServiceMonitors."""
    prometheus_rule: bool = False
    prometheus_rule_labels: Mapping[str, str] = attrs.field(factory=dict)
    owner_reference_protection: bool = False
    release_account: str = "vworkspace-release"
    """The account with which Flux installs the releases of a managed namespace."""
    release_role: str = ""
    """A ClusterRole to bind that account to in its namespace, instead of the printed Role."""
    workflows: bool = False
    quota: int = 0
    """The number of instances that a managed namespace may hold, with four times as many Operations; 0 sets no limit.
    """
    profile: Profile = Profile.MULTI_TENANT
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Settings of `run` in addition to those of the profile, as text by name."""
    pull_policy: str = ""
    agent: bool = True
    cluster_id: str = ""
    shards: int = 1
    """The number of Deployments that share the namespaces (RUN-13)."""
    control_plane_url: str = ""
    network_policy: bool = True
    tenant_roles: bool = True
    """ClusterRoles that let users with `view`, `edit` or `admin` read or write our kinds (SEE-5)."""
    pods: PodOptions = attrs.field(factory=PodOptions)
    user: str = ""
    """The user who runs the operator outside the cluster, bound to the roles instead of the service account."""

    def role_name(self, suffix: str = "") -> str:
        """Return the name of a role of the operator.

        With a `user` it differs from that of an installation, to coexist.
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
    """Return metadata with the recommended labels."""
    labels = {**INSTANCE_LABELS, "app.kubernetes.io/version": VERSION, "app.kubernetes.io/part-of": "vworkspace"}
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "labels": labels}

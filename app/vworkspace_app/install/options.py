"""What an installation may choose, and the names and ports that its parts share."""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from vworkspace_app import VERSION
from vworkspace_app.install.profiles import Profile
from vworkspace_core.apimachinery.manifest import content_hash
from vworkspace_core.apimachinery.names import closed_name

_NO_NAME: Final = re.compile("[^-a-z0-9.]+")
NAME: Final = "vworkspace-operator"
"""Name of everything there is one of, and of the field manager."""

DEFAULT_RESOURCES: Final[Mapping[str, Any]] = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}
TLS_SECRET: Final = "vworkspace-operator-webhook-tls"
TLS_FOLDER: Final = "/var/run/vworkspace/webhook-tls"
WEBHOOK_PORT: Final = 9443
HEALTH_PORT: Final = 8080
"""Metrics and probes."""

INSTANCE_LABELS: Final = {"app.kubernetes.io/name": NAME}
"""What Services, budgets and policies select the pods by; immutable in a Deployment, so without the version."""

COMPONENT: Final = "app.kubernetes.io/component"
"""The label that tells parts of one installation apart."""
SHARD_LABEL: Final = "vworkspace.io/shard"
"""The label that tells the pods of several shards apart."""
RELEASE_ACCOUNT: Final = "release-account"
"""Component: the account that Flux installs releases as, and its rights; they are of use as long as releases are."""
RUNNER_ACCOUNT: Final = "operation-runner"
"""Component: the account that Jobs and Workflows of Operations run as."""


@attrs.frozen
class MountedBox:
    """A box that the operator runs beside its own kinds: a ConfigMap that is there, and the file in it."""

    config_map: str
    file: str


@attrs.frozen
class PodOptions:
    """What the operator's pods are beside the defaults, as plain parts of manifests; empty ones are left out."""

    replicas: int = 2
    resources: Mapping[str, Any] = attrs.field(factory=lambda: DEFAULT_RESOURCES)
    pull_secrets: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    """Behind all others, so that they win."""
    env: Mapping[str, str] = attrs.field(factory=dict)
    boxes: tuple[MountedBox, ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = attrs.field(factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = attrs.field(factory=dict)
    """In the place of the one that keeps replicas on different nodes."""
    topology_spread: tuple[Mapping[str, Any], ...] = ()
    priority_class: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    account_annotations: Mapping[str, str] = attrs.field(factory=dict)
    """Of the service account."""


@attrs.frozen
class InstallOptions:
    """Options of `manifests`; the command's help says what each means.

    Without a `velero_namespace` there is no Role for Velero's kinds: a namespace that does not exist takes none.
    Webhooks are printed only with `webhook_ca` (PEM) or `cert_manager`: a configuration that the API server cannot
    trust would refuse every write to our kinds. Without an `agent` the operator takes its `cluster_id` from a flag.
    """

    namespace: str = "vworkspace-system"
    image: str = f"{NAME}:{VERSION}"
    velero_namespace: str = ""
    webhook_ca: bytes = attrs.field(default=b"", repr=False)
    cert_manager: bool = False
    service_monitor: bool = False
    service_monitor_labels: Mapping[str, str] = attrs.field(factory=dict)
    """What a Prometheus selects its ServiceMonitors by."""
    prometheus_rule: bool = False
    prometheus_rule_labels: Mapping[str, str] = attrs.field(factory=dict)
    owner_reference_protection: bool = False
    release_account: str = "vworkspace-release"
    """As whom Flux installs the releases of a gated namespace."""
    release_role: str = ""
    """A ClusterRole to bind that account to in its namespace, in the place of the printed Role."""
    workflows: bool = False
    quota: int = 0
    """How many instances a gated namespace may hold, and four times as many Operations; 0 sets no limit."""
    profile: Profile = Profile.MULTI_TENANT
    settings: Mapping[str, str] = attrs.field(factory=dict)
    """Settings of `run` beside those of the profile, as text by name."""
    pull_policy: str = ""
    agent: bool = True
    cluster_id: str = ""
    shards: int = 1
    """How many Deployments share the namespaces (RUN-13)."""
    control_plane_url: str = ""
    network_policy: bool = True
    tenant_roles: bool = True
    """ClusterRoles that add our kinds to what people may do who have `view`, `edit` or `admin` (SEE-5)."""
    pods: PodOptions = attrs.field(factory=PodOptions)
    user: str = ""
    """Who runs the operator outside the cluster, and is bound in the place of its service account."""

    def role_name(self, suffix: str = "") -> str:
        """The name of a role of the operator's. A user's are others: they stand beside those of an installation."""
        if not self.user:
            return f"{NAME}{suffix}"
        plain = _NO_NAME.sub("-", self.user.lower()).strip("-.")[:40]
        return closed_name(f"{NAME}-{plain}", f"{content_hash(self.user)[:8]}{suffix}")

    @property
    def webhooks(self) -> bool:
        """Whether the webhooks are served and configured."""
        return bool(self.webhook_ca) or self.cert_manager


def meta(name: str, namespace: str | None = None) -> dict[str, Any]:
    """Metadata with the recommended labels."""
    labels = {**INSTANCE_LABELS, "app.kubernetes.io/version": VERSION, "app.kubernetes.io/part-of": "vworkspace"}
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "labels": labels}

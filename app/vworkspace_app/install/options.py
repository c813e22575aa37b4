"""The options of an installation, and the names, labels and ports that its manifests share.

A profile sets some settings of `run`, strict ones for a cluster with several tenants, open ones for one tenant;
`manifests --setting` overrides each of them.
"""

import re
import ssl
from collections.abc import Container, Mapping
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Annotated, Any, Final

import attrs

from purekube.apimachinery.fields import schema_field
from purekube.apimachinery.formats import DNS_LABEL, DNS_SUBDOMAIN
from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.names import LABEL_RULE, closed_name, is_label_value
from purekube.controller.shard import MOST_SHARDS
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app import VERSION
from vworkspace_app.arguments import Parameter
from vworkspace_app.install.names import INSTANCE_LABELS, NAME, OWN_NAMESPACE
from vworkspace_app.settings.table import SETTINGS, RunSettings, Setting, as_text, clashes, inconsistencies

NO_IMAGE: Final = "none.invalid/"
"""An image prefix that matches no image, so that no Job of an Operation runs until an administrator allows images."""
_NO_NAME: Final = re.compile("[^-a-z0-9.]+")
"""The characters of a user's name that are replaced by `-` in the name of the user's role."""
DEFAULT_RESOURCES: Final[Mapping[str, Any]] = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}
TLS_SECRET: Final = "vworkspace-operator-webhook-tls"
TLS_FOLDER: Final = "/var/run/vworkspace/webhook-tls"
# As controller-runtime (pkg/webhook/server.go, DefaultPort), so that rules of firewalls fit.
WEBHOOK_PORT: Final = 9443
WEBHOOK_FLAGS: Final = (f"--webhook-listen=[::]:{WEBHOOK_PORT}", f"--webhook-certificates={TLS_FOLDER}")
HEALTH_PORT: Final = 8080
"""The port of metrics and probes."""
COMPONENT: Final = "app.kubernetes.io/component"
"""The label that distinguishes the parts of an installation."""
SHARD_LABEL: Final = "vworkspace.io/shard"
"""The label that distinguishes the pods of several shards."""
RELEASE_ACCOUNT: Final = "release-account"
"""The component label of the account that Flux installs releases as, which must exist as long as releases do."""
RUNNER_ACCOUNT: Final = "operation-runner"
"""The component label of the account that Jobs and Workflows of Operations run as."""
NOT_THE_RUNNER: Final = "is the account that Operations run as, which has no rights: name another one for releases"
EXAMPLE_REGISTRY: Final = "^([^/]+[.])?(example([.](com|net|org))?|invalid)(:[0-9]+)?/"
"""The pattern of an image whose registry has a name that RFC 2606 reserves for examples."""
NO_SUCH_REGISTRY: Final = "is in a registry that exists in examples only: name yours"
WITH_REGISTRY: Final = "^([^/]*[.:][^/]*|localhost)/."
"""The pattern of an image that names a registry. Like a container runtime, it requires a dot, a port or localhost."""
NO_REGISTRY: Final = "needs a registry, as in ghcr.io/you/vworkspace-operator: no public image has this name"


def image_problem(image: str) -> str:
    """Return the reason why no cluster can pull `image`, judged by its registry alone; empty if there is none."""
    if not re.search(WITH_REGISTRY, image):
        return NO_REGISTRY
    return NO_SUCH_REGISTRY if re.search(EXAMPLE_REGISTRY, image) else ""


class Profile(StrEnum):
    """The profiles of an installation, each with its own default settings of the command `run`.

    MULTI_TENANT is strict, for a cluster with several tenants; SINGLE_TENANT is open, for a cluster with one.
    """

    MULTI_TENANT = "multi-tenant"
    SINGLE_TENANT = "single-tenant"


_STRICT: Final[Mapping[str, str]] = {"allowed_images": NO_IMAGE, "job_signatures": "required"}
_OPEN: Final[Mapping[str, str]] = {"service_account": "", "allow_unimpersonated_releases": "true"}
_OF_JOBS: Final = frozenset({"job_signatures"})
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_GIVEN_OTHERWISE: Final = frozenset(
    {"namespace", "agent", "cluster_id", "velero_namespace", "leader_elect", "shard", "listen", "webhook_listen"}
    | {"webhook_certificates", "kubeconfig", "token_file", "control_plane_url", "templates", "applied_boxes"}
)
"""The settings that `--setting` cannot set: options of `manifests`, the pod spec or the credentials Secret set them."""
CHOSEN_SETTINGS: Final = tuple(setting for setting in SETTINGS if setting.name not in _GIVEN_OTHERWISE)
"""The settings of `run` that users may choose for an installation."""


def profile_flags(
    profile: Profile, chosen: Mapping[str, str], *, agent: bool, without: Container[str] = ()
) -> list[str]:
    """Return the command-line arguments of `run` that set the settings of a profile.

    The user's settings `chosen` are included, and replace those of the profile. If `agent` is False, the profile's
    settings about jobs are left out. `without` names settings that an option replaces.
    """
    of_profile = profile_settings(profile, agent=agent)
    desired = {**{name: text for name, text in of_profile.items() if name not in without}, **chosen}
    return [_flag(_BY_NAME[name], text) for name, text in sorted(desired.items())]


def profile_settings(profile: Profile, *, agent: bool) -> dict[str, str]:
    """Return the settings of the command `run` that a profile sets: their values as text, by name.

    If `agent` is False (there is no control plane), settings about jobs are left out.
    """
    of_profile = _STRICT if profile is Profile.MULTI_TENANT else _OPEN
    return {name: text for name, text in of_profile.items() if agent or name not in _OF_JOBS}


def _flag(setting: Setting, text: str) -> str:
    value: Any = setting.setting_type.read(text)
    if isinstance(value, bool):
        return setting.flag if value else "--no-" + setting.flag.removeprefix("--")
    return f"{setting.flag}={as_text(value)}"


def read_settings(given: list[str]) -> dict[str, str]:
    """Return the settings given as NAME=VALUE, such as `log-level=debug`, by the flag `--setting`.

    Raises CommandError for an unknown setting or an invalid value, and for settings with which no pod would start,
    because they contradict each other or one of them needs another.
    """
    values: dict[str, str] = {}
    read: dict[str, Any] = {"leader_elect": True, "listen": f"[::]:{HEALTH_PORT}"}
    for setting in given:
        name, equals, text = setting.partition("=")
        key = name.strip().removeprefix("--").replace("-", "_")
        if not equals or key not in _BY_NAME or key in _GIVEN_OTHERWISE:
            known = ", ".join(setting.flag[2:] for setting in CHOSEN_SETTINGS)
            message = f"--setting {setting}: give NAME=VALUE with a setting of run, one of {known}"
            raise CommandError(message, status=USAGE)
        try:
            read[key] = _BY_NAME[key].setting_type.read(text)
        except ValueError as error:
            raise CommandError(f"--setting {setting}: {error}", status=USAGE) from error
        values[key] = text
    settings, said = RunSettings(**read), {key for key, text in values.items() if text}
    if problems := [*clashes(said, settings), *inconsistencies(settings)]:
        raise CommandError(f"--setting: {'; '.join(problems)}", status=USAGE)
    return values


def optional_pattern(pattern: str) -> str:
    """Return a regular expression that matches what `pattern` matches, and the empty string."""
    return f"^$|{pattern}"


def meta(name: str, namespace: str | None = None, selected: Mapping[str, str] = INSTANCE_LABELS) -> dict[str, Any]:
    """Return the metadata of an object of an installation, with the labels that Kubernetes recommends.

    `selected` are the labels by which the installation's pods are selected, by default those of the operator.
    """
    labels = {**selected, "app.kubernetes.io/version": VERSION, "app.kubernetes.io/part-of": "vworkspace"}
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "labels": labels}


NAMESPACE_NAME: Final = {"pattern": DNS_LABEL, "maxLength": 63}
OBJECT_NAME: Final = {"pattern": DNS_SUBDOMAIN, "maxLength": 253}
TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
LABELS: Final = {**TEXTS, "properties": dict.fromkeys((*meta("")["labels"], COMPONENT, SHARD_LABEL), False)}
"""The JSON Schema of a user's additional labels. They must not replace the installation's own, which selectors use."""
_FREE: Final = {"type": "object"}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}


@attrs.frozen
class MountedBox:
    """A box that the operator runs in addition to its own kinds; its CRD and its roles are applied by you."""

    config_map: str = schema_field("ConfigMap that holds its files.", schema=OBJECT_NAME)
    file: str = schema_field("The box among them: webapp.yaml.", schema={"pattern": "^[-._a-zA-Z0-9]+$"})


@attrs.frozen
class PodOptions:
    """The user's changes to the operator's pods, as parts of manifests. An empty part keeps the default.

    Fields that are also values of the Helm chart have the names of those values.
    """

    replicas: int = schema_field(
        "Pods of each shard: one works, the others stand by.", default=2, schema={"minimum": 0, "maximum": 10}
    )
    pull_secrets: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = schema_field("Further arguments of run, after all others.", default=())
    env: Mapping[str, str] = schema_field("Further environment variables.", default={}, schema=TEXTS)
    extra_volumes: tuple[Mapping[str, Any], ...] = schema_field(
        "Further volumes of the pods, such as a ConfigMap with templates of Operations for --templates.",
        default=(),
        schema=_OBJECTS,
    )
    extra_volume_mounts: tuple[Mapping[str, Any], ...] = schema_field(
        "Where the container has them.", default=(), schema=_OBJECTS
    )
    boxes: tuple[MountedBox, ...] = schema_field("Boxes that run next to the operator's own kinds.", default=())
    resources: Mapping[str, Any] = schema_field("Resources of the container.", default=DEFAULT_RESOURCES, schema=_FREE)
    node_selector: Mapping[str, str] = schema_field("Labels of nodes to run on.", default={}, schema=TEXTS)
    tolerations: tuple[Mapping[str, Any], ...] = schema_field("Tolerations.", default=(), schema=_OBJECTS)
    affinity: Mapping[str, Any] = schema_field(
        "Affinity; empty: replicas prefer different nodes.", default={}, schema=_FREE
    )
    topology_spread_constraints: tuple[Mapping[str, Any], ...] = schema_field(
        "Topology spread constraints.", default=(), schema=_OBJECTS
    )
    priority_class_name: str = schema_field("Priority class.", default="")
    pod_labels: Mapping[str, str] = schema_field("Further labels of pods.", default={}, schema=LABELS)
    pod_annotations: Mapping[str, str] = schema_field("Annotations of pods.", default={}, schema=TEXTS)
    account_annotations: Mapping[str, str] = attrs.field(factory=dict)
    """The annotations of the service account."""


class PullPolicy(StrEnum):
    """The pull policy of the image; empty: the cluster's default."""

    DEFAULT = ""
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class OptionScope(Enum):
    """The parts of the output of the command `manifests` that one of its options may affect.

    An option in OPERATOR affects the manifests of the operator. An option in ROLES also affects the output of its roles
    alone, and an option in NAMESPACE the objects of a managed namespace. The option is refused if the command prints
    anything else.
    """

    OPERATOR = auto()
    ROLES = auto()
    """The option affects the manifests of the operator, and the output of its roles alone (`--rbac-only`)."""
    NAMESPACE = auto()


def option(
    about: str,
    default: Any,
    scope: OptionScope | None = None,
    schema: Mapping[str, Any] | None = None,
    wrong: str = "",
) -> Any:
    """Return an attrs field for an option of the command `manifests`.

    `about` is its help text, and `scope` the outputs that it affects (None: all). `wrong` is the error message for a
    value that does not match the JSON Schema `schema`.
    """
    metadata = {"help": about, "doc": about, "scope": scope, "schema": schema or {}, "wrong": wrong}
    return attrs.field(default=default, metadata=metadata)


def read_labels(given: list[str]) -> dict[str, str]:
    """Return the labels given as KEY=VALUE by `--service-monitor-label`.

    By them Prometheus selects the ServiceMonitor and the PrometheusRule. Raises CommandError for a malformed label.
    """
    labels = dict(pair.partition("=")[::2] for pair in given)
    if wrong := [key for key, value in labels.items() if not key or not is_label_value(value)]:
        raise CommandError(
            f"--service-monitor-label {', '.join(wrong)}: give KEY=VALUE, such as release=prometheus", status=USAGE
        )
    return labels


PRIVATE_KEY: Final = "PRIVATE KEY-----"
WITH_A_KEY: Final = (
    "holds a private key, which whoever may read the webhook configurations would read: give certificates"
)


def read_authority(path: Path) -> bytes:
    """Return the PEM certificates in the file of `--webhook-ca`. Raises CommandError if the file has none, or a key."""
    try:
        pem = path.read_bytes()
        # An empty text would load the system's authorities instead of failing.
        ssl.create_default_context(cadata=pem.decode() or "-")
    except (ssl.SSLError, ValueError) as error:  # an SSLError is an OSError too
        raise CommandError(f"--webhook-ca {path}: holds no certificate in PEM form") from error
    except OSError as error:
        raise CommandError(f"--webhook-ca {path}: cannot be read: {error.strerror}") from error
    if PRIVATE_KEY.encode() in pem:
        raise CommandError(f"--webhook-ca {path}: {WITH_A_KEY}")
    return pem


@attrs.frozen
class WebhookTrust:
    """The options by which the API server trusts webhooks: a PEM certificate authority, or cert-manager."""

    namespace: str
    webhook_ca: bytes = attrs.field(default=b"", repr=False)
    cert_manager: bool = False

    @property
    def is_given(self) -> bool:
        """Report whether there is a certificate authority or cert-manager. Otherwise no webhook can be registered."""
        return bool(self.webhook_ca) or self.cert_manager


@attrs.frozen
class InstallOptions:
    """The options of an installation, which are set by flags of `manifests` or by values of the Helm chart.

    Without a `velero_namespace` there is no Role for Velero's kinds: it could not be applied if the namespace did not
    exist. Webhooks are printed only with `webhook_ca` (PEM) or `cert_manager`: if the API server did not trust a
    webhook, it would refuse every write to our kinds. If `agent` is False, the operator runs without a control plane,
    and `cluster_id` must be given.
    """

    settings: Annotated[Mapping[str, str], Parameter(name="--setting", read=read_settings)] = option(
        "NAME=VALUE: a setting of run, in the place of the profile's; repeatable.",
        attrs.Factory(dict),
        OptionScope.ROLES,
    )
    webhook_ca: Annotated[bytes, Parameter(read=read_authority)] = option(
        "Configure the admission webhooks; their certificate, in the Secret vworkspace-operator-webhook-tls, is signed "
        "by the authority in this PEM file.",
        b"",
        OptionScope.OPERATOR,
    )
    service_monitor_labels: Annotated[
        Mapping[str, str], Parameter(name="--service-monitor-label", read=read_labels)
    ] = option(
        "KEY=VALUE that Prometheus selects these two by, such as release=prometheus; repeatable.", attrs.Factory(dict)
    )
    tenant_roles: Annotated[
        bool,
        Parameter(
            help="Leave out the ClusterRoles by which people may read or write instances and Operations who have view, "
            "edit or admin in a namespace."
        ),
    ] = option(
        "Let people read instances and Operations who have the ClusterRole view in a namespace, and write them who "
        "have edit or admin.",
        True,
        OptionScope.OPERATOR,
    )
    agent: bool = option(
        "Without a control plane: reconcile what people and GitOps tools apply; needs --cluster-id.", True
    )
    user: str = option("With --rbac-only: who runs the operator outside the cluster; else its service account.", "")
    release_account: str = option(
        "The account of each managed namespace that Flux installs releases as.",
        "vworkspace-release",
        schema=OBJECT_NAME,
        wrong="not the name of a service account, such as vworkspace-release",
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
        {"minimum": 0},
        "a number of instances, or 0 for no limit",
    )
    namespace: Annotated[str, Parameter(name="--system-namespace")] = option(
        "The operator's own namespace.", OWN_NAMESPACE, schema=NAMESPACE_NAME, wrong="not the name of a namespace"
    )
    velero_namespace: str = option(
        "Velero's namespace, where there is one: grants the operator its Backups and Restores.",
        "",
        OptionScope.ROLES,
        {**NAMESPACE_NAME, "pattern": optional_pattern(DNS_LABEL)},
        "not the name of a namespace",
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
    image_pull_policy: PullPolicy = option(
        "When the image is pulled; else the cluster's default: by tag once, latest always.",
        PullPolicy.DEFAULT,
        OptionScope.OPERATOR,
    )
    profile: Profile = option(
        "multi-tenant: jobs are signed, and no image may run in Jobs until the setting of allowed "
        "images names it. single-tenant: everybody who may write instances may do anything in the cluster.",
        Profile.MULTI_TENANT,
        OptionScope.OPERATOR,
    )
    cert_manager: bool = option(
        "Configure the admission webhooks, with a certificate by cert-manager.", False, OptionScope.OPERATOR
    )
    service_monitor: bool = option("Add a ServiceMonitor for Prometheus.", False, OptionScope.OPERATOR)
    prometheus_rule: bool = option(
        "Add a PrometheusRule with the alerts of docs/observability.", False, OptionScope.OPERATOR
    )
    prometheus_rule_labels: Annotated[Mapping[str, str], Parameter(parse=False)] = attrs.field(factory=dict)
    owner_reference_protection: bool = option(
        "The cluster runs the admission plugin OwnerReferencesPermissionEnforcement: grant what it asks for.",
        False,
        OptionScope.ROLES,
    )
    cluster_id: str = option(
        "With --no-agent: what the label app.vworkspace.io/cluster-id says on objects here.",
        "",
        schema={"pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"},
        wrong=f"not the value of a label: {LABEL_RULE}",
    )
    shards: int = option(
        "How many Deployments share the namespaces, each with a standby; docs/shards.md tells when.",
        1,
        OptionScope.OPERATOR,
        {"minimum": 1, "maximum": MOST_SHARDS},
        f"between 1 and {MOST_SHARDS}",
    )
    control_plane_url: Annotated[str, Parameter(parse=False)] = ""
    network_policy: Annotated[bool, Parameter(parse=False)] = True
    pods: Annotated[PodOptions, Parameter(parse=False)] = attrs.field(factory=PodOptions)

    def role_name(self, suffix: str = "") -> str:
        """Return the name of a role of the operator; `suffix` is appended to it.

        If the operator runs as a `user`, the name is unique to that user, so that the role does not replace the role of
        another installation in the cluster.
        """
        if not self.user:
            return f"{NAME}{suffix}"
        plain = _NO_NAME.sub("-", self.user.lower()).strip("-.")[:40]
        return closed_name(f"{NAME}-{plain}", f"{content_hash(self.user)[:8]}{suffix}")

    @property
    def trust(self) -> WebhookTrust:
        """The options by which the API server trusts the operator's admission webhooks."""
        return WebhookTrust(self.namespace, self.webhook_ca, self.cert_manager)

    @property
    def webhooks(self) -> bool:
        """Report whether the operator's admission webhooks are installed: there is an authority or cert-manager."""
        return self.trust.is_given

"""The table of the settings of `run`, from which flags, help, docs/settings.md and checks are made.

A setting `log_level` is the flag `--log-level`, the variable `VWORKSPACE_LOG_LEVEL` and `logLevel` in the file. A name
must not end like the variables that Kubernetes makes for Services (`…_PORT`, `…_SERVICE_HOST`).

All sources (flags, environment, file) give text, so that they are parsed alike.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

import attrs

from purekube.apimachinery import formats
from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.fields import camel
from purekube.apimachinery.formats import DNS_LABEL, matches
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube.controller.lease.record import LeasePolicy
from purekube.controller.shard import WHOLE, Shard
from purekube_run.process.command_line import FORMATS, LEVELS
from vworkspace_app.arguments import flag_of, variable_of
from vworkspace_core.api.installation import RELEASE_ACCOUNT
from vworkspace_core.api.labels import CLUSTER_ID
from vworkspace_core.jobs.payload_security import Signatures
from vworkspace_core.operations.approvals import BINDINGS, DEFAULT_BINDINGS
from vworkspace_core.operations.settings import RUNNER

T = TypeVar("T")
_KEY: Final = "vworkspace.setting"
_DNS_LABEL: Final = re.compile(DNS_LABEL)
_URL: Final = re.compile(r"https?://[^/?#\s]+\S*", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):([0-9]{1,5})")
_SWITCH: Final = {"true": True, "false": False}


@attrs.frozen
class SettingType(Generic[T]):
    """The type of a setting. `read` parses a string, and raises ValueError for an invalid one.

    `about` describes valid values. `schema` has keywords of JSON Schema, which the schema of the Helm chart's values
    includes, so that Helm refuses what `read` would refuse only when a pod starts; it may allow more than `read`. A
    keyword `enum` is about each word of a list.
    """

    about: str
    read: Callable[[str], T]
    schema: Mapping[str, Any] = attrs.field(factory=dict, eq=False)


@attrs.frozen
class Setting:
    """A setting of the operator: its type, its default and its description. `name` is its field in RunSettings."""

    name: str
    setting_type: SettingType[Any]
    default: Any
    about: str
    also: str = ""
    """An alternative name of the setting, in the same form as `name`; empty if there is none."""

    @property
    def flag(self) -> str:
        """The name of the flag, such as `--log-level`."""
        return flag_of(self.name)

    @property
    def variable(self) -> str:
        """The name of the environment variable, such as `VWORKSPACE_LOG_LEVEL`."""
        return variable_of(self.name)

    @property
    def key(self) -> str:
        """The key of the setting in the settings file, such as `logLevel`."""
        return camel(self.name)

    @property
    def flags(self) -> tuple[str, ...]:
        """All flags of the setting: `flag`, and the flag of its second name if it has one."""
        return (self.flag, flag_of(self.also)) if self.also else (self.flag,)

    @property
    def variables(self) -> tuple[str, ...]:
        """All environment variables of the setting: `variable`, and the variable of its second name if it has one."""
        return (self.variable, variable_of(self.also)) if self.also else (self.variable,)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the setting in the settings file: `key`, and the key of its second name if it has one."""
        return (self.key, camel(self.also)) if self.also else (self.key,)

    @property
    def shown_default(self) -> str:
        """The default as text, as a user would write it; empty if there is none."""
        return as_text(self.default) if self.default is not None else ""

    @classmethod
    def of(cls, field: "attrs.Attribute[Any]") -> "Setting":
        """Return the setting that a field of RunSettings declares."""
        setting_type, about, also = field.metadata[_KEY]
        return cls(field.name, setting_type, field.default, about, also)


def as_text(value: Any) -> str:
    """Return a setting's value as text, in the form in which a user would write it."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def setting(setting_type: SettingType[T], default: T, about: str, *, also: str = "") -> T:
    """Return an attrs field that declares a setting of this type, with its default and its description `about`.

    `also` is a second name of the setting; empty if there is none.
    """
    field: T = attrs.field(default=default, metadata={_KEY: (setting_type, about, also)})
    return field


def whole_number(least: int, most: int) -> SettingType[int]:
    """Return the type of a setting whose value is a whole number from `least` to `most`."""
    about = f"between {least} and {most}"

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise ValueError(about)
        return int(text)

    return SettingType(about, read, {"minimum": least, "maximum": most})


def choice(*words: str) -> SettingType[str]:
    """Return the type of a setting whose value is one of these words, in upper or lower case."""
    about = f"{', '.join(words[:-1])} or {words[-1]}"

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"use {about}")
        return text.lower()

    return SettingType(about, read, {"enum": [form for word in words for form in (word, word.upper(), word.title())]})


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError("use true or false")
    return _SWITCH[text.lower()]


def _go_duration(text: str) -> str:
    if not matches(formats.GO_DURATION, text):
        raise ValueError("not a Go duration such as 5m or 90s")
    return text


def _longer_duration(text: str) -> str:
    if seconds_of(_go_duration(text)) == 0:
        raise ValueError("has to be longer than 0s")
    return text


def _url(text: str) -> str:
    # `urlsplit` and `port` raise ValueError, too, for a malformed address or port.
    if text and (not _URL.fullmatch(text) or urlsplit(text).port == 0):
        raise ValueError("not a URL such as https://odoo.example.com")
    return text


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if text and (match is None or int(match[2]) > 65535):
        raise ValueError("give HOST:PORT, such as 0.0.0.0:9443")
    return text


def _file(text: str) -> Path | None:
    return Path(text) if text else None


def _comma_list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _name(text: str) -> str:
    if len(text) > 63 or not _DNS_LABEL.fullmatch(text):
        raise ValueError("not the name of a namespace")
    return text


def _label(text: str) -> str:
    if text and not is_label_value(text):
        raise ValueError(f"not the value of a label: {LABEL_RULE}")
    return text


def some_of(*words: str) -> SettingType[tuple[str, ...]]:
    """Return the type of a setting whose value is a comma-separated list of some of these words."""
    about = f"of {', '.join(words)}"

    def read(text: str) -> tuple[str, ...]:
        selection = _comma_list(text)
        if not set(selection) <= set(words):
            raise ValueError(f"use some {about}, by comma")
        return selection

    return SettingType(f"some {about}, by comma", read, {"enum": [*words]})


ADDRESS: Final = SettingType("HOST:PORT", _address)
TEXT: Final = SettingType("text", str)
SWITCH: Final = SettingType("true or false", _switch)
GO_DURATION: Final = SettingType("a Go duration", _go_duration, {"pattern": formats.GO_DURATION})
LONGER_DURATION: Final = SettingType(GO_DURATION.about, _longer_duration, GO_DURATION.schema)
LABEL: Final = SettingType("the value of a label", _label)
URL: Final = SettingType("a URL", _url, {"pattern": r"^$|^[hH][tT][tT][pP][sS]?://[^/?#\s]+\S*$"})
FILE: Final = SettingType("a file", _file)
FOLDER: Final = SettingType("a folder", _file)
FILES: Final = SettingType("files, by comma", _comma_list)
NAMES: Final = SettingType("names, by comma", _comma_list)
NAMESPACE: Final = SettingType("a namespace", _name)
SHARD: Final = SettingType("I/N", lambda text: str(Shard.of(text)))


class PageAccess(StrEnum):
    """The values of the setting that decides who may open the operator's web page. With NONE there is no page."""

    NONE = "none"
    OPEN = "open"
    """Everyone who can reach the port may open the page, as with the metrics."""
    TOKEN_REVIEW = "token-review"
    """Clients with a token of the cluster may open the page if their user may `get` the path `/page`."""


@attrs.frozen
class RunSettings:
    """The settings of one operator process."""

    kubeconfig: Path | None = setting(
        FILE, None, "Kubeconfig; without it KUBECONFIG, the pod's service account, ~/.kube."
    )
    control_plane_url: str = setting(URL, "", "Base URL of the control plane; else of the credentials Secret.")
    allow_http_control_plane: bool = setting(
        SWITCH,
        False,
        "Let the token and the jobs go to another machine over plain http://; loopback is always allowed.",
    )
    job_signatures: str = setting(
        choice(*Signatures),
        Signatures.AUTO.value,
        "Whether jobs have to be signed: auto, where the credentials have a signing-public-key; required, always;"
        " unsigned, not even there. The Cluster object can require it in any case.",
    )
    cluster_id: str = setting(LABEL, "", "Id of this cluster in the control plane; else of the credentials Secret.")
    token_file: Path | None = setting(FILE, None, "File with the agent's bearer token; else the credentials Secret.")
    agent: bool = setting(
        SWITCH, True, "Pull jobs from a control plane; without an agent the operator reconciles what is applied here."
    )
    namespace: str = setting(
        TEXT,
        "vworkspace-system",
        "The operator's own namespace, where the Secret vworkspace-agent-credentials lies.",
        also="system_namespace",
    )
    workers: int = setting(whole_number(1, 64), 16, "Objects reconciled at the same time.")
    interval: str = setting(LONGER_DURATION, "5m", "Interval of the Flux objects.")
    timeout: str = setting(LONGER_DURATION, "5m", "Timeout of Helm actions.")
    drift_detection: str = setting(
        choice("enabled", "warn", "disabled"), "warn", "Flux's drift detection; enabled reverts autoscalers."
    )
    service_account: str = setting(
        TEXT,
        RELEASE_ACCOUNT,
        "Service account of each namespace that Flux installs releases with; without one nothing is installed.",
    )
    allowed_release_service_accounts: tuple[str, ...] = setting(
        NAMES, (), "Service accounts that an instance may name for its release instead."
    )
    allow_unimpersonated_releases: bool = setting(
        SWITCH,
        False,
        "Where --service-account is empty, let Flux install releases with its own rights: charts may do anything.",
    )
    allowed_chart_sources: tuple[str, ...] = setting(
        NAMES, (), "URLs that charts may come from, or from beneath, beside what Cluster objects say; empty allows all."
    )
    forbidden_versions: tuple[str, ...] = setting(
        NAMES,
        (),
        "Chart versions that nobody may install, as VERSION or CHART@VERSION, beside those of Cluster objects.",
    )
    writers: tuple[str, ...] = setting(
        NAMES,
        (),
        "Who may write managed objects, by the webhooks: users, and system:serviceaccount:NAMESPACE:NAME, beside the"
        " operator itself; empty lets everybody whom RBAC lets.",
    )
    allow_http: bool = setting(SWITCH, False, "Admit chart repositories over plain http://.")
    templates: tuple[str, ...] = setting(
        FILES, (), "YAML files with templates of Operations, one a document, beside the built-in ones."
    )
    box: tuple[str, ...] = setting(
        FILES, (), "Files with boxes: operators of further kinds, which run next to the operator's own."
    )
    applied_boxes: bool = setting(
        SWITCH, False, "Run the boxes, too, that are applied to the cluster; of several shards the first one does."
    )
    box_namespaces: tuple[str, ...] = setting(
        NAMES,
        (),
        "Namespaces that boxes and pure reconcilers watch and work in, as roles printed with --namespace allow; empty:"
        " all of them.",
    )
    controllers: tuple[str, ...] = setting(
        NAMES,
        (),
        "Reconcilers and watchers in Python, which run beside: names of installed packages' entry points"
        " vworkspace.controllers, or module:attribute.",
    )
    velero_namespace: str = setting(NAMESPACE, "velero", "Velero's own namespace, where its objects are made.")
    allowed_service_accounts: tuple[str, ...] = setting(
        NAMES, (), f"Service accounts that a Job of an Operation may ask for beside {RUNNER}."
    )
    allowed_images: tuple[str, ...] = setting(
        NAMES,
        (),
        "Registries, folders and images that Jobs of Operations may use, such as registry.example.com/tools/."
        " When empty, every image is allowed.",
    )
    required_claim_bindings: tuple[str, ...] = setting(
        some_of(*sorted(BINDINGS)),
        tuple(sorted(DEFAULT_BINDINGS)),
        "What an approval claim has to be bound to beside its Operation's name. Less than ns and params lets a claim be"
        " used for other parameters, or in another namespace: for older control planes only.",
    )
    webhook_listen: str = setting(ADDRESS, "", "Where the admission webhooks are served; without it they are not.")
    webhook_certificates: Path | None = setting(
        FOLDER, None, "Folder with tls.crt and tls.key of the webhooks; new ones are noticed."
    )
    webhook_client_authority: Path | None = setting(
        FILE,
        None,
        "Certificates of the authorities whose clients alone may ask the webhooks; without it everybody may.",
    )
    webhook_client_names: tuple[str, ...] = setting(
        NAMES, (), "Common names that such a client's certificate has to have one of; empty takes all of the authority."
    )
    wait: int = setting(whole_number(0, 300), 30, "Seconds of a long poll.")
    disconnected_after: int = setting(
        whole_number(10, 86_400), 300, "Seconds without a round trip after which the Cluster says Disconnected."
    )
    listen: str = setting(
        ADDRESS, "", "Where /metrics, /healthz and /readyz are served, over plain HTTP; nowhere when it is not set."
    )
    page: str = setting(
        choice(*PageAccess),
        PageAccess.NONE.value,
        "A read-only page of what runs, at --listen: open, to all who reach that address, as the metrics are;"
        " token-review, to users of the cluster who may get the path /page, by the token that they show.",
    )
    page_hosts: tuple[str, ...] = setting(
        NAMES,
        (),
        "Host names under which browsers may open the page with --page=open, beside addresses, localhost and Services:"
        " those of an Ingress.",
    )
    page_url: str = setting(
        URL,
        "",
        "Base URL under which people reach the page, for links in notices, alerts, job results and warning Events.",
    )
    notify_url: str = setting(
        URL, "", "Where a CloudEvent is sent when something begins to want a person, and when it no longer does."
    )
    notify_token_file: Path | None = setting(
        FILE, None, "File with a bearer token for --notify-url; read before each request, sent over https:// only."
    )
    traces_url: str = setting(
        URL,
        "",
        "Where spans are sent as OTLP over HTTP, in JSON: a collector's address with its path, often /v1/traces.",
    )
    traces_token_file: Path | None = setting(
        FILE, None, "File with a bearer token for --traces-url; read before each request, sent over https:// only."
    )
    metrics_names: int = setting(
        whole_number(0, 100),
        0,
        "How many objects of each kind are named in the metrics: those that have not been Ready for the longest.",
    )
    leader_elect: bool = setting(
        SWITCH, False, "Write only while holding a Lease; other replicas stand by with warm caches."
    )
    leader_elect_identity: str = setting(
        TEXT, "", "Name of this replica in the Lease, by default the host's; a random part is added."
    )
    leader_elect_resource_name: str = setting(TEXT, "vworkspace-operator", "Name of the Lease.")
    leader_elect_resource_namespace: str = setting(TEXT, "", "Namespace of the Lease, by default the operator's own.")
    leader_elect_lease_duration: str = setting(
        GO_DURATION, "15s", "How long a Lease that does not change is left to its holder; whole seconds."
    )
    leader_elect_renew_deadline: str = setting(
        GO_DURATION, "10s", "How long the leader writes on without renewing; then the process ends with status 1."
    )
    leader_elect_retry_period: str = setting(GO_DURATION, "2s", "How often the Lease is renewed, or looked at.")
    shard: str = setting(
        SHARD,
        str(WHOLE),
        "Which share of the namespaces this process works on: 0/4 is the first of four, which also does what is done"
        " once in a cluster (agent, Cluster status, credential). Needs --leader-elect: each shard has a Lease.",
    )
    grace_period: str = setting(
        GO_DURATION, "30s", "How long what is in hand may take after SIGTERM; a second signal ends at once."
    )
    log_format: str = setting(choice(*FORMATS), "auto", "How log lines look; auto is text on a terminal, else JSON.")
    log_level: str = setting(choice(*LEVELS), "info", "What is logged.")


SETTINGS: tuple[Setting, ...] = tuple(Setting.of(field) for field in attrs.fields(RunSettings))


def lease_policy(settings: RunSettings) -> LeasePolicy:
    """Return the durations of leader election from the settings."""
    return LeasePolicy(
        duration=seconds_of(settings.leader_elect_lease_duration),
        renew_deadline=seconds_of(settings.leader_elect_renew_deadline),
        retry_period=seconds_of(settings.leader_elect_retry_period),
    )


def shard_in(settings: RunSettings) -> Shard:
    """Return the shard whose namespaces this process reconciles, as the settings say."""
    return Shard.of(settings.shard)


def inconsistencies(settings: RunSettings) -> Iterator[str]:
    """Yield a problem for each contradiction between settings that are valid alone."""
    if problems := lease_policy(settings).problems():
        yield f"--leader-elect-lease-duration, -renew-deadline and -retry-period: {'; '.join(problems)}"
    if settings.page != PageAccess.NONE and not settings.listen:
        yield f"--page={settings.page} needs --listen: the page is served there"
    if shard_in(settings) != WHOLE and not settings.leader_elect:
        yield f"--shard={settings.shard} needs --leader-elect: by their Leases the shards know of each other"


_OF_THE_AGENT: Final = ("control_plane_url", "token_file")


def clashes(said: Set[str], settings: RunSettings) -> Iterator[str]:
    """Yield a problem for each setting that is missing, or has no effect, because of other settings.

    `said` are the names of the settings that users gave, even with invalid values.
    """
    usual = RunSettings()  # a printed configuration holds every setting
    of_election = sorted(
        name for name in said if name.startswith("leader_elect_") and getattr(settings, name) != getattr(usual, name)
    )
    if of_election and not settings.leader_elect:
        named = ", ".join(map(flag_of, of_election))
        yield f"{named}: of no use without --leader-elect, and two replicas would both write"
    if not settings.agent:
        needless = [flag_of(name) for name in _OF_THE_AGENT if name in said]
        if needless:
            yield f"{', '.join(needless)}: of no use with --no-agent, which calls no control plane"
        if "cluster_id" not in said:
            yield f"--no-agent needs --cluster-id: what the label {CLUSTER_ID} says on the objects of this cluster"
    elif "token_file" in said and not {"control_plane_url", "cluster_id"} <= said:
        yield "--token-file needs --control-plane-url and --cluster-id beside it"
    if "control_plane_url" in said:
        from vworkspace_odoo import (
            cleartext_problem,  # what speaks HTTP may not be installed where only help is asked for
        )

        if problem := cleartext_problem(settings.control_plane_url, allow_http=settings.allow_http_control_plane):
            yield f"--control-plane-url {problem}"
    for way in ("notify", "traces"):
        if f"{way}_token_file" in said and f"{way}_url" not in said:
            yield f"--{way}-token-file needs --{way}-url: nothing is sent without an address"
    if "webhook_client_names" in said and "webhook_client_authority" not in said:
        yield "--webhook-client-names needs --webhook-client-authority: without it no certificate is asked for"
    if len(said & {"webhook_listen", "webhook_certificates"}) == 1:
        yield "--webhook-listen and --webhook-certificates need each other"

"""The table of the settings of `run`, from which flags, help, docs/settings.md and checks are made.

A setting `log_level` is the flag `--log-level`, the variable `VWORKSPACE_LOG_LEVEL` and `logLevel` in the file. A name
must not end like the variables that Kubernetes makes for Services (`…_PORT`, `…_SERVICE_HOST`).
"""

from collections.abc import Iterator, Set
from enum import StrEnum
from pathlib import Path
from typing import Final

import attrs

from purekube.controller.lease.record import LeasePolicy
from purekube.controller.shard import WHOLE, Shard
from purekube_run.process.command_line import FORMATS, LEVELS
from vworkspace_app.settings.setting_types import (
    ADDRESS,
    FILE,
    FILES,
    FOLDER,
    GO_DURATION,
    LABEL,
    NAMES,
    NAMESPACE,
    SHARD,
    SWITCH,
    TEXT,
    URL,
    Setting,
    choice,
    seconds_of,
    setting,
    some_of,
    whole_number,
)
from vworkspace_core.api.installation import RELEASE_ACCOUNT
from vworkspace_core.api.labels import CLUSTER_ID
from vworkspace_core.jobs.payload_security import Signatures
from vworkspace_core.operations.approvals.claims import BINDINGS, DEFAULT_BINDINGS
from vworkspace_core.operations.settings import RUNNER


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
        FILE, None, "Kubeconfig; without it the pod's service account, KUBECONFIG, ~/.kube."
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
    interval: str = setting(GO_DURATION, "5m", "Interval of the Flux objects.")
    timeout: str = setting(GO_DURATION, "5m", "Timeout of Helm actions.")
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
        FILES, (), "Files with boxes: operators of further kinds, which run beside the operator's own."
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
        named = ", ".join(f"--{name.replace('_', '-')}" for name in of_election)
        yield f"{named}: of no use without --leader-elect, and two replicas would both write"
    if not settings.agent:
        needless = [f"--{name.replace('_', '-')}" for name in _OF_THE_AGENT if name in said]
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

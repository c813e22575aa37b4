"""The settings of the in-cluster operator, made from those of the command `run`.

Those that weaken security are found here, too (RUN-12).
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import attrs

from purekube.controller.shard import WHOLE, Shard
from purekube.ports import KubeApi
from vworkspace_app import VERSION
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.credentials.live_credential import CredentialsSource
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import PageAccess, shard_in
from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.installation import CREDENTIALS_SECRET, PRINTED, Installation
from vworkspace_core.clusters.inventory import weak_settings_of
from vworkspace_core.instances.context import Settings
from vworkspace_core.jobs.payload_security import Signatures
from vworkspace_core.operations.approvals import DEFAULT_BINDINGS
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates


@attrs.frozen
class OperatorSettings:
    """The settings of the operator's process, such as its namespace and the number of workers, and of its decisions."""

    decisions: Settings
    operations: OperationSettings = attrs.field()
    templates: Templates = attrs.field(factory=builtin_templates)
    required_bindings: frozenset[str] = DEFAULT_BINDINGS
    """The fields that an approval claim must be bound to, in addition to its Operation's name (OPS-4)."""
    require_signed: bool = False
    """True to accept only signed jobs, whatever Cluster objects require (PULL-9). False is reported in their status."""
    weak_settings: tuple[str, ...] = ()
    """Sentences for the Cluster's status about settings of the process that weaken security (RUN-12).

    The settings on which decisions depend are examined separately.
    """
    workers: int = 16
    """The number of workers of each controller."""
    identity: str = "vworkspace-operator"
    resync_seconds: float = 600.0
    """The interval at which every object is reconciled even without a watch event (REC-8)."""
    namespace: str = "vworkspace-system"
    """The operator's own namespace, with its Secret, job records and Leases."""
    shard: Shard = WHOLE
    """The shard of this process, which reconciles only the namespaces of its shard (RUN-13).

    The first shard also does the work that is needed once per cluster.
    """
    applied_boxes: bool = False
    """True to run applied boxes, which users apply to the cluster as OperatorBoxes.

    Of several shards, only the first runs them.
    """
    serves_webhooks: bool = False
    """True if this process serves webhooks, which applied boxes with several versions need."""
    box_namespaces: tuple[str, ...] = ()
    """The namespaces in which boxes and pure reconcilers (pure functions in Python) act; empty for all."""
    page_url: str = ""
    """The base URL of the operator's web page, for links to it."""
    notify_url: str = ""
    """The URL of the receiver of notices; empty to send none (SEE-6)."""
    notify_token_file: Path | None = None
    traces_url: str = ""
    """The URL of the collector of traces; empty to record none (SEE-7)."""
    traces_token_file: Path | None = None
    version: str = ""
    credentials_secret: str = CREDENTIALS_SECRET
    """The name of the credentials Secret, for the Cluster's status; empty if a token file is used."""
    disconnected_seconds: float = 300.0
    """The seconds without contact to the control plane until the Cluster's condition Disconnected is True (PULL-5)."""
    unreachable_seconds: float = 10.0
    """The seconds for which polls must fail until the Cluster's condition Connected is False.

    Thus a single poll that a proxy drops is not reported.
    """

    @property
    def runs_applied_boxes(self) -> bool:
        """Report whether this process runs the boxes that users apply to the cluster as OperatorBoxes."""
        return self.applied_boxes and self.shard.is_first

    @property
    def all_weak_settings(self) -> tuple[str, ...]:
        """All settings that weaken security, each as a sentence with its consequence."""
        return (*weak_settings_of(self.decisions, self.operations, self.required_bindings), *self.weak_settings)

    @operations.default
    def _operations_of_the_cluster(self) -> OperationSettings:
        return OperationSettings(
            self.decisions.cluster_id,
            admission=self.decisions.admission,
            installation=self.decisions.installation,
        )


def agent_settings(settings: RunSettings) -> AgentSettings | None:
    """Return the settings of the job agent, or None for a process that pulls no jobs.

    The settings can switch off the agent (SEE-4). If there are several shards, only the first has an agent (RUN-13).
    """
    if not (settings.agent and shard_in(settings).is_first):
        return None
    return AgentSettings(settings.wait, signatures=Signatures(settings.job_signatures))


def credentials_source(settings: RunSettings, api: KubeApi) -> CredentialsSource:
    """Return the source of the credentials for the control plane (PULL-8).

    It is the token file or the Secret, as the settings say.
    """
    return CredentialsSource(
        api,
        settings.namespace,
        settings.control_plane_url,
        settings.cluster_id,
        settings.token_file,
        agent=settings.agent,
        allow_http=settings.allow_http_control_plane,
    )


def operator_settings(
    settings: RunSettings, cluster_id: str, templates: Templates, installation: Installation = PRINTED
) -> OperatorSettings:
    """Return the settings of the operator for the cluster `cluster_id`, from the settings of the command `run`.

    `templates` define how Operations are carried out. `installation` says how the operator was installed, so that
    messages name a remedy that fits.
    """
    decisions = Settings(
        cluster_id=cluster_id,
        interval=settings.interval,
        timeout=settings.timeout,
        drift_detection=settings.drift_detection,
        default_service_account=settings.service_account or None,
        allowed_release_service_accounts=settings.allowed_release_service_accounts,
        allow_unimpersonated_releases=settings.allow_unimpersonated_releases,
        admission=AdmissionSettings(allow_http=settings.allow_http),
        policy=Policy(settings.allowed_chart_sources, settings.forbidden_versions),
        installation=installation,
    )
    operations = OperationSettings(
        cluster_id,
        velero_namespace=settings.velero_namespace,
        allowed_service_accounts=frozenset(settings.allowed_service_accounts),
        allowed_images=settings.allowed_images,
        admission=decisions.admission,
        installation=installation,
    )
    return OperatorSettings(
        decisions,
        operations,
        templates,
        required_bindings=frozenset(settings.required_claim_bindings),
        require_signed=settings.job_signatures == Signatures.REQUIRED,
        weak_settings=tuple(_weak_settings(settings)),
        workers=settings.workers,
        identity=socket.gethostname(),
        namespace=settings.namespace,
        shard=shard_in(settings),
        applied_boxes=settings.applied_boxes,
        serves_webhooks=bool(settings.webhook_listen),
        box_namespaces=settings.box_namespaces,
        page_url=settings.page_url,
        notify_url=settings.notify_url,
        notify_token_file=settings.notify_token_file,
        traces_url=settings.traces_url,
        traces_token_file=settings.traces_token_file,
        version=VERSION,
        credentials_secret=CREDENTIALS_SECRET if settings.agent and not settings.token_file else "",
        disconnected_seconds=settings.disconnected_after,
    )


def _weak_settings(settings: RunSettings) -> Iterator[str]:
    """Yield a sentence for each setting of the process that weakens security (RUN-12).

    Settings on which the controllers' decisions depend are left out; they are examined with the decisions.
    """
    if settings.agent and settings.job_signatures == Signatures.UNSIGNED:
        yield "--job-signatures=unsigned: a job without a signature counts, unless a Cluster requires one"
    if settings.agent and settings.allow_http_control_plane:
        yield "--allow-http-control-plane: the token and the jobs may go in the clear"
    if settings.writers and not settings.webhook_listen:
        yield "--writers binds nobody without webhooks, which --webhook-listen serves: whom RBAC lets can write"
    if settings.page == PageAccess.OPEN:
        yield "--page=open: whoever reaches --listen sees the names and messages of all tenants; token-review asks who"
    if settings.metrics_names and settings.listen:
        yield "--metrics-names: whoever reaches --listen sees names of objects of all tenants"

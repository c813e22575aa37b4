"""The conversion of the settings of the command `run` to those of the job agent and the controllers.

It also finds the settings that weaken security (RUN-12).
"""

import socket
from collections.abc import Iterator

from purekube.ports import KubeApi
from vworkspace_app import VERSION
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.credentials.source import CredentialsSource
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import PageAccess, shard_in
from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.installation import CREDENTIALS_SECRET, PRINTED, Installation
from vworkspace_core.instances.context import Settings
from vworkspace_core.jobs.payload_security import Signatures
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates


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

"""The command `run`, which runs the operator inside or outside a cluster."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio
import structlog

from purekube.controller.shard import WHOLE
from purekube_run.process.signals import run_unless_stopped
from purekube_run.process.terminal import SecretMask
from vworkspace_app.commands.shared.process import ProcessParts, configure_log, run_process
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.settings import agent_settings, credentials_source, operator_settings
from vworkspace_app.manager.startup import first_credentials
from vworkspace_app.operations.template_files import read_templates
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import shard_in
from vworkspace_app.webhooks import NO_KINDS, webhooks
from vworkspace_core.credentials.secret import Credentials

if TYPE_CHECKING:
    from vworkspace_app.commands.extensions import LoadedExtensions

_log = structlog.get_logger("operator")


def run_operator(settings: RunSettings) -> None:
    """Run the operator until the process gets a signal.

    Raises CommandError if no API server is configured, and for files that cannot be read.
    """
    log = configure_log(settings)
    templates, extensions = read_templates(settings.templates), _load_extensions(settings)
    shard = shard_in(settings)

    async def work(process: ProcessParts, stop: anyio.Event) -> None:
        source = credentials_source(settings, process.api)
        # One shard registers the cluster; the others wait for the Secret that it writes.
        registers = process.election.elected if shard.is_first else anyio.sleep_forever
        begun = await run_unless_stopped(
            stop, first_credentials(process.api, source, process.server, registers, process.machine.clock)
        )
        if begun is None:
            return
        credentials, installation = begun
        log.always(cluster_id=credentials.cluster_id, **({} if shard == WHOLE else {"shard": str(shard)}))
        _hide(log.secrets, credentials)
        _log.info("starting", control_plane=credentials.url or "none", namespace=settings.namespace)
        decided = operator_settings(settings, credentials.cluster_id, templates, installation)
        live = Live(credentials)
        live.subscribe(lambda fresh: _hide(log.secrets, fresh))
        kinds_served = nullcontext(NO_KINDS) if extensions is None else extensions.webhooks(settings, process)
        async with (
            kinds_served as kinds,
            webhooks(settings, decided.decisions, decided.templates, process.metrics, kinds),
            production_manager(
                process.api,
                decided,
                source,
                live,
                agent=agent_settings(settings),
                election=process.election,
                telemetry=process.telemetry,
                composites=() if extensions is None else extensions.composites,
                controllers=() if extensions is None else extensions.controllers,
                writers=() if extensions is None else extensions.writers,
                machine=process.machine,
            ) as manager,
        ):
            await manager.run(stop)

    run_process(settings, log, work)


def _load_extensions(settings: RunSettings) -> "LoadedExtensions | None":
    if not (settings.box or settings.controllers or settings.applied_boxes):
        return None
    from vworkspace_app.commands.extensions import LoadedExtensions

    return LoadedExtensions.load(settings)


def _hide(secrets: SecretMask, credentials: Credentials) -> None:
    """Mask the credentials in all output of the process, since any error may quote them."""
    secrets.add(credentials.token, credentials.stored.token, credentials.stored.previous)
    secrets.add(credentials.private_key, credentials.approval_secret, credentials.decryption_key)

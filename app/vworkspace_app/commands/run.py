"""`run`: run the operator, in a cluster or outside it."""

from functools import partial

import anyio
import structlog

from purekube.boxes.decide import composite_of
from purekube.composites.status_writers import StatusWriter
from purekube.controller.shard import WHOLE
from purekube_run.boxes.enforcement import Enforcement
from purekube_run.boxes.load import load_boxes, runnable
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.process.signals import run_in_background, run_unless_stopped
from purekube_run.process.terminal import SecretMask
from purekube_run.reconcilers.controller_loading import load_controllers
from purekube_run.versions.round_trips import check_kinds
from vworkspace_app.commands.process import (
    OperatorProcess,
    configure_log,
    run_process,
    warn_unreviewed,
    warn_unserved,
    with_applied_boxes,
)
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.configuration import agent_settings, credentials_source, operator_settings
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.startup import first_credentials
from vworkspace_app.operations.template_files import read_templates
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import shard_in
from vworkspace_app.webhooks import ServedKinds, webhooks
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.credentials.secret import Credentials

OPERATORS = tuple(StatusWriter(kind, "operator") for kind in OWN_KINDS)
"""The status writers of the operator's own kinds: for each, the operator itself."""

_log = structlog.get_logger("operator")


def run_operator(settings: RunSettings) -> None:
    """Run the operator until the process gets a signal.

    Raises CommandError if no API server can be determined, and for files that cannot be read.
    """
    log = configure_log(settings)
    templates = read_templates(settings.templates)
    loaded, boxes = load_controllers(settings.controllers), runnable(load_boxes(settings.box))
    composites = [*map(composite_of, boxes), *loaded.composites]
    check_kinds(loaded.resources)
    kinds = ServedKinds.of(boxes, loaded.resources)
    writers = (*OPERATORS, *loaded.writers)
    refuse_shared_kinds(composites, writers)
    shard = shard_in(settings)

    async def work(process: OperatorProcess, stop: anyio.Event) -> None:
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
        warn_unserved(settings, boxes)
        warn_unreviewed(settings, loaded.resources)
        _log.info("starting", control_plane=credentials.url or "none", namespace=settings.namespace)
        decided = operator_settings(settings, credentials.cluster_id, templates, installation)
        live = Live(credentials)
        live.subscribe(lambda fresh: _hide(log.secrets, fresh))
        enforcement = Enforcement(process.api, boxes)
        # Each shard reviews boxes, although one runs them: the webhooks' Service sends a review to any of them.
        served = with_applied_boxes(kinds, settings, process) if settings.applied_boxes else kinds
        async with (
            run_in_background(partial(enforcement.run, process.machine.clock)),
            webhooks(settings, decided.decisions, decided.templates, process.metrics, served),
            production_manager(
                process.api,
                decided,
                source,
                live,
                agent=agent_settings(settings),
                election=process.election,
                telemetry=process.telemetry,
                composites=composites,
                controllers=loaded.given,
                writers=writers,
                machine=process.machine,
            ) as manager,
        ):
            await manager.run(stop)

    run_process(settings, log, work)


def _hide(secrets: SecretMask, credentials: Credentials) -> None:
    """Mask the credentials in all output of the process, since any error may quote them."""
    secrets.add(credentials.token, credentials.stored.token, credentials.stored.previous)
    secrets.add(credentials.private_key, credentials.approval_secret, credentials.decryption_key)

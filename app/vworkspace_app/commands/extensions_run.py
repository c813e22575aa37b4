"""`box run` and `controllers run`: boxes and controllers in Python in a process of their own, without our own kinds."""

import random
import socket
from collections.abc import Mapping, Sequence

import anyio
import structlog

from purekube.composites.composite import Composite
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.controllers import GivenController
from purekube_run.reconcilers.extensions import ExtensionManager
from vworkspace_app.commands.process import OperatorProcess, configure_log, run_process
from vworkspace_app.manager.telemetry import components_of_extensions
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks import ServedKinds, webhooks_of_kinds
from vworkspace_core.api.labels import FIELD_MANAGER

_log = structlog.get_logger("operator")


def run_extensions(
    settings: RunSettings,
    composites: Sequence[Composite],
    controllers: Sequence[GivenController],
    webhooks: ServedKinds,
    namespaces: Sequence[str] = (),
    starting: Mapping[str, object] = {},
) -> None:
    """Run composites and controllers until a signal; the fields of `starting` are logged at the start.

    Composites work in the given namespaces, or in all. Raises CommandError for a cluster that cannot be named and for
    certificates that cannot be used.
    """

    async def work(process: OperatorProcess, stop: anyio.Event) -> None:
        _log.info("starting", **starting)
        async with webhooks_of_kinds(settings, process.metrics, webhooks):
            events = BackgroundEvents(
                process.api, process.machine.clock, instance=socket.gethostname(), field_manager=FIELD_MANAGER
            )
            options = ManagerOptions(
                process.machine.random,
                settings.workers,
                f"{random.getrandbits(32):08x}",
                process.telemetry.observer,
                namespaces=tuple(namespaces),
            )
            manager = ExtensionManager(
                process.api, process.machine.clock, events, options, composites=composites, controllers=controllers
            )
            process.telemetry.attach(components_of_extensions(manager, events, process.election.leases))
            async with anyio.create_task_group() as group:
                group.start_soon(events.run, name="events")
                group.start_soon(manager.run, process.election.elected, name="controllers")
                await stop.wait()
                await manager.finish()
                group.cancel_scope.cancel()

    run_process(settings, configure_log(settings), work)

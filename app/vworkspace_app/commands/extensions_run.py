"""`box run` and `controllers run`: boxes and controllers in Python in a process of their own, without our own kinds."""

import random
import socket
from collections.abc import Mapping, Sequence

import anyio
import structlog

from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of
from purekube.boxes.kind_webhooks import WebhookDuties
from purekube.composites.composite import Composite, status_writer
from purekube.versions import Converter
from purekube_run.boxes.applied_boxes import AppliedBoxes
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.controllers import GivenController
from purekube_run.reconcilers.extensions import ExtensionManager
from vworkspace_app.commands.process import OperatorProcess, configure_log, run_process
from vworkspace_app.manager.telemetry import components_of_extensions
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks import ServedKinds, webhooks_of_kinds
from vworkspace_core.api.labels import FIELD_MANAGER


def run_extensions(
    settings: RunSettings,
    composites: Sequence[Composite],
    controllers: Sequence[GivenController],
    webhooks: ServedKinds,
    namespaces: Sequence[str] = (),
    starting: Mapping[str, object] = {},
    *,
    applied: bool = False,
) -> None:
    """Run composites and controllers until a signal; the fields of `starting` are logged at the start.

    With `applied` the boxes that are applied to the cluster run too.

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
                process.api,
                process.machine.clock,
                events,
                options,
                composites=composites,
                controllers=controllers,
                namespaces=applied,
            )
            if applied:
                writers = tuple(map(status_writer, composites))
                api, clock, place = process.api, process.machine.clock, settings.namespace
                manager.load(AppliedBoxes(api, clock, events, manager, options, place, writers).controller())
            process.telemetry.attach(components_of_extensions(manager, events, process.election.leases))
            async with anyio.create_task_group() as group:
                group.start_soon(events.run, name="events")
                group.start_soon(manager.run, process.election.elected, name="controllers")
                await stop.wait()
                await manager.finish()
                group.cancel_scope.cancel()

    run_process(settings, configure_log(settings), work)


_log = structlog.get_logger("operator")


def run_boxes(
    settings: RunSettings, boxes: Sequence[Box], namespaces: Sequence[str] = (), *, applied: bool = False
) -> None:
    """Run boxes until a signal, in these namespaces or in all. Raises CommandError if no cluster can be determined."""
    warn_unserved(settings, boxes)
    composites = [*map(composite_of, boxes)]
    refuse_shared_kinds(composites)
    names, kinds = [box.name for box in boxes], [box.kind.crd_name for box in boxes]
    starting = {"boxes": names, "kinds": kinds}
    run_extensions(settings, composites, (), ServedKinds.of(boxes), namespaces, starting, applied=applied)


def warn_unserved(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Print a warning for boxes that need webhooks if none are served: nothing enforces their rules then."""
    if settings.webhook_listen:
        return
    for box in boxes:
        if duties := WebhookDuties.of(box):
            remedy = "give --webhook-listen and --webhook-certificates; box manifests prints what else belongs to it"
            _log.warning("the box needs a webhook that is not served", box=box.name, needs=str(duties), remedy=remedy)


def warn_unconverted(settings: RunSettings, converters: Sequence[Converter]) -> None:
    """Print a warning for kinds whose versions are not converted because no webhooks are served."""
    for one in () if settings.webhook_listen else converters:
        told = f"conversion of {', '.join(one.spokes)}"
        remedy = "give --webhook-listen and --webhook-certificates"
        _log.warning("the kind needs a webhook that is not served", kind=one.kind, needs=told, remedy=remedy)

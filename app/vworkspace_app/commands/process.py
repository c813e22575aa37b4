"""The process that runs controllers: API connection, logs, metrics, probes, page and leader election (RUN-4).

`run_process` runs any work in such a process. `run_extensions` uses it to run boxes and Python controllers without the
operator's own kinds.
"""

import random
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import OperatorError
from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of
from purekube.boxes.kind_webhooks import WebhookDuties
from purekube.composites.composite import Composite, status_writer
from purekube.ports import KubeApi
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import webhook_needs
from purekube_http import KubeApiClient, load_config
from purekube_run.boxes.applied_boxes import AppliedBoxes, AppliedInstallation
from purekube_run.boxes.applied_converters import AppliedConverters
from purekube_run.boxes.box_review import BoxReview
from purekube_run.boxes.enforcement import Enforcement
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.manager import Election
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process import logs
from purekube_run.process.command_line import CommandError
from purekube_run.process.footprint import reduce_footprint
from purekube_run.process.machine import Machine
from purekube_run.process.signals import run_in_background, run_until_stopped
from purekube_run.reconcilers.controllers import GivenController
from purekube_run.reconcilers.extensions import ExtensionManager
from vworkspace_app import VERSION
from vworkspace_app.manager.startup import leader_election
from vworkspace_app.manager.telemetry import Telemetry, components_of_extensions
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats, application
from vworkspace_app.observability.endpoints import probes
from vworkspace_app.page.screens import STREAMS
from vworkspace_app.page.serving import ServedPage
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.setting_types import seconds_of
from vworkspace_app.settings.table import PageAccess
from vworkspace_app.webhooks import ServedKinds, webhooks_of_kinds
from vworkspace_core.api.labels import FIELD_MANAGER

_log = structlog.get_logger("operator")


@attrs.frozen
class OperatorProcess:
    """The parts of a process that the function `work`, which runs controllers, gets as its argument.

    `server` is the URL of the API server.
    """

    log: logs.Logs
    server: str
    api: KubeApi
    machine: Machine
    election: Election
    metrics: Metrics
    telemetry: Telemetry


Work: TypeAlias = Callable[[OperatorProcess, anyio.Event], Awaitable[None]]
"""The function that a process runs. It works until the event is set, then finishes and returns."""


def configure_log(settings: RunSettings) -> logs.Logs:
    """Configure logging by the settings, and return the process's log."""
    return logs.configure(level=settings.log_level, form=settings.log_format, operator_version=VERSION)


def run_process(settings: RunSettings, log: logs.Logs, work: Work) -> None:
    """Run `work` until the process gets a signal. Raises CommandError if no API server can be determined."""
    reduce_footprint()
    try:
        config = load_config(settings.kubeconfig)
    except OperatorError as error:
        raise CommandError(error.message) from error
    if config.user is not None:
        log.secrets.add(config.user.token, config.user.password)
    machine = Machine()
    clock = machine.clock
    latest = LatestStats(ProcessStats(clock.monotonic()))
    metrics = Metrics(latest, clock.monotonic, config.cluster.server)
    telemetry = MetricsTelemetry(clock, latest, metrics, settings.metrics_names)
    page = ServedPage(PageAccess(settings.page), "vworkspace-operator", log.secrets.mask, settings.page_hosts)
    connect = partial(KubeApiClient, config)

    async def connected(stop: anyio.Event) -> None:
        async with (
            leader_election(settings, connect, machine) as election,
            connect(observe=metrics.request, before_write=election.before_write) as api,
            run_in_background(telemetry.run),
        ):
            page.ask(api)
            seen = page.beside(telemetry, clock)
            await work(OperatorProcess(log, config.cluster.server, api, machine, election, metrics, seen), stop)

    grace = seconds_of(settings.grace_period)
    served = application(latest, metrics, clock.monotonic, page.routes)
    with probes(settings.listen, served, streams=STREAMS):
        run_until_stopped(connected, grace=grace, listen=settings.webhook_listen, stopping=telemetry.stop)
    _log.info("stopped")


def run_extensions(
    settings: RunSettings,
    composites: Sequence[Composite],
    controllers: Sequence[GivenController],
    webhooks: ServedKinds,
    namespaces: Sequence[str] = (),
    starting: Mapping[str, object] = {},
    *,
    boxes: Sequence[Box] = (),
    applied: bool = False,
) -> None:
    """Run composites (boxes and pure reconcilers) and controllers until the process gets a signal.

    The fields of `starting` are logged at the start. `boxes` are the composites' boxes, whose rules are compared with
    the cluster's CRDs. With `applied`, the boxes that are in the cluster as OperatorBox objects run too. Composites act
    in `namespaces`, or in all namespaces if it is empty. Raises CommandError if no API server can be determined, and
    for unusable certificates.
    """

    async def work(process: OperatorProcess, stop: anyio.Event) -> None:
        _log.info("starting", **starting)
        kinds = with_applied_boxes(webhooks, settings, process) if applied else webhooks
        async with webhooks_of_kinds(settings, process.metrics, kinds):
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
            boxes_applied = None
            if applied:
                writers = tuple(map(status_writer, composites))
                api, clock, place = process.api, process.machine.clock, settings.namespace
                installed = AppliedInstallation(serves_webhooks=bool(settings.webhook_listen))
                boxes_applied = AppliedBoxes(api, clock, events, manager, options, place, writers, installed)
                manager.load(boxes_applied.controller())
            components = components_of_extensions(manager, events, process.election.leases, boxes_applied)
            process.telemetry.attach(components)
            async with anyio.create_task_group() as group:
                group.start_soon(events.run, name="events")
                group.start_soon(Enforcement(process.api, boxes).run, process.machine.clock, name="enforcement")
                group.start_soon(manager.run, process.election.elected, name="controllers")
                await stop.wait()
                await manager.finish()
                group.cancel_scope.cancel()

    run_process(settings, configure_log(settings), work)


def with_applied_boxes(webhooks: ServedKinds, settings: RunSettings, process: OperatorProcess) -> ServedKinds:
    """Return `webhooks` with those for boxes that are in the cluster as OperatorBox objects."""
    converters = AppliedConverters(process.api, process.machine.clock, settings.namespace)
    return webhooks.with_applied_boxes(BoxReview(process.api), converters.of_group)


def run_boxes(
    settings: RunSettings, boxes: Sequence[Box], namespaces: Sequence[str] = (), *, applied: bool = False
) -> None:
    """Run boxes until the process gets a signal.

    The boxes act in `namespaces`, or in all namespaces if `namespaces` is empty. With `applied`, the boxes that are in
    the cluster as OperatorBox objects run too. Raises CommandError if no API server can be determined.
    """
    warn_unserved(settings, boxes)
    composites = [*map(composite_of, boxes)]
    refuse_shared_kinds(composites)
    names, kinds = [box.name for box in boxes], [box.kind.crd_name for box in boxes]
    starting = {"boxes": names, "kinds": kinds}
    run_extensions(settings, composites, (), ServedKinds.of(boxes), namespaces, starting, boxes=boxes, applied=applied)


def warn_unserved(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Log a warning for each box that needs a webhook, if the settings enable no webhooks.

    Without its webhook nothing enforces a box's rules.
    """
    if settings.webhook_listen:
        return
    for box in boxes:
        if duties := WebhookDuties.of(box):
            remedy = "give --webhook-listen and --webhook-certificates; box manifests prints what else belongs to it"
            _log.warning("the box needs a webhook that is not served", box=box.name, needs=str(duties), remedy=remedy)


def warn_unreviewed(settings: RunSettings, resources: Sequence[Resource[Any, Any]]) -> None:
    """Log a warning for each kind that needs a webhook, if the settings enable no webhooks.

    Without its webhook nothing converts or validates a kind's objects.
    """
    for one in () if settings.webhook_listen else resources:
        if one.needs_webhooks:
            told, remedy = webhook_needs(one), "give --webhook-listen and --webhook-certificates"
            _log.warning("the kind needs a webhook that is not served", kind=one.kind.kind, needs=told, remedy=remedy)

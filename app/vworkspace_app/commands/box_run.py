"""`box run`: the operators of some files, and nothing else."""

import random
import socket
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import structlog

from vworkspace_app import VERSION
from vworkspace_app.composites.running import CompositeOptions, Composites
from vworkspace_app.controller.event_recorder import BackgroundEvents
from vworkspace_app.controller.informers import Informers
from vworkspace_app.credentials.live import Live
from vworkspace_app.manager.leader_election import leader_election
from vworkspace_app.manager.manager import Election
from vworkspace_app.manager.telemetry import Components, Telemetry
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats, application
from vworkspace_app.observability.endpoints import probes
from vworkspace_app.process import logs
from vworkspace_app.process.clock import SystemClock
from vworkspace_app.process.errors import CommandError
from vworkspace_app.process.signals import beside, run_until_stopped
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.shapes import seconds_of
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.decide import composite_of
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.ports import Clock, KubeApi
from vworkspace_kube import KubeApiClient, load_config

_log = structlog.get_logger("operator")


def run_boxes(settings: RunSettings, boxes: Sequence[Box]) -> None:
    """Run until a signal. Raises CommandError for a cluster that cannot be named."""
    log = logs.configure(level=settings.log_level, form=settings.log_format, operator_version=VERSION)
    try:
        config = load_config(settings.kubeconfig)
    except OperatorError as error:
        raise CommandError(error.message) from error
    if config.user is not None:
        log.secrets.add(config.user.token, config.user.password)
    clock = SystemClock()
    latest = LatestStats(ProcessStats(clock.monotonic()))
    metrics = Metrics(latest, clock.monotonic)
    telemetry = MetricsTelemetry(clock, latest, metrics)
    connect = partial(KubeApiClient, config)

    async def work(stop: anyio.Event) -> None:
        async with (
            leader_election(settings, connect) as election,
            connect(observe=metrics.request, before_write=election.before_write) as api,
            beside(telemetry.run),
        ):
            _log.info("starting", boxes=[box.name for box in boxes], kinds=[box.kind.crd_name for box in boxes])
            await boxes_until(stop, api, clock, boxes, settings.workers, election, telemetry)

    grace = seconds_of(settings.grace_period)
    with probes(settings.listen, application(latest, metrics, clock.monotonic)):
        run_until_stopped(work, grace=grace, stopping=telemetry.stop)
    _log.info("stopped")


async def boxes_until(
    stop: anyio.Event,
    api: KubeApi,
    clock: Clock,
    boxes: Sequence[Box],
    workers: int,
    election: Election,
    telemetry: Telemetry,
) -> None:
    """Run the boxes on `api` until `stop`, and then until what is in hand is done (RUN-4)."""
    events = BackgroundEvents(api, clock, instance=socket.gethostname())
    options = CompositeOptions(random.random, workers, f"{random.getrandbits(32):08x}", telemetry.observer)
    running = Composites(api, clock, [*map(composite_of, boxes)], events, options)
    telemetry.attach(_components(running, events, election.leases))
    async with anyio.create_task_group() as group:
        group.start_soon(events.run, name="events")
        group.start_soon(running.run, election.elected, name="boxes")
        await stop.wait()
        await running.finish()
        group.cancel_scope.cancel()


def _components(
    running: Composites, events: BackgroundEvents, leases: Callable[[], tuple[tuple[str, bool], ...]]
) -> Components:
    return Components(
        Informers(()), running.worker_pools, events, Live(Credentials()), None, leases, further=tuple(running.informers)
    )

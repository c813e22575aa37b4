"""Controllers in a process of their own, without the operator's own kinds: logs, metrics, probes, election (RUN-4)."""

import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import OperatorError
from purekube.ports import Clock, EventSink, KubeApi
from purekube_http import KubeApiClient, load_config
from purekube_run.composites.running import Composites
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.process import logs
from purekube_run.process.clock import SystemClock
from purekube_run.process.errors import CommandError
from purekube_run.process.signals import beside, run_until_stopped
from purekube_run.reconcilers.running import Controllers
from vworkspace_app import VERSION
from vworkspace_app.credentials.live import Live
from vworkspace_app.manager.leader_election import leader_election
from vworkspace_app.manager.manager import Election
from vworkspace_app.manager.telemetry import Components, Telemetry
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats, application
from vworkspace_app.observability.endpoints import probes
from vworkspace_app.page.links import STREAMS
from vworkspace_app.page.serving import ServedPage
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.shapes import seconds_of
from vworkspace_app.settings.table import PageAccess
from vworkspace_app.webhooks import NO_KINDS, ServedKinds, webhooks_of_kinds
from vworkspace_core.credentials.secret import Credentials

_log = structlog.get_logger("operator")


class Runnable(Protocol):
    """Some controllers with their caches and workers."""

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]: ...

    @property
    def informers(self) -> Iterable[InformerRunner]: ...

    async def run(self, elected: Callable[[], Awaitable[None]]) -> None:
        """Watch at once, work once `elected` returns, until cancelled."""
        ...

    async def finish(self) -> None:
        """Begin no further work, and wait for the work in progress."""
        ...


@attrs.frozen
class Surroundings:
    """The parts of a process that a controller needs: API client, clock, Events, telemetry, run id."""

    api: KubeApi
    clock: Clock
    events: EventSink
    telemetry: Telemetry
    run_id: str


MakeRunnable: TypeAlias = Callable[[Surroundings], Runnable]


def run_alone(
    settings: RunSettings, makers: Sequence[MakeRunnable], webhooks: ServedKinds = NO_KINDS, **starting: Any
) -> None:
    """Run until a signal, with these webhooks; the fields of `starting` are logged at the start.

    Raises CommandError for a cluster that cannot be named and for certificates that cannot be used.
    """
    log = logs.configure(level=settings.log_level, form=settings.log_format, operator_version=VERSION)
    try:
        config = load_config(settings.kubeconfig)
    except OperatorError as error:
        raise CommandError(error.message) from error
    if config.user is not None:
        log.secrets.add(config.user.token, config.user.password)
    clock = SystemClock()
    latest = LatestStats(ProcessStats(clock.monotonic()))
    metrics = Metrics(latest, clock.monotonic, config.cluster.server)
    telemetry = MetricsTelemetry(clock, latest, metrics, settings.metrics_names)
    page = ServedPage(PageAccess(settings.page), "vworkspace-operator", log.secrets.mask, settings.page_hosts)
    connect = partial(KubeApiClient, config)

    async def work(stop: anyio.Event) -> None:
        async with (
            leader_election(settings, connect) as election,
            connect(observe=metrics.request, before_write=election.before_write) as api,
            beside(telemetry.run),
        ):
            page.ask(api)
            _log.info("starting", **starting)
            async with (
                webhooks_of_kinds(settings, metrics, webhooks),
                at_work(api, clock, makers, election, page.beside(telemetry, clock)) as running,
            ):
                await stop.wait()
                await finished(running)

    grace = seconds_of(settings.grace_period)
    served = application(latest, metrics, clock.monotonic, page.routes)
    with probes(settings.listen, served, streams=STREAMS):
        run_until_stopped(work, grace=grace, listen=settings.webhook_listen, stopping=telemetry.stop)
    _log.info("stopped")


@asynccontextmanager
async def at_work(
    api: KubeApi, clock: Clock, makers: Sequence[MakeRunnable], election: Election, telemetry: Telemetry
) -> AsyncIterator[tuple[Runnable, ...]]:
    """Make the controllers, and run them while the block runs."""
    events = BackgroundEvents(api, clock, instance=socket.gethostname())
    has = Surroundings(api, clock, events, telemetry, f"{random.getrandbits(32):08x}")
    running = tuple(make(has) for make in makers)
    telemetry.attach(_components(running, events, election.leases))
    async with anyio.create_task_group() as group:
        group.start_soon(events.run, name="events")
        for one in running:
            group.start_soon(one.run, election.elected, name="controllers")
        yield running
        group.cancel_scope.cancel()


async def finished(running: Iterable[Runnable]) -> None:
    """Let the controllers begin no further work, and wait for the work in progress (RUN-4)."""
    async with anyio.create_task_group() as group:
        for one in running:
            group.start_soon(one.finish)


def _components(
    running: Sequence[Runnable], events: BackgroundEvents, leases: Callable[[], tuple[tuple[str, bool], ...]]
) -> Components:
    pools = {name: pool for one in running for name, pool in one.worker_pools.items()}
    informers = tuple(informer for one in running for informer in one.informers)
    return Components(
        Informers(()),
        pools,
        events,
        Live(Credentials()),
        None,
        leases,
        further=informers,
        composites=tuple(one for some in running if isinstance(some, Composites) for one in some.running),
        controllers=tuple(one for some in running if isinstance(some, Controllers) for one in some.running),
    )

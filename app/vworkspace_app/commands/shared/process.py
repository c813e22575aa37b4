"""The process that runs controllers: API connection, logs, metrics, probes, web page and leader election (RUN-4).

`run_process` runs any work in such a process. `run_extensions` uses it to run boxes and Python controllers without the
operator's own kinds.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import anyio
import attrs
import structlog

from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.errors import OperatorError
from purekube.ports import KubeApi
from purekube_http import load_config
from purekube_run.controller.manager import Election
from purekube_run.process import logs
from purekube_run.process.command_line import CommandError
from purekube_run.process.footprint import reduce_footprint
from purekube_run.process.machine import Machine
from purekube_run.process.signals import run_in_background, run_until_stopped
from vworkspace_app import VERSION
from vworkspace_app.commands.shared.session import client_of
from vworkspace_app.manager.startup import leader_election
from vworkspace_app.manager.telemetry import Telemetry
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats, application
from vworkspace_app.observability.endpoints import probes
from vworkspace_app.page.serving import ServedPage
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import PageAccess

_log = structlog.get_logger("operator")


@attrs.frozen
class ProcessParts:
    """The parts of a process: API client, log, metrics, leader election, and the machine's clock and random numbers.

    `run_process` passes them to the function that does the work of the process. `server` is the URL of the API server.
    """

    log: logs.Logs
    server: str
    api: KubeApi
    machine: Machine
    election: Election
    metrics: Metrics
    telemetry: Telemetry


_DRAIN_SECONDS: Final = 3.0
"""The seconds for which webhooks are served after SIGTERM, as API servers call them until the Service's endpoints have
changed. A refused connection would refuse the write."""

Work: TypeAlias = Callable[[ProcessParts, anyio.Event], Awaitable[None]]
"""The function that does the work of a process, such as running controllers, until the event is set."""


def configure_log(settings: RunSettings) -> logs.Logs:
    """Configure the logging of the process by the settings (level and format), and return its log."""
    return logs.configure(level=settings.log_level, form=settings.log_format, operator_version=VERSION)


def run_process(settings: RunSettings, log: logs.Logs, work: Work) -> None:
    """Run `work` with logs, metrics, probes and leader election until the process gets a signal.

    `work` gets the parts of the process, such as the API client, and an event that is set when it must stop.
    Raises CommandError if no API server is configured.
    """
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
    connect = partial(client_of, config)

    async def connected(stop: anyio.Event) -> None:
        async with (
            leader_election(settings, connect, machine) as election,
            connect(observe=metrics.request, before_write=election.before_write) as api,
            run_in_background(telemetry.run),
        ):
            page.ask(api)
            seen = page.beside(telemetry, clock)
            await work(ProcessParts(log, config.cluster.server, api, machine, election, metrics, seen), stop)

    grace = seconds_of(settings.grace_period)
    served = application(latest, metrics, clock.monotonic, page.routes)
    with probes(settings.listen, served, streams=page.streams):
        listen = settings.webhook_listen
        drain = _DRAIN_SECONDS if listen else 0.0
        run_until_stopped(connected, grace=grace, drain=drain, listen=listen, stopping=telemetry.stop)
    _log.info("stopped")

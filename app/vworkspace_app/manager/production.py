"""The operator with its production adapters: HTTP towards the API server and towards the control plane.

`run` starts exactly this, and so does `demo`: what the demo shows is what runs in a cluster.
"""

import random
from collections.abc import Awaitable, Callable

import anyio
import attrs
import structlog

from vworkspace_app.credentials.bootstrap import find_bootstrap
from vworkspace_app.credentials.live import Live
from vworkspace_app.credentials.rotation import RotationManager
from vworkspace_app.credentials.source import CredentialsSource
from vworkspace_app.credentials.watch import CredentialWatch
from vworkspace_app.jobs.settings import AgentSettings
from vworkspace_app.manager.local_operator import LocalOperator
from vworkspace_app.manager.operator import at_once
from vworkspace_app.manager.pull_operator import PullOperator
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import NoTelemetry, Telemetry
from vworkspace_app.process.clock import SystemClock
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.credentials.performer import CredentialPerformer
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.ports import Clock, ControlPlane, KubeApi
from vworkspace_odoo import ControlPlaneEndpoint, JosePayloads, ReloadingControlPlane

_log = structlog.get_logger("operator")


def _live(first: Credentials) -> Live[Credentials]:
    return Live(first)


@attrs.define
class Process:
    """One operator process on `api`. `credentials` is what `source` gave first, and is kept true to it.

    `lead` returns when this process may write; `stop` has it finish what is in hand (RUN-4).
    """

    api: KubeApi
    settings: OperatorSettings
    agent_settings: AgentSettings
    source: CredentialsSource
    credentials: Live[Credentials] = attrs.field(converter=_live)
    telemetry: Telemetry = attrs.field(factory=NoTelemetry)
    lead: Callable[[], Awaitable[None]] = at_once
    stop: anyio.Event = attrs.field(factory=anyio.Event)
    ready: anyio.Event = attrs.field(factory=anyio.Event, init=False)

    async def run(self) -> None:
        """Reconcile and pull jobs until cancelled, or until `stop` and the end of what is in hand."""
        clock = SystemClock()
        watch = CredentialWatch(self.source, self.credentials, clock)
        async with ReloadingControlPlane(
            lambda: endpoint_of(keeper.live.current, self.source.allow_http), lambda *heard: keeper.heard(*heard)
        ) as control:
            keeper = self._keeper(control, clock)

            async def reread() -> bool:
                await watch.refresh()
                return keeper.has_another()

            operator = PullOperator(
                self.api,
                control,
                self._job_store(),
                clock,
                self.settings,
                self.agent_settings,
                credentials=keeper.live,
                keeper=None if self.source.token_file else keeper,
                opener=lambda found: JosePayloads(found.signing_key, found.decryption_key),
                reread=reread,
                ready=self.ready,
                telemetry=self.telemetry,
                lead=self.lead,
            )
            async with anyio.create_task_group() as group:
                group.start_soon(watch.run, name="credentials")

                def look_for_enrolment() -> None:
                    group.start_soon(self._find_enrolment, keeper)

                keeper.on_locked_out = look_for_enrolment
                await operator.run(self.stop)
                group.cancel_scope.cancel()

    def _keeper(self, control: ControlPlane, clock: Clock) -> RotationManager:
        found, namespace = self.credentials.current, self.source.namespace
        performer = CredentialPerformer(self.api, control, namespace, found.url, found.cluster_id)
        return RotationManager(performer, self.credentials, clock, jitter=random.random())

    async def _find_enrolment(self, keeper: RotationManager) -> None:
        """A new registration token brings back a cluster whose credential is lost."""
        found = self.credentials.current
        try:
            way = await find_bootstrap(self.api, self.source.namespace, cluster_id=found.cluster_id, url=found.url)
        except OperatorError as error:
            _log.warning("no token is accepted, and no registration token can be looked for", error=error.message)
            return
        if way is not None:
            keeper.registrable(way.registrable)

    def _job_store(self) -> KubeJobStore:
        def report(message: str) -> None:
            _log.error("the job store: " + message)

        return KubeJobStore(self.api, self.settings.namespace, lock=anyio.Lock(), report=report)


@attrs.define
class LocalProcess:
    """One operator process on `api` without an agent (SEE-4); the fields are those of `Process`."""

    api: KubeApi
    settings: OperatorSettings
    source: CredentialsSource
    credentials: Live[Credentials] = attrs.field(converter=_live)
    telemetry: Telemetry = attrs.field(factory=NoTelemetry)
    lead: Callable[[], Awaitable[None]] = at_once
    stop: anyio.Event = attrs.field(factory=anyio.Event)
    ready: anyio.Event = attrs.field(factory=anyio.Event, init=False)

    async def run(self) -> None:
        """Reconcile until cancelled, or until `stop` and the end of what is in hand."""
        clock = SystemClock()
        watch = CredentialWatch(self.source, self.credentials, clock)
        operator = LocalOperator(
            self.api,
            clock,
            self.settings,
            self.credentials,
            ready=self.ready,
            telemetry=self.telemetry,
            lead=self.lead,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(watch.run, name="credentials")
            await operator.run(self.stop)
            group.cancel_scope.cancel()


def endpoint_of(credentials: Credentials, allow_http: bool = False) -> ControlPlaneEndpoint:
    """Where and as whom to call."""
    found = credentials
    return ControlPlaneEndpoint(found.url, found.token, found.ca, found.certificate, found.private_key, allow_http)

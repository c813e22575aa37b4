"""The operator without an agent (SEE-4): it reconciles what people and GitOps tools apply, and nobody is called."""

import random as random_source
from collections.abc import Awaitable, Callable

import anyio
import attrs

from vworkspace_app.clusters.wiring import cluster_controller
from vworkspace_app.credentials.live import Live
from vworkspace_app.manager.operator import Operator, at_once
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import NoTelemetry, Telemetry
from vworkspace_app.operations.controller import Approvals
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.ports import Clock, KubeApi


@attrs.define
class LocalOperator:
    """Everything that `PullOperator` does but for jobs, under `clock`.

    Of `credentials` only the approval secret is of use here. `ready` is set when the caches are settled; `lead` returns
    when this process may write; `random` gives numbers in [0, 1) for jitter.
    """

    api: KubeApi
    clock: Clock
    settings: OperatorSettings
    credentials: Live[Credentials] = attrs.field(factory=lambda: Live(Credentials()))
    random: Callable[[], float] = random_source.random
    ready: anyio.Event = attrs.field(factory=anyio.Event)
    telemetry: Telemetry = attrs.field(factory=NoTelemetry)
    lead: Callable[[], Awaitable[None]] = at_once

    async def run(self, stop: anyio.Event | None = None) -> None:
        """Reconcile until cancelled; or until `stop`, and then until what is in hand is done (RUN-4)."""
        operator = Operator(
            self.api,
            self.settings,
            self.clock,
            approvals=Approvals(lambda: self.credentials.current.approval_secret),
            random=self.random,
            observer=self.telemetry.observer,
            lead=self.lead,
        )
        self.credentials.subscribe(lambda _: operator.approval_secret_changed())
        cluster = cluster_controller(operator, self.api, self.settings, self.clock, None, self.credentials)
        self.telemetry.attach(operator, None)

        async def settle() -> None:
            await operator.wait_ready()
            self.ready.set()

        async def report() -> None:
            await operator.wait_ready_or_stuck()
            await self.lead()
            await cluster.run()

        async with anyio.create_task_group() as group:
            group.start_soon(operator.run, name="operator")
            group.start_soon(settle, name="ready")
            group.start_soon(report, name="cluster status")
            await (stop or anyio.Event()).wait()
            await operator.finish()
            group.cancel_scope.cancel()

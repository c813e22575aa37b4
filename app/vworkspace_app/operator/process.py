"""The whole operator on ports alone: it reconciles, and pulls jobs. Production, the demo and simulations run this."""

import random as random_source
from collections.abc import Awaitable, Callable

import anyio
import attrs

from vworkspace_app.agent import Agent, AgentSettings
from vworkspace_app.operator.assembly import Operator, OperatorSettings
from vworkspace_app.operator.telemetry import NoTelemetry, Telemetry
from vworkspace_app.runtime.live import Live
from vworkspace_core.agent import Scope
from vworkspace_core.agent.credentials import Credentials
from vworkspace_core.kinds.admission import admit
from vworkspace_core.kinds.problems import Problem
from vworkspace_core.known import APPLICATION_INSTANCE
from vworkspace_core.manifest import Manifest
from vworkspace_core.ports import Clock, ControlPlane, JobStore, KubeApi
from vworkspace_core.runtime.changes import Change, ChangeType

__all__ = ["PullOperator"]


@attrs.define
class PullOperator:
    """Operator and agent of one cluster, both under `clock`.

    The agent starts when the caches are settled: a job is applied only when the operator can see what comes of
    it. `ready` is set then. `credentials` are the live ones, whose change ends the waiting after failures; `reread`
    reads them again and tells whether the token changed; `random` gives numbers in [0, 1) for jitter.
    """

    api: KubeApi
    control: ControlPlane
    store: JobStore
    clock: Clock
    settings: OperatorSettings
    agent_settings: AgentSettings = attrs.field(factory=AgentSettings)
    credentials: Live[Credentials] = attrs.field(factory=lambda: Live(Credentials()))
    reread: Callable[[], Awaitable[bool]] | None = None
    random: Callable[[], float] = random_source.random
    ready: anyio.Event = attrs.field(factory=anyio.Event)
    telemetry: Telemetry = attrs.field(factory=NoTelemetry)

    async def run(self) -> None:
        """Reconcile and pull jobs until cancelled."""
        operator = Operator(self.api, self.settings, self.clock, random=self.random, observer=self.telemetry.observer)
        agent = self._agent(operator)
        self.credentials.subscribe(lambda _: agent.hurry())
        operator.on_instances(lambda change: agent.on_object_changed(_live(change), change.ref))
        self.telemetry.attach(operator, agent)
        async with anyio.create_task_group() as group:
            group.start_soon(operator.run, name="operator")
            await operator.wait_ready()
            group.start_soon(agent.run, name="agent")
            self.ready.set()

    def _agent(self, operator: Operator) -> Agent:
        return Agent(
            control=self.control,
            kube=self.api,
            store=self.store,
            clock=self.clock,
            scope=Scope(self.settings.decisions.cluster_id, self._admit),
            random=self.random,
            settings=self.agent_settings,
            reread=self.reread,
            objects=operator.informers.store(APPLICATION_INSTANCE).objects,
        )

    def _admit(self, manifest: Manifest) -> tuple[Problem, ...]:
        return admit(manifest, settings=self.settings.decisions.admission)


def _live(change: Change) -> Manifest | None:
    return None if change.type is ChangeType.DELETED else change.object

"""The whole operator on ports alone: it reconciles, and pulls jobs. Production, the demo and simulations run this."""

import random as random_source
from collections.abc import Awaitable, Callable

import anyio
import attrs

from vworkspace_app.clusters.controller import ClusterController, of_cluster
from vworkspace_app.clusters.wiring import cluster_controller
from vworkspace_app.credentials.bootstrap import rotation_requests
from vworkspace_app.credentials.live import Live
from vworkspace_app.credentials.rotation import RotationManager
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.jobs.settings import AgentSettings
from vworkspace_app.manager.operator import Operator, at_once
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import NoTelemetry, Telemetry
from vworkspace_app.operations.controller import Approvals
from vworkspace_core.api.admission import admit
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, metadata, ref_of
from vworkspace_core.apimachinery.problems import Problem
from vworkspace_core.apimachinery.resources import CLUSTER, OWN_KINDS
from vworkspace_core.controller.informer.changes import Change, ChangeType
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.jobs.payload_security import PayloadOpener, in_force, required_by
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.operations.parameters import template_problems
from vworkspace_core.ports import Clock, ControlPlane, JobStore, KubeApi


@attrs.define
class PullOperator:
    """Operator and agent of one cluster, both under `clock`.

    The agent starts when the caches are settled and `lead` has returned, which says that this process may write: a
    job is applied only when the operator can see what comes of it. `ready` is set when the caches are settled.
    `credentials` are the live ones, whose change ends the waiting after failures; `keeper` renews them, where they
    have a place to be kept; `reread` reads them again and tells whether there is another token to speak with;
    `opener` makes of them what opens payloads. `random` gives numbers in [0, 1) for jitter.
    """

    api: KubeApi
    control: ControlPlane
    store: JobStore
    clock: Clock
    settings: OperatorSettings
    agent_settings: AgentSettings = attrs.field(factory=AgentSettings)
    credentials: Live[Credentials] = attrs.field(factory=lambda: Live(Credentials()))
    keeper: RotationManager | None = None
    opener: Callable[[Credentials], PayloadOpener | None] = lambda _: None
    reread: Callable[[], Awaitable[bool]] | None = None
    random: Callable[[], float] = random_source.random
    ready: anyio.Event = attrs.field(factory=anyio.Event)
    telemetry: Telemetry = attrs.field(factory=NoTelemetry)
    lead: Callable[[], Awaitable[None]] = at_once

    async def run(self, stop: anyio.Event | None = None) -> None:
        """Reconcile and pull jobs until cancelled; or until `stop`, and then until what is in hand is done (RUN-4)."""
        approvals = Approvals(lambda: self.credentials.current.approval_secret, lambda: agent.state.skew)
        operator = Operator(
            self.api,
            self.settings,
            self.clock,
            approvals=approvals,
            random=self.random,
            observer=self.telemetry.observer,
            lead=self.lead,
        )
        agent = self._agent(operator)
        self._keep_secure(operator, agent)
        self._hurry_on_news(agent)
        self.credentials.subscribe(lambda _: operator.approval_secret_changed())
        cluster = cluster_controller(operator, self.api, self.settings, self.clock, agent, self.credentials)
        self.telemetry.attach(operator, agent)
        async with anyio.create_task_group() as group:
            group.start_soon(operator.run, name="operator")
            group.start_soon(self._report, operator, cluster, name="cluster status")
            group.start_soon(self._pull, operator, agent, name="agent")
            await (stop or anyio.Event()).wait()
            async with anyio.create_task_group() as finishing:
                finishing.start_soon(operator.finish)
                finishing.start_soon(agent.finish)
            group.cancel_scope.cancel()

    async def _report(self, operator: Operator, cluster: ClusterController) -> None:
        """Also while the operator waits for caches that cannot be filled: somebody has to say what for."""
        await operator.wait_ready_or_stuck()
        await self.lead()
        await cluster.run()

    async def _pull(self, operator: Operator, agent: Agent) -> None:
        leading = False

        def tell(change: Change) -> None:
            if leading:
                agent.on_object_changed(_live(change), change.ref)

        operator.on_own_objects(tell)
        await operator.wait_ready()
        self.ready.set()
        await self.lead()
        self._secure(operator, agent)
        for manifest in operator.own_objects():
            # What the last leader knew is learnt from how things stand: a standby has told nobody of anything.
            agent.on_object_changed(manifest, _ref(manifest))
        leading = True
        async with anyio.create_task_group() as group:
            if self.keeper is not None:
                self._keep(self.keeper, operator, agent)
                group.start_soon(self.keeper.run, name="credential")
            group.start_soon(agent.run, name="agent")

    def _agent(self, operator: Operator) -> Agent:
        return Agent(
            control=self.control,
            kube=self.api,
            store=self.store,
            clock=self.clock,
            scope=JobScope(self.settings.decisions.cluster_id, self._admit),
            random=self.random,
            settings=self.agent_settings,
            reread=self.reread,
            rotate=None if self.keeper is None else self.keeper.rotate,
            objects=operator.own_objects,
            noticed=operator.informers.notice,
            cluster=lambda: self._reporting(operator),
        )

    def _reporting(self, operator: Operator) -> Manifest | None:
        """The Cluster object that reports this operator; the first by name where there are several."""
        found = of_cluster(operator.informers.store(CLUSTER).objects(), self.settings.decisions.cluster_id)
        return min(found, key=lambda one: str(metadata(one).get("name")), default=None)

    def _keep(self, keeper: RotationManager, operator: Operator, agent: Agent) -> None:
        """Rotate when the Cluster object asks for it, by the control plane's clock, and tell of it (PULL-8)."""
        cluster_id, clusters = self.settings.decisions.cluster_id, operator.informers.store(CLUSTER).objects
        keeper.skew = lambda: agent.state.skew
        keeper.on_rotated = agent.tell_rotated
        operator.on_clusters(lambda _: keeper.wish(rotation_requests(clusters(), cluster_id)))
        keeper.wish(rotation_requests(clusters(), cluster_id))

    def _hurry_on_news(self, agent: Agent) -> None:
        """Try at once with another token, URL or certificate; other changes end no poll."""
        last = _connection(self.credentials.current)

        def changed(found: Credentials) -> None:
            nonlocal last
            before, last = last, _connection(found)
            if last != before and not (self.keeper is not None and self.keeper.is_falling_back):
                agent.hurry()

        self.credentials.subscribe(changed)

    def _keep_secure(self, operator: Operator, agent: Agent) -> None:
        """Judge payloads by the Cluster object and the keys of the moment (PULL-9)."""
        operator.on_clusters(lambda _: self._secure(operator, agent))
        self.credentials.subscribe(lambda _: self._secure(operator, agent))

    def _secure(self, operator: Operator, agent: Agent) -> None:
        required = required_by(operator.informers.store(CLUSTER).objects(), self.settings.decisions.cluster_id)
        agent.secure(in_force(required, self.opener(self.credentials.current), self.agent_settings.signatures))

    def _admit(self, manifest: Manifest) -> tuple[Problem, ...]:
        """The rules of the webhooks, those of an Operation's template included (PULL-10)."""
        problems = admit(manifest, settings=self.settings.decisions.admission)
        return problems or template_problems(manifest, self.settings.templates)


def _connection(found: Credentials) -> tuple[str, ...]:
    """What a request depends on."""
    return found.url, found.token, found.ca, found.certificate, found.private_key


def _ref(manifest: Manifest) -> ObjectRef:
    """Where one of our own objects lives."""
    kind = next(known for known in OWN_KINDS if known.kind == manifest["kind"])
    return ref_of(manifest, kind)


def _live(change: Change) -> Manifest | None:
    return None if change.type is ChangeType.DELETED else change.object

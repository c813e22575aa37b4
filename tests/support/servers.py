"""One world with several faces: API server, control plane and simulated Flux, with the operator between them.

`IN_PROCESS` has no sockets and virtual time. `ENVIRONMENT` is the cluster that the environment names, with
production adapters and real time (RUN-8). `OVER_HTTP` is like it, with an API server of this process that a test
may look into. A story gets the same `World` from all of them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import attrs
import pytest
import structlog
from anyio.abc import TaskGroup
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User

from kubelab.clock import VirtualClock, virtual_loop
from kubelab.downstream import DownstreamBehaviour
from kubelab.flux import FluxBehaviour
from kubelab.http.serving import serve_forever
from kubelab.model.calls import ADMIN, Caller
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.manifest import Manifest
from purekube.ports import Clock
from purekube_http import KubeApiClient
from purekube_run.process.machine import SystemClock
from tests.support.cluster_environment import environment_world
from tests.support.e2e_world import AGENT_TOKEN, CLUSTER, OPERATOR, OWN_NS, QUICK, World
from tests.support.operator_process import Forgetful, Runs
from tests.support.patience import PATIENCE
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.instances.context import Settings
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.http import serve as serve_control_plane
from vworkspace_odoo import HttpControlPlane

Story = Callable[[World], Awaitable[None]]
"""What is done to a world and asserted of it."""

OPERATOR_TOKEN = "operator-token"


@contextmanager
def _made_here(
    clock: Clock,
    behaviour: FluxBehaviour,
    *,
    crds: Sequence[Manifest] | None,
    engines: DownstreamBehaviour | None,
) -> Iterator[World]:
    yield World.create(clock, behaviour, crds=crds, engines=engines)


@attrs.frozen
class Face:
    """A way to run a story, with virtual time where `is_virtual`.

    `decisions` may shorten Flux's interval, or be all of the operator's settings.
    """

    name: str
    is_virtual: bool
    open: Callable[[World, OperatorSettings], Any]
    build: Callable[..., AbstractContextManager[World]] = _made_here

    def run(
        self,
        story: Story,
        *,
        behaviour: FluxBehaviour = QUICK,
        decisions: Settings | OperatorSettings | None = None,
        crds: Sequence[Manifest] | None = None,
        engines: DownstreamBehaviour | None = None,
        required_bindings: frozenset[str] = frozenset(),
    ) -> None:
        """Run `story` in a fresh world; what goes wrong in the background ends it too."""
        decided = decisions or Settings(cluster_id=CLUSTER)
        if isinstance(decided, Settings):
            decided = OperatorSettings(decided, required_bindings=required_bindings, identity="e2e")
        settings = decided
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())

        async def main() -> None:
            clock: Clock = VirtualClock() if self.is_virtual else SystemClock()
            with self.build(clock, behaviour, crds=crds, engines=engines) as world:
                async with self.open(world, settings):
                    await story(world)

        try:
            anyio.run(main, backend_options={"loop_factory": virtual_loop(START)} if self.is_virtual else {})
        except BaseExceptionGroup as group:
            raise alone(group) from None
        finally:
            structlog.reset_defaults()


def alone(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that it passed through; a group where it was more than one thing."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


START = datetime(2026, 6, 1, 12, tzinfo=UTC)


async def _start(group: TaskGroup, world: World, control: ControlPlane, settings: OperatorSettings) -> None:
    """The simulated controllers and the operator, until the group ends; returns when the operator is ready."""
    api: Any = Forgetful(world.operator_witness, world.lever)

    def make() -> Manager:
        store = KubeJobStore(api, OWN_NS, lock=anyio.Lock())
        return Manager(
            api,
            world.clock,
            settings,
            agent=AgentOptions(control, store),
            credentials=world.lever.credentials,
            random=lambda: 0.5,
        )

    simulate(group, world)
    runs = Runs(group, make)
    world.lever.begin_anew = runs.begin_anew
    await runs.start()


def simulate(group: TaskGroup, world: World) -> None:
    """Flux and, where the story wants them, the other downstream controllers, until the group ends."""
    if world.is_real:
        return
    group.start_soon(run_simulator, world.flux_witness, world.clock, world.flux)
    if world.engines is not None:
        group.start_soon(run_simulator, world.engines_witness, world.clock, world.engines)


@asynccontextmanager
async def _in_process(world: World, settings: OperatorSettings) -> AsyncIterator[None]:
    """No sockets: the ports on the servers themselves."""
    control = InProcessControlPlane(world.control, AGENT_TOKEN)
    async with anyio.create_task_group() as group:
        await _start(group, world, control, settings)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def _over_http(world: World, settings: OperatorSettings) -> AsyncIterator[None]:
    """Both servers on loopback sockets, and the adapters that production uses."""
    async with AsyncExitStack() as stack:
        cluster_url, control_url = await stack.enter_async_context(serving(world))
        world.operator_witness.api = await stack.enter_async_context(KubeApiClient(_config(cluster_url)))
        await stack.enter_async_context(_working(world, settings, control_url))
        yield


@asynccontextmanager
async def _in_the_environment(world: World, settings: OperatorSettings) -> AsyncIterator[None]:
    """The cluster is wherever it is; the operator and the simulated controllers are its clients, each as itself."""
    async with AsyncExitStack() as stack:
        control_url = await stack.enter_async_context(serving_around(world))
        assert world.reached is not None, "a world of the environment's cluster"
        world.operator_witness.api = await stack.enter_async_context(KubeApiClient(world.reached.operator))
        await stack.enter_async_context(_working(world, settings, control_url))
        yield


@asynccontextmanager
async def serving_around(world: World) -> AsyncIterator[str]:
    """What the operator finds beside the cluster: the control plane, whose URL this is, and connected controllers."""
    reached = world.reached
    assert reached is not None, "a world of the environment's cluster"
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(servers.cancel_scope.cancel)
        control_url = _Url()
        servers.start_soon(_serve_control, world.control, control_url)
        for witness in (world.flux_witness, world.engines_witness):
            witness.api = await stack.enter_async_context(KubeApiClient(reached.admin))
        yield await control_url.wait()


@asynccontextmanager
async def _working(world: World, settings: OperatorSettings, control_url: str) -> AsyncIterator[None]:
    """The operator and the simulated controllers at work; they end before the connections that they use close."""
    async with HttpControlPlane(control_url, lambda: AGENT_TOKEN) as control, anyio.create_task_group() as group:
        await _start(group, world, control, settings)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[tuple[str, str]]:
    """Both servers on loopback sockets: the URLs of the API server and of the control plane."""
    cluster_url, control_url = _Url(), _Url()
    async with anyio.create_task_group() as servers:
        servers.start_soon(_serve_cluster, world, cluster_url)
        servers.start_soon(_serve_control, world.control, control_url)
        try:
            yield await cluster_url.wait(), await control_url.wait()
        finally:
            servers.cancel_scope.cancel()


class _Url:
    """The address of a server that is starting."""

    def __init__(self) -> None:
        self._known = anyio.Event()
        self._url = ""

    def tell(self, url: str) -> None:
        self._url = url
        self._known.set()

    async def wait(self) -> str:
        with anyio.fail_after(PATIENCE):
            await self._known.wait()
        return self._url


async def _serve_cluster(world: World, url: _Url) -> None:
    tokens = {OPERATOR_TOKEN: Caller(OPERATOR), "admin": ADMIN}
    await serve_forever(world.cluster, ready=url.tell, tokens=tokens)


async def _serve_control(control: ControlPlaneServer, url: _Url) -> None:
    await serve_control_plane(control, "127.0.0.1", 0, admin_token="admin-token", ready=url.tell)


def _config(url: str) -> SingleConfig:
    found = KubeConfig.from_one(cluster=Cluster(server=url), user=User(token=OPERATOR_TOKEN)).get()
    assert found is not None
    return found


IN_PROCESS = Face("in process", True, _in_process)
OVER_HTTP = Face("over HTTP", False, _over_http)
ENVIRONMENT = Face("in a cluster", False, _in_the_environment, environment_world)
EVERY_DAY: tuple[Any, ...] = (IN_PROCESS, pytest.param(ENVIRONMENT, marks=pytest.mark.operator))
FACES: tuple[Any, ...] = (IN_PROCESS, pytest.param(ENVIRONMENT, marks=[pytest.mark.slow, pytest.mark.operator]))
"""In a cluster a story takes seconds: a plain run plays there six of the pull sequence alone (`EVERY_DAY`)."""

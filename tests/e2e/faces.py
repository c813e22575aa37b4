"""One world with two faces: API server, control plane and simulated Flux, with the operator between them.

`IN_PROCESS` has no sockets and virtual time; `OVER_HTTP` has production adapters, loopback sockets and real
time. A story gets the same `World` from both and looks at the servers only.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import attrs
import structlog
from anyio.abc import TaskGroup
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User

from tests.e2e.process import Forgetful, Runs
from tests.e2e.world import AGENT_TOKEN, CLUSTER, OPERATOR, OWN_NS, QUICK, World
from vworkspace_app.agent import AgentSettings
from vworkspace_app.operator import OperatorSettings, PullOperator
from vworkspace_app.runtime.clock import SystemClock
from vworkspace_core.jobstore import KubeJobStore
from vworkspace_core.manifest import Manifest
from vworkspace_core.ports import Clock, ControlPlane, KubeApi
from vworkspace_core.reconcile import Settings
from vworkspace_fake.apiserver.calls import ADMIN, Caller
from vworkspace_fake.apiserver.http.serving import serve as serve_cluster
from vworkspace_fake.apiserver.inprocess import InProcessKube
from vworkspace_fake.clock import VirtualClock, virtual_loop
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.serve import serve as serve_control_plane
from vworkspace_fake.downstream import DownstreamBehaviour
from vworkspace_fake.downstream import run as run_engines
from vworkspace_fake.flux import FluxBehaviour
from vworkspace_fake.flux import run as run_flux
from vworkspace_kube import LightkubeApi
from vworkspace_odoo import HttpControlPlane

__all__ = ["FACES", "IN_PROCESS", "OVER_HTTP", "Face", "Story"]

Story = Callable[[World], Awaitable[None]]
"""What is done to a world and asserted of it."""

OPERATOR_TOKEN = "operator-token"


@attrs.frozen
class Face:
    """A way to run a story, with virtual time where `is_virtual`.

    `decisions` may shorten Flux's interval, or be all of the operator's settings.
    """

    name: str
    is_virtual: bool
    open: Callable[[World, OperatorSettings], Any]

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
            world = World.create(clock, behaviour, crds=crds, engines=engines)
            async with self.open(world, settings):
                await story(world)

        try:
            anyio.run(main, backend_options={"loop_factory": virtual_loop(START)} if self.is_virtual else {})
        except BaseExceptionGroup as group:
            raise _alone(group) from None
        finally:
            structlog.reset_defaults()


def _alone(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that it passed through; a group where it was more than one thing."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


START = datetime(2026, 6, 1, 12, tzinfo=UTC)


async def _start(
    group: TaskGroup, world: World, kube: KubeApi, control: ControlPlane, settings: OperatorSettings
) -> None:
    """The simulated controllers and the operator, until the group ends; returns when the operator is ready."""
    api: Any = Forgetful(kube, world.lever)

    def make() -> PullOperator:
        store = KubeJobStore(api, OWN_NS, lock=anyio.Lock())
        return PullOperator(
            api,
            control,
            store,
            world.clock,
            settings,
            AgentSettings(),
            credentials=world.lever.credentials,
            random=lambda: 0.5,
        )

    group.start_soon(run_flux, world.flux_api, world.clock, world.flux)
    if world.engines is not None and world.engines_api is not None:
        group.start_soon(run_engines, world.engines_api, world.clock, world.engines)
    runs = Runs(group, make)
    world.lever.begin_anew = runs.begin_anew
    await runs.start()


@asynccontextmanager
async def _in_process(world: World, settings: OperatorSettings) -> AsyncIterator[None]:
    """No sockets: the ports on the servers themselves."""
    kube = InProcessKube(world.cluster, caller=Caller(OPERATOR), sleep=world.clock.sleep)
    control = InProcessControlPlane(world.control, AGENT_TOKEN)
    async with anyio.create_task_group() as group:
        await _start(group, world, kube, control, settings)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def _over_http(world: World, settings: OperatorSettings) -> AsyncIterator[None]:
    """Both servers on loopback sockets, and the adapters that production uses."""
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(servers.cancel_scope.cancel)
        cluster_url, control_url = _Url(), _Url()
        servers.start_soon(_serve_cluster, world, cluster_url)
        servers.start_soon(_serve_control, world.control, control_url)
        kube = await stack.enter_async_context(LightkubeApi(_config(await cluster_url.wait())))
        control = HttpControlPlane(await control_url.wait(), lambda: AGENT_TOKEN)
        await stack.enter_async_context(control)
        # Ends before the connections that it uses are closed.
        working = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(working.cancel_scope.cancel)
        await _start(working, world, kube, control, settings)
        yield


class _Url:
    """The address of a server that is starting."""

    def __init__(self) -> None:
        self._known = anyio.Event()
        self._url = ""

    def tell(self, url: str) -> None:
        self._url = url
        self._known.set()

    async def wait(self) -> str:
        with anyio.fail_after(30):
            await self._known.wait()
        return self._url


async def _serve_cluster(world: World, url: _Url) -> None:
    tokens = {OPERATOR_TOKEN: Caller(OPERATOR), "admin": ADMIN}
    await serve_cluster(world.cluster, ready=url.tell, tokens=tokens)


async def _serve_control(control: ControlPlaneServer, url: _Url) -> None:
    await serve_control_plane(control, "127.0.0.1", 0, admin_token="admin-token", ready=url.tell)


def _config(url: str) -> SingleConfig:
    found = KubeConfig.from_one(cluster=Cluster(server=url), user=User(token=OPERATOR_TOKEN)).get()
    assert found is not None
    return found


IN_PROCESS = Face("in process", True, _in_process)
OVER_HTTP = Face("over HTTP", False, _over_http)
FACES = (IN_PROCESS, OVER_HTTP)

"""RES-4, REC-14: what the operator may not list is told on the Cluster object, with the command that gives the right.

Where instances cannot do without the kind it waits, and says so as soon as it holds the Lease; where only Operations
of an engine need it, everything else goes on.
"""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from purekube.apimachinery import resources as known
from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send
from tests.e2e.test_cluster_status import QUICK, told
from tests.e2e.test_cluster_status import said as conditions
from tests.support.e2e_world import AGENT_TOKEN, CLUSTER, NS, OPERATOR, World, instance
from tests.support.e2e_world import QUICK as QUICK_FLUX
from tests.support.memory_job_store import MemoryJobStore
from tests.support.virtual_time import run
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.credentials.secret import Credentials
from vworkspace_fake.controlplane import InProcessControlPlane

pytestmark = pytest.mark.slow

COMMAND = "vworkspace-operator manifests --rbac-only | kubectl apply --server-side -f -"


class Restricted(KubeApi):
    """An API server on which the operator may not list these kinds; it says so as every authorizer does."""

    def __init__(self, api: KubeApi, denied: frozenset[Kind]) -> None:
        super().__init__(api.through(self._authorize).transport)
        self.denied = denied

    async def _authorize(self, request: KubeRequest, proceed: Send) -> Manifest:
        kind = request.kind
        if request.verb is KubeVerb.LIST and kind in self.denied:
            where = f'"{kind.plural}" in API group "{kind.group}" at the cluster scope'
            raise Forbidden(f'{kind.crd_name} is forbidden: User "{OPERATOR}" cannot list resource {where}')
        return await proceed(request)


Story = Callable[[World, Restricted], Awaitable[None]]


def beside(story: Story, *denied: Kind, agent: bool = True) -> None:
    """The story beside an operator that may not list these kinds."""

    async def main() -> None:
        world = World.create(VirtualClock(), QUICK_FLUX)
        whole = InProcessKube(world.cluster, caller=Caller(OPERATOR))
        api = Restricted(whole, frozenset(denied))
        credentials = Live(Credentials(url="https://odoo.example.com", cluster_id=CLUSTER))
        options = AgentOptions(InProcessControlPlane(world.control, AGENT_TOKEN), MemoryJobStore())
        manager = Manager(
            api,
            world.clock,
            QUICK,
            agent=options if agent else None,
            credentials=credentials,
            random=lambda: 0.5,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await story(world, api)
            group.cancel_scope.cancel()

    run(main)


async def healthy(world: World, wanted: str) -> None:
    await world.until(lambda: conditions(world).get("ControllersHealthy") == wanted, wanted, seconds=180)


@pytest.mark.parametrize("agent", [True, False], ids=["agent", "no agent"])
@pytest.mark.parametrize(
    "kind", [known.HELM_RELEASE, own_kinds.APPLICATION_INSTANCE, known.NAMESPACE], ids=lambda k: k.kind
)
def test_a_right_without_which_nothing_goes_is_told_while_the_operator_waits(kind: Kind, agent: bool) -> None:
    async def story(world: World, api: Restricted) -> None:
        await healthy(world, "False/ControllerDegraded")
        message = told(world, "ControllersHealthy")
        assert (
            f"{kind.kind} cannot be watched: the operator may not list {kind.crd_name.rstrip('.')} in the whole cluster"
            in message
        )
        assert COMMAND in message
        assert "not installed" not in message
        api.denied = frozenset()
        await world.until(
            lambda: conditions(world).get("ControllersHealthy") != "False/ControllerDegraded", "well", seconds=120
        )

    beside(story, kind, agent=agent)


def test_where_the_definitions_cannot_be_listed_none_is_called_missing() -> None:
    async def story(world: World, api: Restricted) -> None:
        await healthy(world, "False/ControllerDegraded")
        assert "customresourcedefinitions" in told(world, "ControllersHealthy")
        assert "not installed" not in told(world, "ControllersHealthy")

    beside(story, known.CUSTOM_RESOURCE_DEFINITION)


@pytest.mark.parametrize("kind", [known.JOB, known.PERSISTENT_VOLUME_CLAIM], ids=lambda kind: kind.kind)
def test_a_right_that_only_an_engine_needs_stops_nobody_else(kind: Kind) -> None:
    async def story(world: World, api: Restricted) -> None:
        world.create_object(
            instance(metadata={"name": "a", "namespace": NS, "labels": MANAGED}), own_kinds.APPLICATION_INSTANCE
        )
        ref = ObjectRef(own_kinds.APPLICATION_INSTANCE, NS, "a")
        await world.until(
            lambda: get_path(world.get(ref), "status", "conditions"), "the instance is looked at", seconds=30
        )
        await healthy(world, "False/ControllerDegraded")
        assert COMMAND in told(world, "ControllersHealthy")
        api.denied = frozenset()
        await world.until(
            lambda: conditions(world).get("ControllersHealthy") != "False/ControllerDegraded", "well", seconds=120
        )

    beside(story, kind)


MANAGED = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}

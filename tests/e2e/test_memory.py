"""RUN-3, RUN-5: a process that sees objects come and go remembers nothing of those that have gone."""

from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Set
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import structlog

from kubelab.clock import VirtualClock, virtual_loop
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.secret_material import LONGEST_MESSAGE, _remembered, safe
from tests.support.e2e_world import AGENT_TOKEN, CLUSTER, LATER, NS, OWN_NS, QUICK, World, instance
from tests.support.servers import START, simulate
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.instances.context import Settings
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_fake.controlplane import InProcessControlPlane

pytestmark = pytest.mark.slow

LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
OWN_CODE = ("vworkspace_app", "vworkspace_core")
FADES = 25 * 300 + 60
"""Virtual seconds after which all that was written about an object may be written again."""


def held(root: Any) -> Counter[str]:
    """How many things each container holds that can be reached from `root` through objects of our own classes."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    found: list[tuple[str, Any]] = [(type(root).__name__, root)]
    while found:
        path, one = found.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Mapping | Set | deque | list | tuple):
            sizes[path] += len(one)
            members = [*one, *one.values()] if isinstance(one, Mapping) else one
            found += [(f"{path}[]", member) for member in members if not isinstance(member, str | bytes)]
        elif type(one).__module__.startswith(OWN_CODE):
            found += [(f"{path}.{name}", value) for name, value in _fields(one)]
    return sizes


def _fields(one: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(one, "__dict__", {}).items()
    for cls in type(one).__mro__:
        for name in getattr(cls, "__slots__", ()):
            if name != "__weakref__" and hasattr(one, name):
                yield name, getattr(one, name)


def test_what_is_held_is_seen_wherever_it_is() -> None:
    """The walk that this file rests on finds what is in slots, in dicts and in what they hold."""
    inner = ObjectRef(APPLICATION_INSTANCE, "a", "b")
    root = OrderedDict({1: deque([1, 2, 3]), inner: {"x": {4, 5}}})
    assert sum(held(root).values()) == 2 + 3 + 1 + 2


async def generation(world: World, number: int) -> None:
    """Instances, with an Operation on each, come, get ready and go; then all that was told of them has faded."""
    names = [f"app-{number}-{one}" for one in range(4)]
    for name in names:
        world.create_object(upgradable(name), APPLICATION_INSTANCE)
    await world.until(lambda: len(world.running()) == len(names), "all run")
    for name in names:
        world.create_object(upgrade_of(name), OPERATION)
    await world.until(lambda: world.running() == [LATER] * len(names), "all are upgraded")
    for name in names:
        for kind in (OPERATION, APPLICATION_INSTANCE):
            world.delete_object(ObjectRef(kind, NS, name))
    await world.until(lambda: not world.running(), "none runs")
    await world.clock.sleep(FADES)


def upgradable(name: str) -> dict[str, Any]:
    prepared = {"ops.vworkspace.io/upgrade": "helm"}
    whole = instance(metadata={"name": name, "namespace": NS, "labels": LABELS, "annotations": prepared})
    return {**whole, "spec": {**whole["spec"], "release": {"name": name, "namespace": NS}}}


def upgrade_of(name: str) -> dict[str, Any]:
    target = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind, "name": name}
    spec = {"targetRef": target, "type": "Upgrade", "engine": "helm", "parameters": {"targetVersion": LATER}}
    labels = {**LABELS, "app.vworkspace.io/application-instance": name}
    meta = {"name": name, "namespace": NS, "labels": labels}
    return {**OPERATION.manifest(name, NS), "metadata": meta, "spec": spec}


@asynccontextmanager
async def process(world: World) -> AsyncIterator[Manager]:
    """The operator in the simulated cluster, for as long as the block."""
    api: Any = world.operator_witness
    settings = OperatorSettings(Settings(cluster_id=CLUSTER), identity="e2e")
    store = KubeJobStore(api, OWN_NS, lock=anyio.Lock())
    control = InProcessControlPlane(world.control, AGENT_TOKEN)
    agent = AgentOptions(control, store)
    manager = Manager(api, world.clock, settings, agent=agent, random=lambda: 0.5)
    async with anyio.create_task_group() as group:
        simulate(group, world)
        group.start_soon(manager.run)
        await manager.ready.wait()
        yield manager
        group.cancel_scope.cancel()


def test_nothing_is_remembered_of_what_has_gone() -> None:
    sizes: list[Counter[str]] = []

    async def story() -> None:
        world = World.create(VirtualClock(), QUICK)
        async with process(world) as manager:
            for number in range(3):
                await generation(world, number)
                sizes.append(held(manager))

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        anyio.run(story, backend_options={"loop_factory": virtual_loop(START)})
    finally:
        structlog.reset_defaults()

    assert sum(sizes[0].values()) > 100, "the walk gets around"
    assert sizes[2] - sizes[1] == Counter(), "memory grows here"


def test_a_long_message_is_not_kept_for_the_next_time() -> None:
    """Flux's messages have up to 32 Ki characters: thousands of them would be more than all else."""
    before = _remembered.cache_info()
    for number in range(100):
        assert len(safe(f"{number} failed: {'x' * 32_000}")) == LONGEST_MESSAGE
        assert safe(f"{number} is ready") == f"{number} is ready"
    after = _remembered.cache_info()

    assert after.misses - before.misses <= 100
    assert after.maxsize is not None
    assert after.maxsize * 512 <= 2**20, "a mebibyte of characters at most"

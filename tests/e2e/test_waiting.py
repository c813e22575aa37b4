"""Instances that wait for Flux cost next to nothing, however many: no write, and a bounded number of passes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import structlog

from kubelab.clock import VirtualClock
from kubelab.flux import FluxBehaviour
from kubelab.model.calls import RequestVerb
from tests.support.e2e_world import CLUSTER, OPERATOR, World, instance
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID, MANAGED_BY
from vworkspace_core.instances.context import Settings

HOUR = 3600
READING = (RequestVerb.GET, RequestVerb.LIST)
RESYNCS = 6
"""Every ten minutes each instance is reconciled, even if nothing changed (REC-8)."""
READS = HOUR // 10 * 3
"""Every ten seconds the objects of one instance that is in progress, of three kinds, are read live."""


def waiting(count: int) -> Counter[str]:
    """What an hour costs in which `count` instances wait for a Flux that does not run."""
    cost: Counter[str] = Counter()

    async def main() -> None:
        clock = VirtualClock()
        world = World.create(clock, FluxBehaviour())
        manager = Manager(
            world.operator_witness, clock, OperatorSettings(Settings(CLUSTER), identity="e2e"), random=lambda: 0.5
        )
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await _settled(world, count)
            pool = manager.worker_pools["applicationinstance"]
            before = Counter(pool.stats().results)
            world.cluster.audit.clear()
            turns = counted_turns()
            await clock.sleep(HOUR)
            cost["turns"] = turns()
            cost["passes"] = (Counter(pool.stats().results) - before).total()
            cost["postponed"] = pool.stats().postponed
            sent = world.cluster.audit.select(lambda entry: entry.user == OPERATOR and "/namespaces/" in entry.path)
            cost["reads"] = sum(entry.verb in READING for entry in sent)
            cost["writes"] = sum(entry.verb not in (*READING, RequestVerb.WATCH) for entry in sent)
            group.cancel_scope.cancel()

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        run(main)
    finally:
        structlog.reset_defaults()
    return cost


async def _settled(world: World, count: int) -> None:
    """Create instances, and return when each has its HelmRelease and says that it waits."""
    await world.clock.sleep(1)
    for at in range(count):
        manifest = instance()
        manifest["metadata"] |= {
            "name": f"shop-{at}",
            "labels": {MANAGED_BY: "control-plane", CLUSTER_ID: CLUSTER},
        }
        manifest["spec"]["release"]["name"] = f"shop-{at}"
        world.create_object(manifest, APPLICATION_INSTANCE)
    await world.clock.sleep(60)


def counted_turns() -> Callable[[], int]:
    """Count the turns of the running event loop from now on; the result returns their number so far."""
    loop: Any = asyncio.get_running_loop()
    turn, turns = loop._run_once, 0

    def counted() -> None:
        nonlocal turns
        turns += 1
        turn()

    loop._run_once = counted
    return lambda: turns


@pytest.mark.parametrize("count", [25, pytest.param(500, marks=pytest.mark.slow)])
def test_an_hour_of_waiting_writes_nothing_and_reads_no_more_for_more_instances_REC_6(count: int) -> None:
    cost = waiting(count)

    assert cost["writes"] == 0
    assert cost["postponed"] == 0
    assert cost["reads"] <= READS
    assert cost["passes"] <= count * RESYNCS + READS // 3
    assert cost["turns"] <= 4 * cost["passes"] + HOUR

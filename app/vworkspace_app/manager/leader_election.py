"""Leader election as `run` takes part in it: a connection of its own for the Lease, and a fence before every write."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from purekube.ports import KubeApi
from purekube_run.controller.election import Elector, Fence
from purekube_run.controller.manager import Election
from purekube_run.process.machine import Machine
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import lease_policy, shard_in
from vworkspace_core.api.labels import FIELD_MANAGER


@asynccontextmanager
async def leader_election(
    settings: RunSettings, connect: Callable[..., AbstractAsyncContextManager[KubeApi]], machine: Machine | None = None
) -> AsyncIterator[Election]:
    """Be a candidate while the block runs, and release the Lease after it.

    A block that fails or is cancelled may have writes in flight: then the Lease is left to expire. Raises LeaseLost.
    """
    if not settings.leader_elect:
        yield Election()
        return
    machine = machine or Machine()
    fence, policy = Fence(machine.monotonic), lease_policy(settings)
    async with connect(request_timeout=policy.request_timeout, connections=2) as api:
        elector = Elector(
            api,
            fence,
            namespace=settings.leader_elect_resource_namespace or settings.namespace,
            name=settings.leader_elect_resource_name,
            identity=f"{settings.leader_elect_identity or machine.host}_{machine.unique()}",
            field_manager=FIELD_MANAGER,
            wall=machine.clock.now,
            random=machine.random,
            policy=policy,
            shard=shard_in(settings),
        )
        async with anyio.create_task_group() as group:
            group.start_soon(elector.run, name="election")
            yield Election(elector.wait_leading, lambda: ((elector.name, elector.is_leader),), fence.check)
            await elector.release()

"""The participation in leader election: a separate connection renews the Lease, and a fence guards writes (RUN-4).

The fence permits writes only while this process holds the Lease.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import anyio
import attrs

from purekube.controller.lease.record import DEFAULT_LEASE_POLICY, LeasePolicy
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import KubeApi
from purekube_run.controller.election import Elector, Fence
from purekube_run.controller.manager import Election
from purekube_run.process.machine import Machine

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[KubeApi]]
"""A function that opens a client of the API server.

It is called with `request_timeout`, the seconds that a request may take, and with `connections`, the maximum number of
connections.
"""


@attrs.frozen
class Candidacy:
    """The settings for taking part in the leader election by one Lease.

    `name` is the candidate's name; by default it is the name of the machine. With a `shard` (one of several parts into
    which namespaces are divided), the process is a candidate for the Lease of that shard.
    """

    namespace: str
    lease: str
    field_manager: str
    policy: LeasePolicy = DEFAULT_LEASE_POLICY
    name: str = ""
    shard: Shard = WHOLE


@asynccontextmanager
async def candidate(candidacy: Candidacy, connect: Connect, machine: Machine) -> AsyncIterator[Election]:
    """Take part in the leader election while the block of `async with` runs, and release the Lease afterwards.

    The block gets the functions by which a manager waits for the election and guards writes. The connection for the
    Lease is opened with `connect`. If the block fails or is cancelled, the Lease is left to expire, since writes of the
    block may still be in flight. Raises LeaseLost if the Lease is lost during the block.
    """
    fence, policy = Fence(machine.monotonic), candidacy.policy
    async with connect(request_timeout=policy.request_timeout, connections=2) as api:
        elector = Elector(
            api,
            fence,
            namespace=candidacy.namespace,
            name=candidacy.lease,
            identity=f"{candidacy.name or machine.host}_{machine.unique()}",
            field_manager=candidacy.field_manager,
            wall=machine.clock.now,
            random=machine.random,
            policy=policy,
            shard=candidacy.shard,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(elector.run, name="election")
            yield Election(elector.wait_leading, lambda: ((elector.name, elector.is_leader),), fence.check)
            await elector.release()

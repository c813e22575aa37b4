"""The part that `run` takes in an election: a connection of its own to the Lease, and the fence before every write."""

import random
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import attrs

from vworkspace_app.controller.election import Elector, Fence
from vworkspace_app.manager.operator import at_once
from vworkspace_app.process.clock import SystemClock
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import lease_policy
from vworkspace_kube import KubeApiClient


@attrs.frozen
class Candidacy:
    """What the process needs of the election: when it may begin, and what every write is to pass.

    `elector` is None without one; then everything passes. `lease` is the name of what is stood for.
    """

    elector: Elector | None = None
    lead: Callable[[], Awaitable[None]] = at_once
    before_write: Callable[[], None] = lambda: None
    lease: str = ""

    def leases(self) -> tuple[tuple[str, bool], ...]:
        """The Lease stood for, and whether it is held (metrics)."""
        return () if self.elector is None else ((self.lease, self.elector.is_leader),)


@asynccontextmanager
async def candidacy(settings: RunSettings, connect: Callable[..., KubeApiClient]) -> AsyncIterator[Candidacy]:
    """Stand for election while the block runs, and give the Lease up after it.

    A block that fails or is cancelled may have writes under way: then the Lease is left to run out. Raises LeaseLost.
    """
    if not settings.leader_elect:
        yield Candidacy()
        return
    fence, policy = Fence(), lease_policy(settings)
    async with connect(request_timeout=policy.request_timeout, connections=2) as api:
        elector = Elector(
            api,
            fence,
            namespace=settings.leader_elect_resource_namespace or settings.namespace,
            name=settings.leader_elect_resource_name,
            identity=f"{settings.leader_elect_identity or socket.gethostname()}_{uuid.uuid4()}",
            wall=SystemClock().now,
            random=random.random,
            policy=policy,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(elector.run, name="election")
            yield Candidacy(elector, elector.wait_leading, fence.check, settings.leader_elect_resource_name)
            await elector.release()

"""Leader election with the settings of `run`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from purekube_run.controller.candidacy import Candidacy, Connect, candidate
from purekube_run.controller.manager import Election
from purekube_run.process.machine import Machine
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import lease_policy, shard_in
from vworkspace_core.api.labels import FIELD_MANAGER


@asynccontextmanager
async def leader_election(
    settings: RunSettings, connect: Connect, machine: Machine | None = None
) -> AsyncIterator[Election]:
    """Take part in the election while the block runs, if the settings ask for it, and release the Lease after it.

    Raises LeaseLost.
    """
    if not settings.leader_elect:
        yield Election()
        return
    candidacy = Candidacy(
        settings.leader_elect_resource_namespace or settings.namespace,
        settings.leader_elect_resource_name,
        FIELD_MANAGER,
        lease_policy(settings),
        settings.leader_elect_identity,
        shard_in(settings),
    )
    async with candidate(candidacy, connect, machine or Machine()) as election:
        yield election

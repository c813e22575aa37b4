"""The operator with its production adapters: lightkube towards the API server, HTTP towards the control plane.

`run` starts exactly this, and so does `demo`: what the demo shows is what runs in a cluster.
"""

import random

import anyio
import attrs
import structlog

from vworkspace_app.agent import Agent, AgentSettings
from vworkspace_app.credentials import Credentials, CredentialsSource
from vworkspace_app.operator import Operator, OperatorSettings
from vworkspace_app.problems import CommandError
from vworkspace_app.runtime.clock import SystemClock
from vworkspace_core.agent import Scope
from vworkspace_core.errors import OperatorError
from vworkspace_core.kinds.admission import admit
from vworkspace_core.kinds.problems import Problem
from vworkspace_core.known import APPLICATION_INSTANCE
from vworkspace_core.manifest import Manifest
from vworkspace_core.ports import KubeApi
from vworkspace_core.runtime.changes import Change, ChangeType
from vworkspace_fake.jobstore import MemoryJobStore
from vworkspace_odoo import HttpControlPlane

__all__ = ["Process"]

_log = structlog.get_logger("operator")


@attrs.define
class Process:
    """One operator process on `api`, with the credential that `source` gave first."""

    api: KubeApi
    settings: OperatorSettings
    agent_settings: AgentSettings
    source: CredentialsSource
    credentials: Credentials
    ready: anyio.Event = attrs.field(factory=anyio.Event, init=False)

    async def run(self) -> None:
        """Reconcile and pull jobs until cancelled."""
        clock = SystemClock()
        operator = Operator(self.api, self.settings, clock)
        async with HttpControlPlane(self.credentials.url, lambda: self.credentials.token) as control:
            agent = Agent(
                control=control,
                kube=self.api,
                store=MemoryJobStore(),
                clock=clock,
                scope=Scope(self.credentials.cluster_id, self._admit),
                random=random.random,
                settings=self.agent_settings,
                reread=self._reread,
                objects=operator.informers.store(APPLICATION_INSTANCE).objects,
            )
            operator.on_instances(lambda change: agent.on_object_changed(_live(change), change.ref))
            async with anyio.create_task_group() as group:
                group.start_soon(operator.run, name="operator")
                await operator.wait_ready()
                group.start_soon(agent.run, name="agent")
                self.ready.set()

    def _admit(self, manifest: Manifest) -> tuple[Problem, ...]:
        return admit(manifest, settings=self.settings.decisions.admission)

    async def _reread(self) -> bool:
        """After a 401: whether the credential has changed meanwhile."""
        try:
            fresh = await self.source.read()
        except (CommandError, OperatorError) as error:
            _log.warning("the credential cannot be read again", error=error.message)
            return False
        changed = fresh.token != self.credentials.token
        self.credentials = attrs.evolve(self.credentials, token=fresh.token)
        return changed


def _live(change: Change) -> Manifest | None:
    return None if change.type is ChangeType.DELETED else change.object

"""The operator with its production adapters: lightkube towards the API server, HTTP towards the control plane.

`run` starts exactly this, and so does `demo`: what the demo shows is what runs in a cluster.
"""

import anyio
import attrs
import structlog

from vworkspace_app.agent import AgentSettings
from vworkspace_app.credentials import Credentials, CredentialsSource
from vworkspace_app.operator import OperatorSettings, PullOperator
from vworkspace_app.problems import CommandError
from vworkspace_app.runtime.clock import SystemClock
from vworkspace_core.errors import OperatorError
from vworkspace_core.ports import KubeApi
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
        """Reconcile and pull jobs until cancelled. Raises CommandError for a control plane that has no usable URL."""
        async with self._control_plane() as control:
            operator = PullOperator(
                self.api,
                control,
                MemoryJobStore(),
                SystemClock(),
                self.settings,
                self.agent_settings,
                reread=self._reread,
                ready=self.ready,
            )
            await operator.run()

    def _control_plane(self) -> HttpControlPlane:
        try:
            return HttpControlPlane(self.credentials.url, lambda: self.credentials.token)
        except ValueError as error:
            raise CommandError(str(error)) from error

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

"""A simulated replica of the operator: the code of the command `run`, with its connection to the control plane."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final

import anyio
import attrs

from purekube.apimachinery.errors import Forbidden, Unauthorized
from purekube_run.controller.observer import ReconcileObserver
from purekube_run.process.machine import Machine
from purekube_run.simulation.connection import Link
from purekube_run.simulation.replica import Replica, Surroundings
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.settings import agent_settings, credentials_source, operator_settings
from vworkspace_app.manager.startup import first_credentials, leader_election
from vworkspace_app.manager.telemetry import LogOnly
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import shard_in
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_fake.controlplane import ControlPlaneServer
from vworkspace_fake.controlplane.inprocess_control_plane import InProcessControlPlane
from vworkspace_odoo import ControlPlaneEndpoint

_FAR: Final = (0.01, 0.06)
"""The minimum and maximum latency in seconds between a replica and the control plane."""
_FEW_EVENTS: Final = 12
"""The events that may wait in a run with an odd seed: a short outage then drops some, as a long one does."""


class ControlConnection:
    """The connection of one simulated operator process to the simulated control plane.

    `endpoint` returns the present token with the control plane's URL. Before each request `on_token` is called with the
    token, and after it `on_token_used`, also with whether the control plane accepted it.
    """

    def __init__(
        self,
        server: ControlPlaneServer,
        link: Link,
        on_token: Callable[[str], None],
        endpoint: Callable[[], ControlPlaneEndpoint],
        on_token_used: Callable[[str, bool], None],
    ) -> None:
        self._port = InProcessControlPlane(server, "")
        self._link = link
        self._on_token = on_token
        self._endpoint = endpoint
        self._on_token_used = on_token_used

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, name)

        async def call(*args: Any) -> Any:
            await self._link.pass_pause()
            token = self._endpoint().token
            self._on_token(token)
            await self._link.travel(_FAR)
            self._port.use_token(token)
            try:
                answer = await method(*args)
            except (Unauthorized, Forbidden):
                self._link.must_live()
                self._heard(name, token, accepted=False)
                raise
            self._link.must_live()
            self._heard(name, token, accepted=True)
            return answer

        return call

    def _heard(self, name: str, token: str, *, accepted: bool) -> None:
        if name != "register":
            self._on_token_used(token, accepted)


USER_PREFIX: Final = "system:serviceaccount:vworkspace-system:"


@attrs.frozen
class _ReplicaTelemetry(LogOnly):
    """The telemetry of a simulated operator process, which passes each reconcile to the simulated cluster."""

    replica: Replica

    def observer(self, controller: str) -> ReconcileObserver:
        """Return an observer that passes a controller's reconciles to the simulated cluster."""
        return self.replica.observer(controller)


class OperatorReplica(Replica):
    """A simulated process of the operator, which may crash and be started again.

    `manager` is the operator in the present process; it is None at the beginning of each start.
    """

    def __init__(self, world: Surroundings, control: ControlPlaneServer, name: str, settings: RunSettings) -> None:
        super().__init__(world, name, user=f"{USER_PREFIX}{name}")
        self.settings = settings
        self.manager: Manager | None = None
        self.on_token: list[Callable[[str], None]] = []
        """The functions that are called with the token of each request to the control plane, before it is sent."""
        self._control = control

    async def main(self, machine: Machine) -> None:
        """Run the operator as the command `run` does, on the connections of this replica.

        `machine` has the clocks and the random numbers of the simulated machine.
        """
        self.manager = None
        settings, shard = self.settings, shard_in(self.settings)
        async with leader_election(settings, self.connect, machine) as election:
            api = self.connect(election.before_write)
            source = credentials_source(settings, api)
            registers = election.elected if shard.is_first else anyio.sleep_forever
            credentials, installation = await first_credentials(api, source, "simulated", registers, self.clock)
            decided = operator_settings(settings, credentials.cluster_id, builtin_templates(), installation)
            async with production_manager(
                api,
                attrs.evolve(decided, identity=self.name),
                source,
                Live(credentials),
                agent=self._agent_settings(),
                election=election,
                telemetry=_ReplicaTelemetry(self),
                machine=machine,
                connect=lambda *told: ControlConnection(self._control, self.link, self._sent, *told),
            ) as manager:
                self.manager = manager
                await manager.run()

    def _agent_settings(self) -> AgentSettings | None:
        """Return the settings of the job agent, or None if the shard has none. With an odd seed few events may wait."""
        settings = agent_settings(self.settings)
        if settings is None or not self._world.seed % 2:
            return settings
        return attrs.evolve(settings, most_events=_FEW_EVENTS)

    def _sent(self, token: str) -> None:
        for observe in self.on_token:
            observe(token)

"""One replica of the operator: what `run` runs, on a machine of its own."""

from typing import Final

import anyio
import attrs

from purekube_run.controller.observer import ReconcileObserver
from purekube_run.process.machine import Machine
from purekube_run.simulation.replica import Replica, Surroundings
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.configuration import agent_settings, credentials_source, operator_settings
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.startup import first_credentials, leader_election
from vworkspace_app.manager.telemetry import LogOnly
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import shard_in
from vworkspace_app.simulation.control import ControlConnection
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_fake.controlplane import ControlPlaneServer

USER_PREFIX: Final = "system:serviceaccount:vworkspace-system:"


@attrs.frozen
class _ReplicaTelemetry(LogOnly):
    """`Telemetry` that passes the reconciles of a replica to its world."""

    replica: Replica

    def observer(self, controller: str) -> ReconcileObserver:
        """Return the observer of a controller."""
        return self.replica.observer(controller)


class OperatorReplica(Replica):
    """One process of the operator. `manager` is the one of its present life, once it has one."""

    def __init__(self, world: Surroundings, control: ControlPlaneServer, name: str, settings: RunSettings) -> None:
        super().__init__(world, name, user=f"{USER_PREFIX}{name}")
        self.settings = settings
        self.manager: Manager | None = None
        self._control = control

    async def main(self, machine: Machine) -> None:
        """Run what `run` runs, on the connections of this replica."""
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
                agent=agent_settings(settings),
                election=election,
                telemetry=_ReplicaTelemetry(self),
                machine=machine,
                connect=lambda *told: ControlConnection(self._control, self.link, *told),
            ) as manager:
                self.manager = manager
                await manager.run()

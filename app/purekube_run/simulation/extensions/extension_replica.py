"""A simulated process that runs extensions: boxes, pure reconcilers and controllers in Python, as `box run` does.

A box is an operator that is defined in YAML; a pure reconciler computes the children of an object by a pure function.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

import anyio
import attrs

from kubelab.entropy import SeededEntropy
from purekube.apimachinery.manifest import ObjectRef
from purekube.composites.composite import Composite
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Entropy
from purekube_run.boxes.applied_boxes import AppliedBoxes
from purekube_run.controller.candidacy import Candidacy, candidate
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.manager import Election
from purekube_run.controller.runner import ManagerOptions
from purekube_run.controller.status_reports import log_pass
from purekube_run.process.machine import Machine
from purekube_run.reconcilers.controllers import GivenController
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.simulation.replica import Replica, Surroundings


@attrs.frozen
class Extending:
    """The settings of a simulated process that runs extensions (controllers that users add).

    `composites` are boxes (operators defined in YAML) and pure reconcilers (functions that return the children of an
    object). With a `candidacy`, the process takes part in leader election; without one, it always leads. `concluded` is
    called with the result of each pass (reconcile of one object). `field_manager` is the field manager of Events.
    """

    composites: Sequence[Composite] = ()
    controllers: Sequence[GivenController] = ()
    candidacy: Candidacy | None = None
    field_manager: str = "controllers"
    entropy: Entropy = attrs.field(factory=lambda: SeededEntropy(0))
    concluded: Callable[[ObjectRef, ReconcileResult], None] = log_pass
    applied: str = ""
    """The namespace of the revisions of applied boxes (operators that OperatorBox objects define).

    If it is empty, applied boxes are not run.
    """


class ExtensionReplica(Replica):
    """A simulated process that runs extensions (boxes and controllers), and that can be killed and started again.

    `manager` runs the controllers of the present process; it is None before the first start.
    """

    def __init__(
        self,
        world: Surroundings,
        name: str,
        extending: Extending,
        *,
        user: str,
        latency: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(world, name, user=user, latency=latency)
        self.extending = extending
        self.manager: ExtensionManager | None = None

    @property
    def is_at_work(self) -> bool:
        """Report whether the process runs, and the caches of its informers have synced."""
        return self.is_running and self.manager is not None and self.manager.has_synced

    @property
    def is_at_rest(self) -> bool:
        """Report whether the process runs and has nothing to do.

        Then its caches have synced, and no reconcile runs or is due, even later.
        """
        return self.is_running and self.manager is not None and self.manager.is_at_rest

    async def main(self, machine: Machine) -> None:
        """Run the process on a simulated machine: its caches from the start, its controllers once it is elected."""
        self.manager = None
        async with self._election(machine) as election:
            await self._work(machine, election)

    def _election(self, machine: Machine) -> AbstractAsyncContextManager[Election]:
        candidacy = self.extending.candidacy
        return nullcontext(Election()) if candidacy is None else candidate(candidacy, self.connect, machine)

    async def _work(self, machine: Machine, election: Election) -> None:
        extending, api, clock = self.extending, self.connect(election.before_write), machine.clock
        events = BackgroundEvents(api, clock, instance=self.name, field_manager=extending.field_manager)
        options = ManagerOptions(
            machine.random, observer=self.observer, entropy=extending.entropy, concluded=extending.concluded
        )
        self.manager = ExtensionManager(
            api,
            clock,
            events,
            options,
            composites=extending.composites,
            controllers=extending.controllers,
            namespaces=bool(extending.applied),
        )
        if extending.applied:
            boxes = AppliedBoxes(api, clock, events, self.manager, options, extending.applied)
            self.manager.load(boxes.controller())
        async with anyio.create_task_group() as group:
            group.start_soon(events.run, name="events")
            group.start_soon(self.manager.run, election.elected, name="controllers")

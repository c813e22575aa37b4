"""The laws of the operator's world: safety at every change, convergence once faults have stopped (SIM-4).

The laws of writes, instances, Operations and jobs are in modules of their own.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kubelab.model.records import Record
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import EVENT, LEASE
from purekube_run.simulation.laws import Unsettled
from vworkspace_app.simulation.checks import OperatorChecks, leaks
from vworkspace_app.simulation.direct import differences
from vworkspace_app.simulation.instance_laws import InstanceLaws
from vworkspace_app.simulation.job_laws import JobLaws
from vworkspace_app.simulation.operation_laws import OperationLaws
from vworkspace_app.simulation.settled_laws import SETTLED, unsettled
from vworkspace_app.simulation.world import SimulatedWorld
from vworkspace_app.simulation.write_laws import WriteLaws
from vworkspace_core.api.kinds import CLUSTER

_COMPARED: Final = 10
"""One seed in so many is compared: it costs another world."""


class OperatorLaws(OperatorChecks):
    """The laws of every world, and those of instances, Operations, jobs and secrets."""

    own = (LEASE, CLUSTER)
    settles = SETTLED

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        instances = InstanceLaws(self, JobLaws(self))
        OperationLaws(self)
        WriteLaws(self, instances)
        self.observe(EVENT, self._event)
        world.on_decision.append(self._logged)

    def _event(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self.check("RES-7", "no secret in an Event", ref, not leaks(after.raw), "a secret")

    def _logged(self, ref: str, line: str) -> None:
        self.check("RES-7", "no secret in a log", ref, not leaks(line.encode()), "a secret")

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each law that does not hold yet."""
        return unsettled(self.operator_world)

    def compare(self) -> None:
        """Compare the end of every tenth run with that of a world that had the last intents alone."""
        if self.world.seed % _COMPARED:
            return
        first = next(differences(self.operator_world), None)
        ref, told = (first.object, first.told) if first else ("", "")
        self.check("SIM-4", "state of history is state of intents", ref, first is None, told)

    def finish(self) -> None:
        """Check that no report to the control plane holds a secret."""
        for job in self.operator_world.control.jobs:
            sent = msgspec.json.encode([job.statuses, job.result])
            self.check("RES-7", "no secret in a report", job.id, not leaks(sent), "a secret")

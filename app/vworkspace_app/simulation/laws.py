"""The laws of the operator's world: safety at every change, convergence once faults have stopped (SIM-4).

The laws of writes, instances, Operations and jobs are in modules of their own.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubelab.model.records import Record
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import EVENT, LEASE
from purekube_run.simulation.laws import Laws, Unsettled
from vworkspace_app.simulation.direct import differences
from vworkspace_app.simulation.instance_laws import InstanceLaws
from vworkspace_app.simulation.job_laws import JobLaws
from vworkspace_app.simulation.operation_laws import OperationLaws
from vworkspace_app.simulation.settled_laws import SETTLED, unsettled
from vworkspace_app.simulation.workload import PASSWORD
from vworkspace_app.simulation.world import OWN_NAMESPACE, SimulatedWorld
from vworkspace_app.simulation.write_laws import WriteLaws
from vworkspace_core.api.kinds import CLUSTER

_COMPARED: Final = 10
"""One seed in so many is compared: it costs another world."""
_SECRETS: Final = (PASSWORD.encode(), b"tok-")


class OperatorLaws(Laws):
    """The laws of every world, and those of instances, Operations, jobs and secrets."""

    own = (LEASE, CLUSTER)
    settles = SETTLED

    def __init__(self, world: SimulatedWorld) -> None:
        self.operator_world = world
        whole = world.settings.shards == 1
        super().__init__(world, ObjectRef(LEASE, OWN_NAMESPACE, "vworkspace-operator") if whole else None)
        self.jobs = JobLaws(self)
        self.instances = InstanceLaws(self)
        self.operations = OperationLaws(self)
        self.writes = WriteLaws(self)
        self.observe(EVENT, self._event)
        world.on_decision.append(self._logged)

    @staticmethod
    def shows_secret(value: Any) -> bool:
        """Report whether a value shows a secret of the simulation."""
        return _leaks(msgspec.json.encode(value))

    def _event(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self.check("RES-7", "no secret in an Event", ref, not _leaks(after.raw), "a secret")

    def _logged(self, ref: str, line: str) -> None:
        self.check("RES-7", "no secret in a log", ref, not _leaks(line.encode()), "a secret")

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
            self.check("RES-7", "no secret in a report", job.id, not _leaks(sent), "a secret")


def _leaks(text: bytes) -> bool:
    return any(secret in text for secret in _SECRETS)

"""The script of a simulation run: the actions of users and the faults, each with its time. `script_file` saves it.

A script is generated completely before it runs, so that parts can be left out to shrink a failing run.
"""

from collections.abc import Iterable

import attrs


@attrs.frozen(order=True)
class Act:
    """One action of a simulated user: what is done (`do`) to the object `name`, `at` seconds after the start of the
    run.

    `number` selects the values that the action writes.
    """

    at: float
    do: str
    name: str
    number: int = 0


@attrs.frozen(order=True)
class Incident:
    """One occurrence of the fault with the name `fault`: its time `at` after the start of the run, its duration
    `seconds`, and the index of the affected replica (simulated process).

    `choice`, a number in [0, 1), selects further details of the fault, such as the affected watch.
    """

    at: float
    fault: str
    replica: int = 0
    seconds: float = 0.0
    choice: float = 0.0


@attrs.frozen
class SimulationScript:
    """The script of a simulation run: the actions of users (`acts`) and the faults (`incidents`) with their times.

    After `seconds` all faults end. Namespaces are divided among `shards` shards of the operator, each with `replicas`
    processes (replicas). `boxes` are the files of boxes (operators that YAML files declare) to simulate, and
    `controllers` the names of a user's controllers; without either, the operator itself is simulated. If `applied` is
    True, the box is an OperatorBox in the simulated cluster. `crds` are files with further CRDs.
    """

    seed: int
    replicas: int
    seconds: float
    acts: tuple[Act, ...] = ()
    incidents: tuple[Incident, ...] = ()
    boxes: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    crds: tuple[str, ...] = ()
    shards: int = 1
    applied: bool = False

    @property
    def steps(self) -> tuple[Act | Incident, ...]:
        """All actions and faults, sorted by time."""
        return tuple(sorted((*self.acts, *self.incidents), key=lambda step: step.at))

    def with_steps(self, steps: Iterable[Act | Incident]) -> "SimulationScript":
        """Return a copy of the script with exactly these actions and faults."""
        steps = tuple(steps)
        acts = tuple(step for step in steps if isinstance(step, Act))
        incidents = tuple(step for step in steps if isinstance(step, Incident))
        return attrs.evolve(self, acts=acts, incidents=incidents)

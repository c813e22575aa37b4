"""A run as data: what users and misfortune do, each with its moment (`script_file` saves it).

A script is drawn from a seed at once, so that any part of it can be left out: so a failing run is shrunk.
"""

from collections.abc import Iterable

import attrs


@attrs.frozen(order=True)
class Act:
    """One act on one object, at a moment in seconds. `number` makes versions and values differ."""

    at: float
    do: str
    name: str
    number: int = 0


@attrs.frozen(order=True)
class Incident:
    """One fault: its moment, the replica that it befalls, and how long it lasts. `choice` is a number in [0, 1)."""

    at: float
    fault: str
    replica: int = 0
    seconds: float = 0.0
    choice: float = 0.0


@attrs.frozen
class SimulationScript:
    """A whole run. `seconds` is the time until faults stop; each of `shards` has that many replicas.

    `boxes` are files and `controllers` names of a user, whose objects live in the run, with the files `crds`; without
    any, it is the operator that is simulated.
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

    @property
    def steps(self) -> tuple[Act | Incident, ...]:
        """All acts and faults in their order."""
        return tuple(sorted((*self.acts, *self.incidents), key=lambda step: step.at))

    def with_steps(self, steps: Iterable[Act | Incident]) -> "SimulationScript":
        """Return the script with these acts and faults only."""
        steps = tuple(steps)
        acts = tuple(step for step in steps if isinstance(step, Act))
        incidents = tuple(step for step in steps if isinstance(step, Incident))
        return attrs.evolve(self, acts=acts, incidents=incidents)

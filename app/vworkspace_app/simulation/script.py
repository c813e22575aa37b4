"""A run as data: what users, the control plane and misfortune do, each with its moment; saved as a readable file.

A script is drawn from a seed at once, so that any part of it can be left out: so a failing run is shrunk.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs

from vworkspace_app.simulation.faults import FAULTS


class Do(StrEnum):
    """The acts of a workload."""

    CREATE = "create"
    UPGRADE = "upgrade"
    BREAK = "upgrade to a broken version"
    VALUES = "change values"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"
    ANNOTATE = "annotate"
    DELETE_CHILD = "delete the HelmRelease"
    ANNOTATE_CHILD = "annotate the HelmRelease"
    JOB = "job that applies"
    DELETE_JOB = "job that deletes"
    REPLAY = "job offered again"
    BACKUP = "backup"


_EDITS: Final = (
    *((Do.UPGRADE, 5), (Do.VALUES, 3), (Do.BREAK, 1), (Do.SUSPEND, 1), (Do.RESUME, 2), (Do.DELETE, 2), (Do.CREATE, 1)),
    *((Do.ANNOTATE, 1), (Do.DELETE_CHILD, 1), (Do.ANNOTATE_CHILD, 1), (Do.BACKUP, 1)),
)
_JOBS: Final = ((Do.JOB, 6), (Do.DELETE_JOB, 2), (Do.REPLAY, 2), (Do.BACKUP, 1))
_OF_JOBS: Final = 3
"""Every third instance is managed by jobs of the control plane, the others by people."""


@attrs.frozen(order=True)
class Act:
    """One act on one instance, at a moment in seconds. `number` makes versions and values differ."""

    at: float
    do: Do
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
    """A whole run. `seconds` is the time until faults stop."""

    seed: int
    replicas: int
    seconds: float
    acts: tuple[Act, ...] = ()
    incidents: tuple[Incident, ...] = ()

    @property
    def steps(self) -> tuple[Act | Incident, ...]:
        """All acts and faults in their order."""
        return tuple(sorted((*self.acts, *self.incidents), key=lambda step: step.at))

    def with_steps(self, steps: Sequence[Act | Incident]) -> "SimulationScript":
        """Return the script with these acts and faults only."""
        acts = tuple(step for step in steps if isinstance(step, Act))
        incidents = tuple(step for step in steps if isinstance(step, Incident))
        return attrs.evolve(self, acts=acts, incidents=incidents)

    def write(self, path: Path, broken: Mapping[str, Any] | None = None) -> None:
        """Save as JSON, a line for each act and fault. `broken` says which law the run breaks."""
        head: dict[str, Any] = {"seed": self.seed, "replicas": self.replicas, "seconds": self.seconds}
        head |= {"broken": broken} if broken else {}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        for name, steps in (("acts", self.acts), ("incidents", self.incidents)):
            rows = ",\n".join("    " + json.dumps(attrs.asdict(step)) for step in steps)
            lines.append(f'  "{name}": [\n{rows}\n  ]{"," if name == "acts" else ""}')
        path.write_text("{\n" + "\n".join(lines) + "\n}\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "SimulationScript":
        """Read a saved script. Raises OSError, ValueError, KeyError and TypeError for one that cannot be read."""
        data = json.loads(path.read_text(encoding="utf-8"))
        acts = tuple(Act(**{**act, "do": Do(act["do"])}) for act in data["acts"])
        incidents = tuple(Incident(**incident) for incident in data["incidents"])
        if unknown := {incident.fault for incident in incidents} - set(FAULTS):
            raise ValueError(f"there is no fault {', '.join(sorted(unknown))}")
        return cls(data["seed"], data["replicas"], data["seconds"], acts, incidents)


def draw(seed: int, *, seconds: float, instances: int, replicas: int, faults: Sequence[str]) -> SimulationScript:
    """Return the script of a seed: instances that live, and faults at their rates."""
    random = Random(f"script {seed}")
    acts = sorted(act for number in range(instances) for act in _life(random, number, seconds))
    incidents = sorted(incident for name in faults for incident in _incidents(random, name, seconds, replicas))
    return SimulationScript(seed, replicas, seconds, tuple(acts), tuple(incidents))


def _life(random: Random, number: int, seconds: float) -> Iterator[Act]:
    """Yield the acts on one instance: it is made early, then changed about once in half an hour."""
    by_jobs = number % _OF_JOBS == _OF_JOBS - 1
    name = f"{'job' if by_jobs else 'app'}-{number}"
    at = random.uniform(1.0, 0.3 * seconds)
    yield Act(round(at, 3), Do.JOB if by_jobs else Do.CREATE, name)
    kinds, weights = zip(*(_JOBS if by_jobs else _EDITS), strict=True)
    step = 0
    while (at := at + random.expovariate(1 / min(1800.0, seconds / 2))) < seconds:
        step += 1
        yield Act(round(at, 3), random.choices(kinds, weights)[0], name, step)


def _incidents(random: Random, name: str, seconds: float, replicas: int) -> Iterator[Incident]:
    fault = FAULTS[name]
    mean = 3600.0 / fault.per_hour
    at = 0.0
    while (at := at + random.expovariate(1 / mean)) < seconds:
        lasts = round(random.uniform(*fault.lasts), 3)
        yield Incident(round(at, 3), name, random.randrange(replicas), lasts, round(random.random(), 4))

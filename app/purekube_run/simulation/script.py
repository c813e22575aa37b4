"""A run as data: what users and misfortune do, each with its moment; saved as a readable file.

A script is drawn from a seed at once, so that any part of it can be left out: so a failing run is shrunk.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

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

    def with_steps(self, steps: Iterable[Act | Incident]) -> "SimulationScript":
        """Return the script with these acts and faults only."""
        steps = tuple(steps)
        acts = tuple(step for step in steps if isinstance(step, Act))
        incidents = tuple(step for step in steps if isinstance(step, Incident))
        return attrs.evolve(self, acts=acts, incidents=incidents)

    def write(self, path: Path, broken: Mapping[str, Any] | None = None, also: Mapping[str, Any] | None = None) -> None:
        """Save as JSON, a line for each act and fault. `broken` says which law the run breaks, `also` of what it is."""
        head: dict[str, Any] = {"seed": self.seed, "replicas": self.replicas, "seconds": self.seconds}
        head |= {**(also or {}), **({"broken": broken} if broken else {})}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        for name, steps in (("acts", self.acts), ("incidents", self.incidents)):
            rows = ",\n".join("    " + json.dumps(attrs.asdict(step)) for step in steps)
            lines.append(f'  "{name}": [\n{rows}\n  ]{"," if name == "acts" else ""}')
        path.write_text("{\n" + "\n".join(lines) + "\n}\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path, deeds: Collection[str], faults: Collection[str]) -> "SimulationScript":
        """Read a saved script of these acts and faults.

        Raises OSError, ValueError, KeyError and TypeError for one that cannot be read.
        """
        data = json.loads(path.read_text(encoding="utf-8"))
        acts = tuple(Act(**act) for act in data["acts"])
        incidents = tuple(Incident(**incident) for incident in data["incidents"])
        _refuse("act", {act.do for act in acts} - set(deeds))
        _refuse("fault", {incident.fault for incident in incidents} - set(faults))
        return cls(data["seed"], data["replicas"], data["seconds"], acts, incidents)


def _refuse(what: str, unknown: Collection[str]) -> None:
    if unknown:
        raise ValueError(f"there is no {what} {', '.join(sorted(unknown))}")

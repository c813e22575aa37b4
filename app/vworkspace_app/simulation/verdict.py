"""The verdict on simulations with a range of seeds: what was tried, and which runs broke a law (SIM-1).

A law is a required property. A pod's verdict is its termination message, of which the kubelet keeps 4,096 bytes;
`collect` adds up all verdicts.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
import msgspec

from purekube_run.simulation.run import SimulationOutcome

# The kubelet keeps no more of a termination message.
MOST_BYTES: Final = 4096
_MOST_BROKEN: Final = 10
_SETS: Final = ("laws", "crashed_at", "points")
_FORMAT: Final = "vworkspace.io/verdict/v1"


@attrs.frozen
class BrokenRun:
    """A run that broke a law (required property): its seed, the law, and the file or ConfigMap in which it is saved."""

    seed: int
    clause: str
    law: str
    saved: str


@attrs.define
class SimulationTally:
    """The sums over several simulation runs, whose first seed is `first`.

    `broken_runs` is the number of runs that broke a law (required property). `broken` lists these runs; a termination
    message has only the first few. `points` are the kinds of writes in the runs, such as `patch pods`, and `crashed_at`
    those at which a process crashed. `laws` are the laws that were checked, and `happened` counts the faults by name.
    """

    first: int = 0
    runs: int = 0
    acts: int = 0
    jobs: int = 0
    writes: int = 0
    seconds: float = 0.0
    points: set[str] = attrs.field(factory=set)
    crashed_at: set[str] = attrs.field(factory=set)
    laws: set[str] = attrs.field(factory=set)
    happened: dict[str, int] = attrs.field(factory=dict)
    checks: dict[str, int] = attrs.field(factory=dict)
    broken_runs: int = 0
    broken: list[BrokenRun] = attrs.field(factory=list)

    def add(self, outcome: SimulationOutcome) -> None:
        """Add the outcome of a run to the sums."""
        self.runs += 1
        self.acts += outcome.acts
        self.jobs += outcome.counts.get("jobs", 0)
        self.writes += outcome.writes
        self.seconds += outcome.seconds
        self.points |= outcome.write_points
        self.crashed_at |= outcome.crashed_at
        self.laws |= {f"{clause} {law}" for clause, law in outcome.laws}
        _count(self.happened, outcome.happened)
        _count(self.checks, outcome.checks)

    def add_broken(self, run: BrokenRun) -> None:
        """Add a run that broke a law (required property)."""
        self.broken_runs += 1
        self.broken.append(run)

    def merge(self, other: "SimulationTally") -> None:
        """Add the sums of another tally."""
        self.first = min(self.first, other.first) if self.runs else other.first
        for field in ("runs", "acts", "jobs", "writes", "seconds", "broken_runs"):
            setattr(self, field, getattr(self, field) + getattr(other, field))
        self.points |= other.points
        self.crashed_at |= other.crashed_at
        self.laws |= other.laws
        _count(self.happened, other.happened)
        _count(self.checks, other.checks)
        self.broken += other.broken


def _count(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def verdict_text(tally: SimulationTally) -> str:
    """Return the verdict as JSON of at most `MOST_BYTES`, the limit of a termination message.

    If it is too long, details are left out.
    """
    broken = [attrs.asdict(run) for run in tally.broken[:_MOST_BROKEN]]
    sets = {name: sorted(getattr(tally, name)) for name in _SETS}
    whole = {**attrs.asdict(tally), **sets, "format": _FORMAT, "broken": broken}
    while len(text := msgspec.json.encode(whole, order="sorted")) > MOST_BYTES and broken:
        broken.pop()
    for field in (*_SETS, "happened"):  # lists of names are the longest, and the least that is missed
        if len(text) > MOST_BYTES:
            whole[field] = [] if field in _SETS else {}
            text = msgspec.json.encode(whole, order="sorted")
    return text.decode()


def read_verdict(text: str) -> SimulationTally:
    """Return the tally in a termination message. Raises ValueError, with the problem in its message."""
    try:
        value: Any = msgspec.json.decode(text)
        if not isinstance(value, dict) or value.get("format") != _FORMAT:
            raise ValueError(f"it is no {_FORMAT}")
        return msgspec.convert(value, SimulationTally)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is no {_FORMAT}: {error}") from None


def merged(tallies: Iterable[SimulationTally]) -> SimulationTally:
    """Return the sum of tallies, in the order of their first seeds."""
    total = SimulationTally()
    for tally in sorted(tallies, key=lambda tally: tally.first):
        total.merge(tally)
    return total

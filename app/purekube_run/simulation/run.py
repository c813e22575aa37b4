"""One run of a simulation script: actions of users and faults, then rest, with laws checked throughout (SIM-1).

Laws are required properties of controllers.
"""

import gc
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.laws import Laws, LawViolation
from purekube_run.simulation.script import Act, Incident, SimulationScript
from purekube_run.simulation.world import World, WorldHotLoop
from purekube_run.simulation.world_faults import SimulatedFault, Strike

W = TypeVar("W", bound=World)
L = TypeVar("L", bound=Laws)

_CONVERGE: Final = 3600.0
"""The seconds after the end of all faults within which everything must converge."""
_LOOK: Final = 60.0
_WORK: Final = 5.0
"""The seconds after an action in which most of the work is done that it causes."""
_TURNS: Final = 3
"""The distance between the forms of a fault with which two successive seeds begin, so that they try different forms."""
_QUIET: Final = 720.0
"""The seconds of rest in which nothing may be written; longer than a resync interval."""


class Workload(Protocol):
    """The interface of the simulated users of a simulated cluster, who act on its objects as a script says, the list of
    their actions and their times.
    """

    done: int
    """The number of actions that had an effect."""

    def perform(self, act: Act) -> None:
        """Carry out the action `act` of a user. If the API server refuses it, nothing changes."""
        ...

    def help_out(self) -> None:
        """Carry out the actions of users without which some objects would not reach the desired state after all faults.

        An example is the retry of an object that has stalled.
        """
        ...

    def counts(self) -> Mapping[str, int]:
        """Return counts of what the simulated users did, by name, in addition to `done`, for the summary of a run."""
        ...


@attrs.frozen
class Simulation(Generic[W, L]):
    """A kind of simulation, such as that of the operator or of a box: the functions and tables from which a run is
    built.

    `world`, `laws` and `workload` construct the simulated cluster, its checks and its users. `lives` generates the
    actions of users on a number of objects within a number of seconds. `deeds` are the possible actions, and `faults`
    the possible faults by name.
    """

    world: Callable[[SimulationScript], W]
    laws: Callable[[W], L]
    workload: Callable[[W], Workload]
    lives: Callable[[Random, int, float], Iterator[Act]]
    deeds: Collection[str]
    faults: Mapping[str, SimulatedFault[W]]

    def draw(
        self, seed: int, *, seconds: float, objects: int, replicas: int, faults: Collection[str], shards: int = 1
    ) -> SimulationScript:
        """Return a random script, which `seed` determines: users' actions, and occurrences of the named `faults`, with
        times.

        `objects` is the number of objects on which users act. The operator has `replicas` processes for each of
        `shards` shards (parts into which namespaces are divided). `seconds` is the duration.
        """
        random = Random(f"script {seed}")
        acts = sorted(self.lives(random, objects, seconds))
        processes = replicas * shards
        incidents = [each for name in faults for each in self._incidents(random, seed, name, seconds, processes)]
        met = sorted(_met(Random(f"met {seed}"), incidents, acts, seconds))
        return SimulationScript(seed, replicas, seconds, tuple(acts), tuple(met), shards=shards)

    def _incidents(self, random: Random, seed: int, name: str, seconds: float, processes: int) -> Iterator[Incident]:
        """Yield the random occurrences of the fault `name` within `seconds`.

        If the fault has several forms, its occurrences take the forms in turn. `processes` is the number of processes.
        """
        fault = self.faults[name]
        mean = 3600.0 / fault.per_hour
        at, number = 0.0, 0
        while (at := at + random.expovariate(1 / mean)) < seconds:
            lasts = round(min(random.uniform(*fault.lasts), seconds - at), 3)
            replica, choice = random.randrange(processes), random.random()
            if fault.forms:
                choice = ((seed * _TURNS + number) % fault.forms + 0.5) / fault.forms
            yield Incident(round(at, 3), name, replica, lasts, min(round(choice, 4), 0.9999))
            number += 1

    def strike(self, world: W, incident: Incident) -> None:
        """Apply the fault of `incident` to the simulated cluster `world`, on the replica (simulated process) that the
        incident names.
        """
        replica = min(incident.replica, len(world.replicas) - 1)
        fault = self.faults[incident.fault]
        fault.strike(Strike(world, incident.fault, replica, incident.seconds, incident.choice))

    def perform(
        self, script: SimulationScript, prepare: Callable[[W, L], None] = lambda world, laws: None
    ) -> "SimulationOutcome":
        """Run a script (the actions and faults of a run) in a new simulated cluster, and return the outcome.

        `prepare` is called before the start with the cluster and its checks; tests use it to add checks or defects.
        """
        with _without_collector():
            return self._perform(script, prepare)

    def _perform(self, script: SimulationScript, prepare: Callable[[W, L], None]) -> "SimulationOutcome":
        began = time.process_time()
        with self.world(script) as world:
            laws = self.laws(world)
            run = _Run(self, script, world, laws, self.workload(world))
            world.on_write.append(run.note)
            prepare(world, laws)
            run.course()
            return run.outcome(time.process_time() - began)


@attrs.frozen
class SimulationOutcome:
    """The result of one run of a simulation script.

    `broken` lists the laws (required properties) that were broken. `happened` counts faults by name, `acts` counts
    users' actions that had an effect, and `counts` has further counters of the simulated users. `seconds` is virtual
    time; `cost` is processor time in seconds.
    """

    script: SimulationScript
    broken: tuple[LawViolation, ...]
    checks: Mapping[str, int]
    """The number of checks of each clause (numbered requirement)."""
    laws: frozenset[tuple[str, str]]
    """The laws that were checked, as pairs of the clause (numbered requirement) and the law's name."""
    happened: Mapping[str, int]
    acts: int
    counts: Mapping[str, int]
    writes: int
    write_points: frozenset[str]
    crashed_at: frozenset[str]
    seconds: float
    cost: float
    digest: str
    trace: tuple[str, ...] = attrs.field(repr=False)


@attrs.define
class _Run:
    """One run of a script.

    `writes` counts the writes of replicas, without writes that are permitted even at rest. `points` are their kinds.
    """

    simulation: Simulation[Any, Any]
    script: SimulationScript
    world: World
    laws: Laws
    workload: Workload
    writes: int = 0
    points: set[str] = attrs.field(factory=set)

    def note(self, write: ObservedWrite) -> None:
        """Count a write of a replica, unless it is permitted even at rest."""
        if self.laws.breaks_silence(write):
            self.writes += 1
            self.points.add(f"{write.request.action} {write.request.kind.kind}")

    def course(self) -> None:
        """Run the script until its end, or until a law is broken."""
        try:
            self._steps()
            if not self.laws.broken:
                self._rest()
        except WorldHotLoop as error:
            self.laws.hot(str(error))
        self.laws.finish()

    def _steps(self) -> None:
        for step in self.script.steps:
            self.world.run(step.at - self.world.seconds)
            if isinstance(step, Act):
                self.workload.perform(step)
            else:
                self.simulation.strike(self.world, step)
            if self.laws.broken:
                return
        self.world.run(max(0.0, self.script.seconds - self.world.seconds))

    def _rest(self) -> None:
        world, laws = self.world, self.laws
        world.heal()
        limit = world.seconds + _CONVERGE
        while not laws.broken and world.seconds < limit:
            self.workload.help_out()
            if not laws.is_recovering and not laws.is_progressing and not any(laws.unsettled()):
                break
            world.run(_LOOK)
        if not laws.broken:
            laws.settled()
        if not laws.broken:
            world.run(_LOOK)
            before = self.writes
            world.run(_QUIET)
            laws.silent(self.writes - before, _QUIET)
        if not laws.broken:
            laws.compare()

    def outcome(self, cost: float) -> SimulationOutcome:
        """Return the outcome of the run. `cost` is the processor time in seconds that the run took."""
        world = self.world
        return SimulationOutcome(
            self.script,
            tuple(self.laws.complete()),
            self.laws.by_clause,
            frozenset(self.laws.checks),
            world.happened,
            self.workload.done,
            self.workload.counts(),
            self.writes,
            frozenset(self.points),
            frozenset(world.crashed_at),
            world.seconds,
            cost,
            world.digest(),
            tuple(world.trace),
        )


def _met(random: Random, incidents: Sequence[Incident], acts: Sequence[Act], seconds: float) -> Iterator[Incident]:
    """Yield `incidents`, half of them moved to a time at which they meet an action or another fault.

    Otherwise most would disturb nothing, since little is at work between actions. `seconds` is the duration of the run.
    """
    moments = [act.at for act in acts]
    for incident in incidents:
        at = incident.at
        if moments and random.random() < 0.5:
            latest = seconds - incident.seconds
            at = min(max(0.0, random.choice(moments) + random.uniform(-incident.seconds, _WORK)), latest)
        moments.append(at)
        yield attrs.evolve(incident, at=round(at, 3))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the garbage collector in the block, and collect garbage afterwards.

    It would take a quarter of the time, and run at moments that differ between processes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if was_enabled:
            gc.enable()

"""One run of a script: acts and faults until its time is over, then rest, with the laws checked throughout (SIM-1)."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

from kubelab.flux import FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from purekube_run.simulation.connection import ObservedWrite
from vworkspace_app.simulation.faults import FAULTS, Strike
from vworkspace_app.simulation.laws import UNSILENT, Laws, LawViolation
from vworkspace_app.simulation.script import Act, Incident, SimulationScript
from vworkspace_app.simulation.workload import BROKEN, SimulatedWorkload
from vworkspace_app.simulation.world import SimulatedWorld, WorldHotLoop, WorldSettings

_CONVERGE: Final = 3600.0
"""The seconds after the last fault within which everything must converge."""
_LOOK: Final = 60.0
_QUIET: Final = 720.0
"""The seconds of rest in which nothing may be written: longer than a resync."""
_FLUX: Final = FluxBehaviour(
    release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "hooks failed"), version=BROKEN),)
)
"""A Flux for which one version cannot be released."""


@attrs.frozen
class SimulationOutcome:
    """The end of one run. `seconds` is virtual time, `cost` processor time."""

    script: SimulationScript
    broken: tuple[LawViolation, ...]
    checks: Mapping[str, int]
    happened: Mapping[str, int]
    acts: int
    jobs: int
    writes: int
    write_points: frozenset[str]
    seconds: float
    cost: float
    digest: str
    trace: tuple[str, ...] = attrs.field(repr=False)


@attrs.define
class _Writes:
    """The writes of replicas, without the Lease and the heartbeat."""

    count: int = 0
    points: set[str] = attrs.field(factory=set)

    def note(self, write: ObservedWrite) -> None:
        if write.request.kind not in UNSILENT:
            self.count += 1
            self.points.add(f"{write.request.action} {write.request.kind.kind}")


def settings_of(script: SimulationScript) -> WorldSettings:
    """Return the world of a script, in which one version cannot be released."""
    return WorldSettings(seed=script.seed, replicas=script.replicas, flux=_FLUX)


def perform(
    script: SimulationScript, prepare: Callable[[SimulatedWorld, Laws], None] = lambda world, laws: None
) -> SimulationOutcome:
    """Run a script in a new world. `prepare` may add laws, or defects."""
    began = time.process_time()
    with _without_collector(), SimulatedWorld(settings_of(script)) as world:
        laws, workload, writes = Laws(world), SimulatedWorkload(world), _Writes()
        world.on_write.append(writes.note)
        prepare(world, laws)
        try:
            _course(script, world, laws, workload, writes)
        except WorldHotLoop as error:
            laws.hot(str(error))
        laws.leaks()
        return SimulationOutcome(
            script,
            tuple(laws.complete()),
            laws.checks,
            world.happened,
            workload.done,
            sum(1 for _ in world.control.jobs),
            writes.count,
            frozenset(writes.points),
            world.seconds,
            time.process_time() - began,
            world.digest(),
            tuple(world.trace),
        )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the garbage collector from running: a quarter of the cost, and its moments differ between processes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _course(
    script: SimulationScript, world: SimulatedWorld, laws: Laws, workload: SimulatedWorkload, writes: _Writes
) -> None:
    for step in script.steps:
        world.run(step.at - world.seconds)
        if isinstance(step, Act):
            workload.perform(step)
        else:
            strike(world, step)
        if laws.broken:
            return
    world.run(max(0.0, script.seconds - world.seconds))
    world.heal()
    limit = world.seconds + _CONVERGE
    while not laws.broken and world.seconds < limit and any(laws.unsettled()):
        world.run(_LOOK)
    if not laws.broken:
        laws.settled()
    if not laws.broken:
        world.run(_LOOK)
        before = writes.count
        world.run(_QUIET)
        laws.silent(writes.count - before, _QUIET)


def strike(world: SimulatedWorld, incident: Incident) -> None:
    """Let a fault strike."""
    replica = min(incident.replica, len(world.replicas) - 1)
    FAULTS[incident.fault].strike(Strike(world, incident.fault, replica, incident.seconds, incident.choice))

"""`simulate`: many runs of the whole world, the summary of what was tried, and a file for each broken law (SIM-1)."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import attrs

from purekube_run.process.errors import USAGE, CommandError
from purekube_run.simulation.laws import LawViolation, clock
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.shrinking import shrink
from vworkspace_app.simulation.faults import FAULTS
from vworkspace_app.simulation.run import draw, perform, read_script


@attrs.frozen
class SimulateRequest:
    """The size of a simulation. `seconds` is the virtual time of each run until its faults stop."""

    runs: int
    seconds: float
    instances: int
    replicas: int
    faults: tuple[str, ...]
    seed: int
    jobs: int = 1
    folder: Path = Path()


@attrs.define
class _Tally:
    """The sums over all runs."""

    runs: int = 0
    acts: int = 0
    jobs: int = 0
    writes: int = 0
    seconds: float = 0.0
    points: set[str] = attrs.field(factory=set)
    happened: Counter[str] = attrs.field(factory=Counter)
    checks: Counter[str] = attrs.field(factory=Counter)

    def add(self, outcome: SimulationOutcome) -> None:
        self.runs += 1
        self.acts += outcome.acts
        self.jobs += outcome.counts["jobs"]
        self.writes += outcome.writes
        self.seconds += outcome.seconds
        self.points |= outcome.write_points
        self.happened.update(outcome.happened)
        self.checks.update(outcome.checks)


def faults_named(names: str) -> tuple[str, ...]:
    """Return the faults of `all`, `none` or a list of names. Raises CommandError for one that does not exist."""
    if names in ("all", "none"):
        return tuple(FAULTS) if names == "all" else ()
    chosen = tuple(name.strip() for name in names.split(","))
    if unknown := [name for name in chosen if name not in FAULTS]:
        raise CommandError(f"there is no fault {', '.join(unknown)}; there are {', '.join(FAULTS)}", status=USAGE)
    return chosen


def simulate(request: SimulateRequest) -> int:
    """Run all seeds, print the summary, save a file for each run with a broken law; return the exit status."""
    began, tally, broken = time.monotonic(), _Tally(), list[tuple[int, LawViolation, str]]()
    for seed, outcome in _outcomes(request):
        tally.add(outcome)
        if outcome.broken:
            _progress(f"seed {seed} breaks {outcome.broken[0].clause}; shrinking …")
            broken.append((seed, *_saved(outcome, request.folder)))
        _progress(f"{tally.runs:,} of {request.runs:,}")
    _progress("")
    print("\n".join(_summary(request, tally, time.monotonic() - began)))
    for seed, law, path in broken:
        print(f"broken   {law}\n         seed {seed}: vworkspace-operator simulate replay {path}")
    return 1 if broken else 0


def replay(path: Path) -> int:
    """Run a saved script, print its trace and the laws that it breaks; return the exit status."""
    try:
        script = read_script(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} cannot be read as a saved run: {error}", status=USAGE) from error
    outcome = perform(script)
    print("\n".join(outcome.trace))
    for law in outcome.broken:
        print(f"broken   {law}")
    if not outcome.broken:
        print(f"no law is broken: {sum(outcome.checks.values()):,} checks in {clock(outcome.seconds)}")
    return 1 if outcome.broken else 0


def _outcomes(request: SimulateRequest) -> Iterator[tuple[int, SimulationOutcome]]:
    seeds = range(request.seed, request.seed + request.runs)
    one = partial(_run_seed, request)
    if request.jobs == 1:
        yield from ((seed, one(seed)) for seed in seeds)
        return
    with ProcessPoolExecutor(request.jobs, mp_context=get_context("spawn")) as pool:
        yield from zip(seeds, pool.map(one, seeds), strict=True)


def _run_seed(request: SimulateRequest, seed: int) -> SimulationOutcome:
    script = draw(
        seed,
        seconds=request.seconds,
        instances=request.instances,
        replicas=request.replicas,
        faults=request.faults,
    )
    outcome = perform(script)
    return attrs.evolve(outcome, trace=())  # thousands of lines, which the file reproduces


def _saved(outcome: SimulationOutcome, folder: Path) -> tuple[LawViolation, str]:
    """Shrink a failing run and save it; return the broken law of the smaller run, and the path."""
    smaller = shrink(outcome, perform)
    law = smaller.broken[0]
    path = folder / f"broken-{law.clause}-{outcome.script.seed}.json"
    steps = f"{len(outcome.script.steps)} acts and faults shrunk to {len(smaller.script.steps)}"
    smaller.script.write(path, {**attrs.asdict(law), "shrunk": steps})
    return law, str(path)


def _summary(request: SimulateRequest, tally: _Tally, took: float) -> Iterator[str]:
    faster = tally.seconds / took if took else 0.0
    yield (
        f"seed {request.seed}   {tally.runs:,} runs   {took:,.1f} s"
        f"   {clock(tally.seconds)} of virtual time, {faster:,.0f} times faster than the clock"
    )
    yield (
        f"tried    {tally.acts:,} creates, edits and deletions · {tally.jobs:,} jobs · {tally.writes:,} writes at "
        f"{len(tally.points)} write points"
    )
    yield from _wrapped("faults   ", [f"{tally.happened[name]:,} {name}" for name in request.faults])
    clauses = [f"{clause} {count:,}" for clause, count in sorted(tally.checks.items())]
    yield from _wrapped(f"laws     {sum(tally.checks.values()):,} checks · ", clauses)


def _wrapped(head: str, parts: Sequence[str], width: int = 116) -> Iterator[str]:
    """Yield lines of parts with a point between them."""
    line = head
    for number, part in enumerate(parts):
        if len(line) + len(part) > width:
            yield line.rstrip(" ·") + " ·"
            line = " " * 9
        line += part + (" · " if number + 1 < len(parts) else "")
    yield line


def _progress(text: str) -> None:
    """Show where the simulation is, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

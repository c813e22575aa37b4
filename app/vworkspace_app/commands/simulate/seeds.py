"""The command `simulate`, which runs many simulations and saves each run that breaks a law (required property) (SIM-1).

Each run has its own seed. At the end a summary is printed.
"""

import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import attrs

from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.simulation.input_file import plain
from purekube_run.simulation.laws import LawViolation, clock
from purekube_run.simulation.run import SimulationOutcome
from purekube_run.simulation.script import Act, SimulationScript
from purekube_run.simulation.script_file import script_text
from purekube_run.simulation.shrinking import shrink
from vworkspace_app.simulation.operator_faults import CRASH_POINTS, FAULTS
from vworkspace_app.simulation.run import drawn, perform
from vworkspace_app.simulation.verdict import BrokenRun, SimulationTally, verdict_text

_BAR: Final = 20
"""The width of the progress bar in columns."""
_MOST_ABSENT: Final = 5
"""The number of faults that are listed although they did not happen, and of write points without a crash."""


@attrs.frozen
class SimulateRequest:
    """The arguments of `simulate`.

    `runs` runs are made with the seeds from `seed` on, `jobs` of them at the same time. `seconds` is the virtual time
    in each run during which faults are injected. Each run has `replicas` processes of the operator for each of `shards`
    shards (parts into which namespaces are divided), and `instances` objects that simulated users create.
    """

    runs: int
    seconds: float
    instances: int
    replicas: int
    faults: tuple[str, ...]
    seed: int
    jobs: int = 1
    folder: Path = Path()
    boxes: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    crds: tuple[str, ...] = ()
    applied: bool = False
    """True to apply the only box of `boxes` as an OperatorBox, whose definition users change."""
    shards: int = 1
    workload: tuple[Act, ...] | None = None
    """The users' actions in every run; if None, they are generated from the seed of each run."""
    verdict: Path | None = None
    """The file into which the verdict is written, for `simulate collect`; None for no file."""
    save: Callable[[int, str], str] | None = None
    """The function that saves a run which broke a law. It gets the seed and the run as text, and returns the place.

    If None, such runs are saved as files in `folder`.
    """


def faults_named(names: str, known: Collection[str] = tuple(FAULTS)) -> tuple[str, ...]:
    """Return the faults that `names` selects: `all`, `none` or a comma-separated list.

    Raises CommandError for a name that is not in `known`.
    """
    if names in ("all", "none"):
        return tuple(known) if names == "all" else ()
    chosen = tuple(name.strip() for name in names.split(","))
    if unknown := [name for name in chosen if name not in known]:
        raise CommandError(f"there is no fault {', '.join(unknown)}; there are {', '.join(known)}", status=USAGE)
    return chosen


def simulate(request: SimulateRequest) -> int:
    """Simulate a run for each seed, save each run that violates a law, and print a summary. Return the exit status.

    A law is a required property. The exit status is 1 if a run violated a law, and otherwise 0.
    """
    _check_places(request)
    began, tally, broken = time.monotonic(), SimulationTally(request.seed), list[tuple[int, LawViolation, str]]()
    for seed, outcome in _outcomes(request):
        tally.add(outcome)
        if outcome.broken:
            _progress(f"seed {seed} breaks {outcome.broken[0].clause}; shrinking …")
            law, saved = _saved(outcome, request)
            broken.append((seed, law, saved))
            tally.add_broken(BrokenRun(seed, law.clause, law.law, saved))
        _progress(_bar(tally.runs, request.runs, time.monotonic() - began))
    _progress("")
    print("\n".join(summary_lines(f"seed {request.seed}", tally, time.monotonic() - began, request.faults)))
    for seed, law, saved in broken:
        options = "".join(f" --controllers {name}" for name in request.controllers)
        print(f"broken   {law}\n         seed {seed}: vworkspace-operator simulate replay {saved}{options}")
    if request.verdict is not None:
        request.verdict.write_text(verdict_text(tally), encoding="utf-8")
    return 1 if broken else 0


def _check_places(request: SimulateRequest) -> None:
    """Raise CommandError if an output path cannot be written.

    This is called before the runs begin, which may take hours.
    """
    if request.save is None and not request.folder.is_dir():
        raise CommandError(f"--output {plain(str(request.folder))}: is no folder", status=USAGE)
    if request.verdict is not None:
        try:
            request.verdict.open("ab").close()
        except (OSError, ValueError) as error:
            raise CommandError(f"--verdict {plain(str(request.verdict))}: {plain(str(error))}", status=USAGE) from error


def _outcomes(request: SimulateRequest) -> Iterator[tuple[int, SimulationOutcome]]:
    seeds = range(request.seed, request.seed + request.runs)
    one = partial(_run_seed, attrs.evolve(request, save=None))
    if request.jobs == 1:
        yield from ((seed, one(seed)) for seed in seeds)
        return
    with ProcessPoolExecutor(request.jobs, mp_context=get_context("spawn")) as pool:
        yield from zip(seeds, pool.map(one, seeds), strict=True)


def _run_seed(request: SimulateRequest, seed: int) -> SimulationOutcome:
    named = SimulationScript(
        *(seed, request.replicas, request.seconds),
        *((), ()),
        *(request.boxes, request.controllers, request.crds),
        shards=request.shards,
        applied=request.applied,
    )
    script = drawn(named, request.instances, request.faults)
    if request.workload is not None:
        script = attrs.evolve(script, acts=request.workload)
    outcome = perform(script)
    return attrs.evolve(outcome, trace=())  # thousands of lines, which the file reproduces


def _saved(outcome: SimulationOutcome, request: SimulateRequest) -> tuple[LawViolation, str]:
    """Shrink a run that violated a law, and save it.

    Return the law that the shrunk run violates, and the place where the run is saved.
    """
    smaller = shrink(outcome, perform)
    law = smaller.broken[0]
    steps = f"{len(outcome.script.steps)} acts and faults shrunk to {len(smaller.script.steps)}"
    text = script_text(smaller.script, {**attrs.asdict(law), "shrunk": steps})
    if request.save is not None:
        try:
            return law, request.save(outcome.script.seed, text)
        except CommandError as error:  # the verdict is worth more than the file
            return law, f"(not saved: {error.message})"
    path = request.folder / f"broken-{law.clause}-{outcome.script.seed}.json"
    path.write_text(text, encoding="utf-8")
    return law, str(path)


def summary_lines(
    head: str, tally: SimulationTally, took: float | None = None, faults: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the lines of the summary of all simulation runs, which begins with `head`.

    `tally` has the counts of all runs. `took` is the real time of all runs in seconds; None if unknown. `faults` are
    the faults to list; if empty, those that happened. If many of them did not happen, these are only counted.
    """
    speed = f", {tally.seconds / took:,.0f} times faster than the clock" if took else ""
    seconds = f"   {took:,.1f} s" if took is not None else ""
    runs = f"{tally.runs:,} run{'s' * (tally.runs != 1)}"
    yield f"{head}   {runs}{seconds}   {clock(tally.seconds)} of virtual time{speed}"
    yield (
        f"tried    {tally.acts:,} creates, edits and deletions · {tally.jobs:,} jobs · {tally.writes:,} writes at "
        f"{len(tally.points)} write points"
    )
    yield from _wrapped("faults   ", list(_fault_counts(tally, faults or sorted(tally.happened))))
    if tally.crashed_at:
        missing = [point for point in CRASH_POINTS if point not in tally.crashed_at]
        reached = f"{len(CRASH_POINTS) - len(missing)} of {len(CRASH_POINTS)} write points were crashed at"
        named = missing if len(missing) <= _MOST_ABSENT else ()
        yield from _wrapped(f"crashes  {reached}{'; not at ' if named else ''}", named)
    clauses = [f"{clause} {count:,}" for clause, count in sorted(tally.checks.items())]
    counted = f"{len(tally.laws)} laws, {sum(tally.checks.values()):,} checks"
    yield from _wrapped(f"laws     {counted} · ", clauses)
    broken = f"{tally.broken_runs:,} of {tally.runs:,} runs broke a law"
    yield f"verdict  {broken if tally.broken_runs else 'every law held, during the faults and after them'}"


def _fault_counts(tally: SimulationTally, names: Sequence[str]) -> Iterator[str]:
    """Yield how often each fault in `names` happened. If many faults did not happen, these are only counted, not
    listed.
    """
    absent = [name for name in names if not tally.happened.get(name)]
    are_many = len(absent) > _MOST_ABSENT
    yield from (f"{tally.happened.get(name, 0):,} {name}" for name in names if not are_many or name not in absent)
    if are_many:
        yield f"{len(absent)} others did not happen"


def _bar(done: int, runs: int, took: float) -> str:
    """Return a progress bar as text, with the number of finished runs and the time that they took."""
    blocks = _BAR * done // runs
    return f"{'█' * blocks}{'░' * (_BAR - blocks)}  {done:,} of {runs:,}   {clock(took)[:-4]}"


def _wrapped(head: str, parts: Sequence[str], width: int = 116) -> Iterator[str]:
    """Yield lines of at most `width` columns with the parts, separated by `·`. The first line begins with `head`."""
    line = head
    for number, part in enumerate(parts):
        if len(line) + len(part) > width:
            yield line.rstrip(" ·") + " ·"
            line = " " * 9
        line += part + (" · " if number + 1 < len(parts) else "")
    yield line


def _progress(text: str) -> None:
    """Replace the progress line on standard error, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

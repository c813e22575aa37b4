"""`simulate replay`: a saved run, or the recording of a cluster, at any of its moments (SIM-3)."""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import attrs

from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.simulation.input_file import BadFile
from purekube_run.simulation.laws import clock
from purekube_run.simulation.run import SimulationOutcome
from vworkspace_app.commands.moment_text import difference_lines, field_lines, moment_lines, one_line, timeline_line
from vworkspace_app.commands.trace import serve
from vworkspace_app.manager.configuration import operator_settings
from vworkspace_app.settings import RunSettings
from vworkspace_app.simulation.history import RunHistory, RunRecorder
from vworkspace_app.simulation.laws import OperatorLaws
from vworkspace_app.simulation.recording_file import is_recording, read_recording
from vworkspace_app.simulation.recording_replay import replayed
from vworkspace_app.simulation.run import perform, read_script
from vworkspace_app.simulation.run_trace import trace_of
from vworkspace_app.simulation.world import SimulatedWorld
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.overview.trace import Trace
from vworkspace_core.overview.trace_differences import differences

_MOMENT: Final = re.compile(r"(?:(?:(\d{1,4}):)?(\d{1,2}):)?(\d{1,6}(?:\.\d{1,6})?)s?")
_LENGTH: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d{1,6})?)s)?")
_KEYS: Final = "Enter: next decision, b: back, a: the whole state, q: end"


@attrs.frozen
class ReplayRequest:
    """The arguments of `simulate replay`. Moments are seconds since the run began."""

    file: Path
    at: float | None = None
    diff: tuple[float, float] | None = None
    step: bool = False
    show: bool = False
    listen: str = "127.0.0.1:0"
    settings: RunSettings = attrs.field(factory=RunSettings)
    """The settings of the operator that was recorded."""
    controllers: tuple[str, ...] = ()
    """The modules that a run may import: a file alone imports none."""


@attrs.frozen
class _Replayed:
    """A history, with the verdict in lines, and the exit status."""

    history: RunHistory
    verdict: tuple[str, ...]
    status: int


def moment_of(text: str, option: str) -> float:
    """Return the seconds of `0:41:07.5`, `41:07`, `61.4`, `10m` or `1h2m`. Raises CommandError."""
    if match := _MOMENT.fullmatch(text):
        hours, minutes, seconds = match.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds)
    if text and (match := _LENGTH.fullmatch(text)):
        hours, minutes, seconds = match.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    raise CommandError(f"{option} {one_line(text, 40)}: no moment such as 0:41:07, 61.4 or 10m", status=USAGE)


def replay(request: ReplayRequest) -> int:
    """Run a saved run or decide a recording again, and show what was asked for; return the exit status."""
    done = _played(request)
    history = done.history
    if not history.moments:
        raise CommandError(f"{one_line(str(request.file))}: nothing happens in it", status=USAGE)
    trace = trace_of(history, f"Replay of {request.file.name}")
    if request.show:
        serve(trace, "vworkspace-operator simulate", request.listen, show=True)
    elif request.diff is not None:
        _print(_difference(history, trace, *request.diff))
    elif request.at is not None:
        _print(moment_lines(trace.moments[history.number_at(request.at)]))
    elif request.step:
        _walk(history, trace)
    else:
        _print(map(timeline_line, history.moments))
    _print(done.verdict)
    return done.status


def _played(request: ReplayRequest) -> _Replayed:
    path = request.file
    try:
        if is_recording(path):
            recording = read_recording(path)
            decisions = operator_settings(request.settings, recording.cluster_id, builtin_templates()).decisions
            recorded = replayed(recording, decisions)
            return _Replayed(recorded.history, tuple(recorded.verdict()), int(bool(recorded.differences)))
        script = read_script(path)
    except BadFile as error:
        raise CommandError(str(error), status=USAGE) from error
    if foreign := [name for name in script.controllers if name not in request.controllers]:
        options = " ".join(f"--controllers {one_line(name, 60)}" for name in foreign)
        told = f"{one_line(str(path))}: $.controllers: it runs code of yours: allow it with {options}"
        raise CommandError(told, status=USAGE)
    history = RunHistory()

    def attach(world: SimulatedWorld, laws: OperatorLaws) -> None:
        RunRecorder(world, history)

    outcome = perform(script, attach)
    return _Replayed(history, tuple(_verdict(outcome)), int(bool(outcome.broken)))


def _verdict(outcome: SimulationOutcome) -> Iterator[str]:
    for law in outcome.broken:
        yield f"broken   {law}"
    if not outcome.broken:
        yield f"no law is broken: {sum(outcome.checks.values()):,} checks in {clock(outcome.seconds)}"


def _print(lines: Iterator[str] | Sequence[str]) -> None:
    for line in lines:
        print(line)


def _difference(history: RunHistory, trace: Trace, since: float, until: float) -> Iterator[str]:
    first, second = history.number_at(since), history.number_at(until)
    yield f"from {clock(history.moments[first].at)} to {clock(history.moments[second].at)}"
    for difference in differences(trace.moments[first], trace.moments[second]):
        yield from difference_lines(difference)
    yield ""
    yield "Fields"
    objects = (history.objects.at(history.moments[number].changes) for number in (first, second))
    yield from field_lines(*objects)


# --- from decision to decision ---------------------------------------------------------------------------------------


def _walk(history: RunHistory, trace: Trace) -> None:
    """Show one decision after the other: on a terminal at each key, otherwise all of them."""
    stops = [*history.decisions()] or [len(history.moments) - 1]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print(chain.from_iterable(_decision_lines(history, trace, stops, place) for place in range(len(stops))))
        return
    print(_KEYS)
    place = 0
    while True:
        _print(_decision_lines(history, trace, stops, place))
        match _key():
            case "q":
                return
            case "b":
                place = max(0, place - 1)
            case "a":
                _print(moment_lines(trace.moments[stops[place]]))
            case _ if place + 1 == len(stops):
                return
            case _:
                place += 1


def _key() -> str:
    try:
        return input("> ").strip().lower()[:1]
    except (EOFError, KeyboardInterrupt):
        return "q"


def _decision_lines(history: RunHistory, trace: Trace, stops: Sequence[int], place: int) -> Iterator[str]:
    """Yield a decision, and what happened since the one before it."""
    before = stops[place - 1] if place else -1
    for number in range(before + 1, stops[place]):
        yield timeline_line(history.moments[number])
    number = stops[place]
    yield timeline_line(history.moments[number])
    yield f"    decision {place + 1} of {len(stops)}"
    if number:
        for difference in differences(trace.moments[max(0, before)], trace.moments[number]):
            if difference.table == "Objects":
                yield from (f"    {line}" for line in difference_lines(difference))

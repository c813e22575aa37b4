"""The command `simulate replay`, which shows any moment of a saved simulation run or of a recorded cluster (SIM-3)."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.secret_material import LONGEST_SHOWN, redact, visible
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.terminal import aligned
from purekube_run.simulation.extensions.plan import changed_fields
from purekube_run.simulation.input_file import BadFile
from purekube_run.simulation.laws import clock
from purekube_run.simulation.run import SimulationOutcome
from vworkspace_app.commands.trace import serve
from vworkspace_app.manager.settings import operator_settings
from vworkspace_app.settings import RunSettings
from vworkspace_app.simulation.masking import without_values
from vworkspace_app.simulation.operator_laws import OperatorLaws
from vworkspace_app.simulation.operator_world import SimulatedWorld
from vworkspace_app.simulation.recording import is_recording, read_recording
from vworkspace_app.simulation.recording_replay import replayed
from vworkspace_app.simulation.run import perform, read_script
from vworkspace_app.simulation.run_history import RunHistory, RunMoment, RunRecorder
from vworkspace_app.simulation.run_trace import trace_of
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.overview.trace import Moment, Trace, TraceDifference, TraceTable, differences

_MOMENT: Final = re.compile(r"(?:(?:(\d{1,4}):)?(\d{1,2}):)?(\d{1,6}(?:\.\d{1,6})?)s?")
_LENGTH: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d{1,6})?)s)?")
_KEYS: Final = "Enter: next decision, b: back, a: the whole state, q: end"


@attrs.frozen
class ReplayRequest:
    """The arguments of `simulate replay`.

    The moment `at` to show, and the two moments of `diff` to compare, are in seconds since the run began. With `step`,
    decisions are shown one by one; with `show`, a web page is served at `listen`.
    """

    file: Path
    at: float | None = None
    diff: tuple[float, float] | None = None
    step: bool = False
    show: bool = False
    listen: str = "127.0.0.1:0"
    settings: RunSettings = attrs.field(factory=RunSettings)
    """The settings of the operator that was recorded."""
    controllers: tuple[str, ...] = ()
    """The modules with controllers that a run may import; a saved run cannot make the command import others."""


@attrs.frozen
class _Replayed:
    """The result of a replay: its history, the lines of the verdict, and the exit status."""

    history: RunHistory
    verdict: tuple[str, ...]
    status: int


def moment_of(text: str, option: str) -> float:
    """Return a moment such as `0:41:07.5`, `41:07`, `61.4`, `10m` or `1h2m` in seconds.

    Raises CommandError for any other string; its message names the command-line option `option`.
    """
    if match := _MOMENT.fullmatch(text):
        hours, minutes, seconds = match.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds)
    if text and (match := _LENGTH.fullmatch(text)):
        hours, minutes, seconds = match.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    raise CommandError(f"{option} {one_line(text, 40)}: no moment such as 0:41:07, 61.4 or 10m", status=USAGE)


def replay(request: ReplayRequest) -> int:
    """Replay a saved run or a cluster's recording, and print the moments that the request selects.

    A saved run is simulated again. For a recording, the operator's decisions are made again from the recorded objects.
    Return the exit status.
    """
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
    objects = (history.objects.at(history.moments[number].changes) for number in (first, second))
    if fields := [*field_lines(*objects)]:
        yield from ("", "Fields", *fields)


# --- from decision to decision ---------------------------------------------------------------------------------------


def _walk(history: RunHistory, trace: Trace) -> None:
    """Print the decisions of a run one after the other, and wait for a key after each.

    Without a terminal, print all of them at once.
    """
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
    """Yield the lines that show a decision, after lines for the moments since the previous decision.

    `stops` has the indices of all moments with a decision. The decision to show is at `stops[place]`.
    """
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


_WIDEST: Final = 60
"""The maximum width of a table's cell, except of the last cell in a row."""


def timeline_line(moment: RunMoment) -> str:
    """Return one line about a moment of a run: its time, actor and text, with a mark if a law was violated then.

    A law is a required property.
    """
    mark = "▲" if moment.is_broken else " "
    return one_line(f"{mark} {clock(moment.at)}  {moment.actor:14} {moment.text}")


def moment_lines(moment: Moment) -> Iterator[str]:
    """Yield the lines that show a moment of a run: its facts (named values), its messages, and its tables.

    A table lists the things of one sort at that moment, such as objects, one per row. Empty tables are left out.
    """
    facts = "   ".join(f"{name} {value}" for name, value in moment.facts.items())
    yield one_line(f"{'▲' if moment.mark else '■'} {facts}")
    for line in moment.told:
        yield one_line(f"  {line}")
    for table in moment.tables:
        if table.rows:
            yield ""
            yield from _table_lines(table)


def _table_lines(table: TraceTable) -> Iterator[str]:
    yield f"{table.title} ({len(table.rows)})"
    rows = [tuple(one_line(cell) for cell in row) for row in table.rows]
    yield from (f"  {line}" for line in aligned((table.columns, *rows), _WIDEST))


def difference_lines(difference: TraceDifference) -> Iterator[str]:
    """Yield the lines that show how one row of a table differs between two moments of a run.

    A moment has tables about the state of the run, such as its objects. The first line names the table and the row,
    and each further line shows a change in the row.
    """
    yield one_line(f"{difference.sign} {difference.table}: {difference.name}")
    for change in difference.changes:
        yield one_line(f"    {change}")


def field_lines(before: Mapping[ObjectRef, Manifest], after: Mapping[ObjectRef, Manifest]) -> Iterator[str]:
    """Yield the differences between the states `before` and `after` of objects: a line for each object that differs,
    and one for each of its changed fields with both values.

    Secrets are masked.
    """
    for ref in sorted({*before, *after}):
        old, new = (_shown(objects.get(ref)) for objects in (before, after))
        if old is None or new is None:
            yield f"{'+' if old is None else '-'} {ref}"
        elif old != new:
            yield f"~ {ref}"
            for change in changed_fields(old, new):
                yield one_line(f"    {change.path}: {_value(change.before)} → {_value(change.after)}")


def _shown(manifest: Manifest | None) -> Any:
    """Return an object for comparison: without managedFields, and with values and secrets masked.

    Return None for None.
    """
    if manifest is None:
        return None
    meta = {name: value for name, value in manifest.get("metadata", {}).items() if name != "managedFields"}
    return redact(without_values({**manifest, "metadata": meta}))


def _value(value: Any) -> str:
    return "(absent)" if value is None else str(value)


def one_line(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return the text as one line of at most `longest` characters, with control sequences made visible."""
    return visible(text.replace("\n", "\\n").replace("\t", " "))[:longest]

"""A trace: a recorded simulation, moment by moment, and its file format, JSON with a line per moment (SEE-3).

Each moment is complete: it has everything that happened since the moment before, and the whole state. A trace contains
no secrets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs
import msgspec

from vworkspace_core.overview.object_graph import ObjectGraph

FORMAT: Final = "vworkspace.io/trace/v2"
MOST_MOMENTS: Final = 10_000


@attrs.frozen
class TraceTable:
    """A table of a part of the state, such as all objects or a queue, at one moment of a recorded simulation.

    Each row is one thing, such as one object, and each column one of its properties. The first cell of a row names the
    thing, and no other row of the table has the same first cell.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@attrs.frozen
class Moment:
    """One moment of a recorded simulation, with the time `at`.

    `object_graph` is the drawing of the object `subject` at that time. The messages say what happened since the moment
    before, and `facts` are further values by their names. Each of `tables` shows a part of the state, such as all
    objects or a queue. `mark` is the reason why the moment is marked on the timeline, for example that a rule was
    violated which every simulation must keep. It is empty for a moment that is not marked.
    """

    at: datetime
    subject: str
    object_graph: ObjectGraph
    told: tuple[str, ...] = ()
    facts: Mapping[str, str] = attrs.field(factory=dict)
    tables: tuple[TraceTable, ...] = ()
    mark: str = ""


@attrs.frozen
class Trace:
    """A recorded simulation with at least one moment. Moments may be decoded only when they are read.

    `marked` maps the numbers of the moments that are marked on the timeline to the reasons for their marks.
    """

    title: str
    moments: Sequence[Moment]
    marked: Mapping[int, str] = attrs.field(factory=dict)

    def at(self, number: int) -> tuple[int, Moment]:
        """Return a moment of the recorded simulation, with its number.

        `number` counts from 0. A number outside the recording selects the first or the last moment.
        """
        number = min(max(0, number), len(self.moments) - 1)
        return number, self.moments[number]


@attrs.frozen
class _Head:
    format: str
    title: str


_encode = msgspec.json.Encoder().encode
_head = msgspec.json.Decoder(_Head).decode
_moment = msgspec.json.Decoder(Moment).decode


def written(trace: Trace) -> Iterator[bytes]:
    """Yield the lines of a file with `trace`, a recorded simulation, each line with its newline.

    The first line has the format's name and the title, and each further line has one moment as JSON.
    """
    for line in (_Head(FORMAT, trace.title), *map(_as_kept, trace.moments)):
        yield _encode(line) + b"\n"


def read(lines: Iterable[bytes]) -> Trace:
    """Read a trace (a recorded simulation) from the lines of a file, in the format that `written` produces.

    The format is JSON: a line with the title, and then one line for each moment. Raises ValueError with the line's
    number and its problem.
    """
    head, moments = None, list[Moment]()
    for number, line in enumerate(lines, 1):
        try:
            if head is None:
                head = _head(line)
                if head.format != FORMAT:
                    raise ValueError(f"the format is {head.format[:40]!r}, not {FORMAT}")
            elif line.strip():
                moments.append(_as_kept(_moment(line)))
        except ValueError as error:  # this includes msgspec's errors
            raise ValueError(f"line {number}: {error}") from None
        if len(moments) > MOST_MOMENTS:
            raise ValueError(f"line {number}: there are more than {MOST_MOMENTS} moments")
    if head is None or not moments:
        raise ValueError("there is no moment in it")
    return Trace(head.title, tuple(moments), {at: moment.mark for at, moment in enumerate(moments) if moment.mark})


def _as_kept(moment: Moment) -> Moment:
    """Return `moment` in the form in which it is written into a trace file.

    References and start times of objects are left out, since they have no meaning in the file.
    """
    nodes = tuple(attrs.evolve(node, ref=None, since=None) for node in moment.object_graph.nodes)
    return attrs.evolve(moment, object_graph=attrs.evolve(moment.object_graph, nodes=nodes))


@attrs.frozen
class TraceDifference:
    """One difference between two moments of a recorded simulation: a row that appeared, disappeared or changed.

    The row belongs to a table that shows a part of the state, such as all objects. `name` is the first cell of the row,
    which names the thing that the row shows. A row that appeared is marked +, one that disappeared -, and one that
    changed ~.
    """

    table: str
    sign: str
    name: str
    changes: tuple[str, ...]


def differences(before: Moment, after: Moment) -> Iterator[TraceDifference]:
    """Yield the rows that differ between `before` and `after`, two moments of a recorded simulation.

    These rows appeared, disappeared or changed. They are in the order of their tables.
    """
    earlier = {table.title: table for table in before.tables}
    for table in after.tables:
        yield from _of_table(earlier.pop(table.title, TraceTable(table.title, table.columns)), table)
    for table in earlier.values():
        yield from _of_table(table, TraceTable(table.title, table.columns))


def _of_table(before: TraceTable, after: TraceTable) -> Iterator[TraceDifference]:
    old, new = ({row[0]: row for row in table.rows} for table in (before, after))
    for name, row in old.items():
        if name not in new:
            yield TraceDifference(after.title, "-", name, _filled(before, row))
    for name, row in new.items():
        if name not in old:
            yield TraceDifference(after.title, "+", name, _filled(after, row))
        elif old[name] != row:
            yield TraceDifference(after.title, "~", name, _changes(after, old[name], row))


def _filled(table: TraceTable, row: tuple[str, ...]) -> tuple[str, ...]:
    cells = zip(table.columns[1:], row[1:], strict=True)
    return tuple(f"{column}: {cell}" for column, cell in cells if cell)


def _changes(table: TraceTable, before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    cells = zip(table.columns, before, after, strict=True)
    return tuple(f"{column}: {old or '(empty)'} → {new or '(empty)'}" for column, old, new in cells if old != new)

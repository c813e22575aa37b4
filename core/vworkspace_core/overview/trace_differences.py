"""The differences between two moments of a recorded simulation (SEE-3, SIM-3).

A moment has tables of the simulation's state, such as a table of all objects. The rows of each table are compared.
"""

from collections.abc import Iterator

import attrs

from vworkspace_core.overview.trace import Moment, TraceTable


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

"""A moment of a recorded run, and the differences between two, as text for a terminal (SIM-3)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.secret_material import LONGEST_SHOWN, redact, visible
from purekube_run.simulation.laws import clock
from vworkspace_app.simulation.history import RunMoment
from vworkspace_app.simulation.masking import without_values
from vworkspace_core.overview.trace import Moment, TraceTable
from vworkspace_core.overview.trace_differences import TraceDifference

_WIDEST: Final = 60
"""The widest cell of a table, except the last one of a row."""


def timeline_line(moment: RunMoment) -> str:
    """Return a moment as a line of the timeline; one in which a law broke is marked."""
    mark = "▲" if moment.is_broken else " "
    return one_line(f"{mark} {clock(moment.at)}  {moment.actor:14} {moment.text}")


def moment_lines(moment: Moment) -> Iterator[str]:
    """Yield a moment: its messages, then each of its tables that has rows."""
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
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(table.columns, *rows, strict=True)]
    for row in (table.columns, *rows):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def difference_lines(difference: TraceDifference) -> Iterator[str]:
    """Yield a difference: the row, then each change."""
    yield one_line(f"{difference.sign} {difference.table}: {difference.name}")
    for change in difference.changes:
        yield one_line(f"    {change}")


def field_lines(before: Mapping[ObjectRef, Manifest], after: Mapping[ObjectRef, Manifest]) -> Iterator[str]:
    """Yield each object that differs, with the paths of its fields and their values, secrets masked."""
    for ref in sorted({*before, *after}):
        old, new = (_shown(objects.get(ref)) for objects in (before, after))
        if old is None or new is None:
            yield f"{'+' if old is None else '-'} {ref}"
        elif old != new:
            yield f"~ {ref}"
            for path, left, right in _changed(old, new, ""):
                yield one_line(f"    {path}: {_value(left)} → {_value(right)}")


def _shown(manifest: Manifest | None) -> Any:
    """Return the part of an object that people compare, without values and secrets."""
    if manifest is None:
        return None
    meta = {name: value for name, value in manifest.get("metadata", {}).items() if name != "managedFields"}
    return redact(without_values({**manifest, "metadata": meta}))


def _changed(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                yield from _changed(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                yield from _changed(old, new, f"{path}[{at}]")
    else:
        yield path.removeprefix("."), before, after


def _value(value: Any) -> str:
    return "(absent)" if value is None else str(value)


def one_line(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return text as one line that cannot steer a terminal."""
    return visible(text.replace("\n", "\\n").replace("\t", " "))[:longest]

"""The differences between two moments of a recorded run, row by row (SEE-3, SIM-3)."""

from datetime import UTC, datetime

from vworkspace_core.overview.object_graph import ObjectGraph
from vworkspace_core.overview.trace import Moment, Trace, TraceDifference, TraceTable, differences

COLUMNS = ("name", "state", "age")


def moment(*tables: TraceTable) -> Moment:
    return Moment(datetime(2026, 1, 1, tzinfo=UTC), "s", ObjectGraph((), ()), tables=tables)


def table(title: str, *rows: tuple[str, str, str]) -> TraceTable:
    return TraceTable(title, COLUMNS, rows)


def test_rows_that_went_came_and_changed_are_told_table_by_table() -> None:
    before = moment(table("one", ("a", "x", "1"), ("b", "x", ""), ("c", "", "1")), table("gone", ("z", "x", "1")))
    after = moment(table("one", ("a", "x", "1"), ("c", "y", ""), ("d", "", "2")), table("new", ("n", "x", "")))

    assert list(differences(before, after)) == [
        TraceDifference("one", "-", "b", ("state: x",)),
        TraceDifference("one", "~", "c", ("state: (empty) → y", "age: 1 → (empty)")),
        TraceDifference("one", "+", "d", ("age: 2",)),
        TraceDifference("new", "+", "n", ("state: x",)),
        TraceDifference("gone", "-", "z", ("state: x", "age: 1")),
    ]
    assert list(differences(before, before)) == []


def test_a_moment_outside_of_a_trace_is_the_nearest_one() -> None:
    trace = Trace("t", [moment(), moment(), moment()])

    assert [trace.at(number)[0] for number in (-1, 0, 1, 2, 3)] == [0, 0, 1, 2, 2]
    assert trace.at(1)[1] is trace.moments[1]

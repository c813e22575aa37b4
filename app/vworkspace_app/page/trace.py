"""A recorded run with a slider for its time (SEE-3)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import attrs

from vworkspace_app.page.drawing import drawing_of
from vworkspace_app.page.screens import Heard, Screen, ScreenPart, Tab
from vworkspace_core.overview.object_graph import walk
from vworkspace_core.overview.trace import Moment, Trace
from vworkspace_core.overview.trace_differences import differences

_TABS: Final = (Tab("trace", "Trace", ""),)
_LATEST: Final = 30
"""The number of moments whose lines are shown next to the current one."""
_MOST_ROWS: Final = 200
"""The most rows of a table, and the most differences, that are shown."""
_MOST_MARKS: Final = 20


@attrs.frozen
class TracePage:
    """`Source` of one trace, which never changes."""

    trace: Trace

    @property
    def tabs(self) -> Sequence[Tab]:
        """The only tab."""
        return _TABS

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Do nothing, since a trace never changes."""
        return lambda: None

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """Return the screen of the moment `at`, compared with the moment `from` if the query names one."""
        if path != "/":
            return None
        number, moment = self.trace.at(_number(query.get("at", "")) or 0)
        since = _number(query.get("from", ""))
        return Screen(self.trace.title, "trace", tuple(self._parts(number, moment, since)))

    def _parts(self, number: int, moment: Moment, since: int | None) -> Iterator[ScreenPart]:
        last = len(self.trace.moments) - 1
        marked = dict(islice(self.trace.marked.items(), _MOST_MARKS))
        yield ScreenPart(
            "slider", "trace_slider.html", {"number": number, "last": last, "marked": marked, "since": since}
        )
        kept = "" if since is None else f"&from={since}"
        filled = {"number": number, "last": last, "moment": moment, "kept": kept}
        yield ScreenPart("moment", "trace_moment.html", filled)
        if since is not None:
            since, before = self.trace.at(since)
            changes = list(islice(differences(before, moment), _MOST_ROWS))
            yield ScreenPart(
                "differences",
                "trace_differences.html",
                {"number": number, "since": since, "differences": changes},
            )
        yield ScreenPart(
            "graph",
            "object_graph.html",
            {"object_graph": moment.object_graph, "drawing": drawing_of(moment.object_graph)},
        )
        yield ScreenPart(
            "nodes", "object_nodes.html", {"nodes": list(walk(moment.object_graph)), "linked": frozenset()}
        )
        yield ScreenPart("tables", "trace_tables.html", {"tables": moment.tables, "most": _MOST_ROWS})
        before_it = self.trace.moments[max(0, number - _LATEST + 1) : number + 1][::-1]
        yield ScreenPart("told", "trace_reports.html", {"moments": before_it})


def _number(text: str) -> int | None:
    """Return the number of a moment in an address; None if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None

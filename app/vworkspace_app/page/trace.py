"""A recorded run with a slider for its time (SEE-3)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from vworkspace_app.page.drawing import drawing_of
from vworkspace_app.page.screens import Heard, Screen, ScreenPart, Tab
from vworkspace_core.overview.object_graph import walk
from vworkspace_core.overview.trace import Trace

_TABS: Final = (Tab("trace", "Trace", ""),)
_LATEST: Final = 30
"""The number of moments whose lines are shown next to the current one."""


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
        """Return the screen of one moment, by its number in `at`."""
        if path != "/":
            return None
        text = query.get("at", "")
        number, moment = self.trace.at(int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0)
        last = len(self.trace.moments) - 1
        before = self.trace.moments[max(0, number - _LATEST + 1) : number + 1][::-1]
        return Screen(
            self.trace.title,
            "trace",
            (
                ScreenPart("slider", "trace_slider.html", {"number": number, "last": last}),
                ScreenPart("moment", "trace_moment.html", {"number": number, "last": last, "moment": moment}),
                ScreenPart(
                    "graph",
                    "object_graph.html",
                    {"object_graph": moment.object_graph, "drawing": drawing_of(moment.object_graph)},
                ),
                ScreenPart(
                    "nodes", "object_nodes.html", {"nodes": list(walk(moment.object_graph)), "linked": frozenset()}
                ),
                ScreenPart("told", "trace_reports.html", {"moments": before}),
            ),
        )

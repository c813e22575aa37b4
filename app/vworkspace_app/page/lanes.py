"""The layout of a timeline's lanes in percent of the width, so that they fit every screen (SEE-3).

A lane is a row of the timeline, with the bars and marks of one object.
"""

from collections.abc import Iterator, Mapping, Set
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

import attrs

from purekube.apimachinery.manifest import Kind
from vworkspace_app.page.screens import ScreenPart
from vworkspace_core.overview.lanes import RANGES, Bar, Lane, LaneQuery, LaneView

_DIVISIONS: Final[Mapping[str, int]] = {"1m": 4, "15m": 3, "1h": 4, "6h": 3, "1d": 4, "7d": 7, "30d": 3}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_LEAST: Final = 0.5
"""The minimum width of a bar in percent of the timeline, so that short ones are visible."""
_WIDE, _NARROW = 9.0, 2.9
"""The number of pixels in one percent, on a screen of 1280 pixels and on a phone of 360 pixels."""
_CHARACTER: Final = 6.9


@attrs.frozen
class PlacedBar:
    """A bar for a period in the timeline of an object, with its left edge and width in percent of the timeline.

    `room` names the screens on which the bar's text fits into it: `all`, `wide` (only wide screens) or `none`. `tip` is
    the tooltip.
    """

    bar: Bar
    x: float
    width: float
    room: str
    tip: str


@attrs.frozen
class PlacedMark:
    """A mark for a point in time in the timeline of an object, with its position in percent from the left.

    `word` says what happened then, and `tip` is the tooltip.
    """

    word: str
    x: float
    tip: str


@attrs.frozen
class AxisLabel:
    """A label of the time axis, with its position in percent from the left."""

    x: float
    text: str
    anchor: str


def lane_query(query: Mapping[str, str]) -> LaneQuery:
    """Return the options of a timeline in a URL's query: the time range, and whether to show only problems."""
    return LaneQuery(query.get("range", ""), "problems" in query)


def lanes_part(view: LaneView, linked: Set[Kind]) -> ScreenPart:
    """Return the part of a screen that shows the lanes in `view`, which are the timelines of objects below each other.

    Objects of the `linked` kinds link to their own pages.
    """
    lanes = [(lane, list(_placed(lane, view)), list(_marks(lane, view))) for lane in view.lanes]
    ranges = [(name, _address(attrs.evolve(view.query, range=name)), name == view.range) for name in RANGES]
    toggle = _address(attrs.evolve(view.query, problems=not view.query.problems))
    filled = {"view": view, "lanes": lanes, "ticks": _ticks(view.range), "ranges": ranges, "toggle": toggle}
    filled["words"] = list(dict.fromkeys(mark.word for _, _, marks in lanes for mark in marks))
    return ScreenPart("lanes", "timeline_lanes.html", {**filled, "linked": linked})


def _address(query: LaneQuery) -> str:
    values = {"range": query.range, "problems": "1" if query.problems else ""}
    return "?" + urlencode({name: value for name, value in values.items() if value})


def _placed(lane: Lane, view: LaneView) -> Iterator[PlacedBar]:
    length = (view.end - view.begin).total_seconds()
    for bar in lane.bars:
        if bar.end <= view.begin:
            continue
        x = max(0.0, (bar.begin - view.begin).total_seconds() / length * 100)
        width = max(_LEAST, (bar.end - view.begin).total_seconds() / length * 100 - x)
        x = min(x, 100 - _LEAST)
        width = min(width, 100 - x)
        needed = len(bar.word) * _CHARACTER + 14
        room = "all" if width * _NARROW >= needed else "wide" if width * _WIDE >= needed else "none"
        yield PlacedBar(bar, round(x, 2), round(width, 2), room, _tip(lane, bar, view))


def _marks(lane: Lane, view: LaneView) -> Iterator[PlacedMark]:
    length = (view.end - view.begin).total_seconds()
    for mark in lane.marks:
        if view.begin <= mark.at <= view.end:
            x = round((mark.at - view.begin).total_seconds() / length * 100, 2)
            tip = f"{lane.kind} {lane.name}: {mark.word} at {_clock(mark.at, view)}"
            yield PlacedMark(mark.word, x, " · ".join(filter(None, (tip, mark.reason))))


def _tip(lane: Lane, bar: Bar, view: LaneView) -> str:
    until = "now" if bar.end == view.end else _clock(bar.end, view)
    times = f"from {_clock(bar.begin, view)} to {until} ({_duration((bar.end - bar.begin).total_seconds())})"
    return " · ".join(filter(None, (f"{lane.kind} {lane.name}: {bar.word}", times, bar.reason)))


def _clock(at: datetime, view: LaneView) -> str:
    return at.strftime("%H:%M:%S UTC" if at.date() == view.end.date() else "%Y-%m-%d %H:%M UTC")


def _duration(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), _UNITS[-1])
    return f"{seconds / size:.0f} {unit}"


def _ticks(name: str) -> list[AxisLabel]:
    number, length = _DIVISIONS[name], RANGES[name].total_seconds()
    size, unit = next((size, unit) for size, unit in _UNITS if length / number >= size)
    ticks = [
        AxisLabel(round(100 * at / number, 2), f"{length * (number - at) / number / size:.0f} {unit}", "middle")
        for at in range(1, number)
    ]
    return [AxisLabel(0, f"{length / size:.0f} {unit} ago", "start"), *ticks, AxisLabel(100, "now", "end")]

"""The page of a control plane for its developers: jobs (units of work for operators), results and events (SEE-3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

import attrs

from vworkspace_app.page.loops import OtherLoop
from vworkspace_app.page.operator_screens import timeline_part
from vworkspace_app.page.screens import Extent, PageContent, ScreenPart, ScreenSource, Tab
from vworkspace_core.overview.job_list import MOST_LINES, JobLine, event_entry, job_entries, job_line
from vworkspace_core.overview.timeline import TimelineEntry, last_entries

_EVERY: Final = 1.0
"""The seconds after which an open page is rendered again."""

Entries = Callable[[], Iterable[Any]]
"""A function that returns the items of a list, as JSON values. It is called on the event loop that owns the list."""


@attrs.define
class JobsPage(ScreenSource):
    """The content of a page that shows the jobs and events of a control plane.

    `jobs` and `events` return the same JSON values as the control plane's admin API, in order of arrival. `path` is the
    URL path of the page. A page must be created on the event loop that owns the jobs and events.
    """

    jobs: Entries
    events: Entries
    path: str = "/"
    _ask: OtherLoop = attrs.field(factory=OtherLoop, init=False)

    @property
    def tabs(self) -> Sequence[Tab]:
        """The only tab of the page."""
        return (Tab("jobs", "Control plane", self.path.removeprefix("/")),)

    @property
    def extent(self) -> Extent:
        """The heading of the page, which says that it shows all jobs."""
        return Extent("every job of this control plane")

    async def screen(self, path: str, query: Mapping[str, str]) -> PageContent | None:
        """Return the screen with the jobs, the newest first, and a timeline of events.

        Return None if `path` is not the path of this page. `query` is ignored.
        """
        if path != self.path:
            return None
        lines, events = await self._ask(self._look)
        entries = last_entries(chain(events, (entry for line in lines for entry in job_entries(line))))
        counts: dict[str, int] = {}
        for line in lines:
            counts[line.state] = counts.get(line.state, 0) + 1
        filled = {"jobs": lines[:MOST_LINES], "counts": counts, "left_out": max(0, len(lines) - MOST_LINES)}
        return PageContent(
            "Control plane",
            "jobs",
            (ScreenPart("jobs", "jobs.html", filled), timeline_part(entries, frozenset())),
            every=_EVERY,
        )

    async def _look(self) -> tuple[list[JobLine], list[TimelineEntry]]:
        lines = [job_line(entry) for entry in self.jobs()][::-1]
        last = islice(reversed(list(self.events())), MOST_LINES)
        return lines, [entry for entry in map(event_entry, last) if entry is not None]

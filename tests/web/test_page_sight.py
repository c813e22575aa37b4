"""SEE-3: the page says what it does not see: lists that are not complete, and caches that no longer hear anything."""

from collections.abc import Mapping, Sequence

import anyio
import pytest

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.ports import KubeRequest, WatchEvent
from purekube_run.simulation.faults import Fault, WatchFaults
from tests.support.faulty_kube import FaultyKube
from tests.support.page_site import NS, Follower, instance, page_site, ready
from tests.support.page_text import elements
from vworkspace_app.page.operator_screens import list_screen
from vworkspace_app.page.rendering import Renderer
from vworkspace_app.page.screens import PageContent
from vworkspace_app.page.site import Followers
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.overview.object_list import ListQuery, ListRow, headline_of, list_view
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.summary import OverviewState

GAPS = ("ApplicationInstance is not listed yet: instances are forbidden", "Operation: nothing is heard of it any more")
WELL = ListRow(ObjectRef(APPLICATION_INSTANCE, "org-myteam", "well"), OverviewState.READY)
ILL = ListRow(ObjectRef(APPLICATION_INSTANCE, "org-myteam", "ill"), OverviewState.STALLED)


@pytest.mark.parametrize("rows", [[], [WELL]])
def test_nothing_is_called_well_while_not_everything_is_seen_SEE_3(rows: Sequence[ListRow]) -> None:
    headline = headline_of(rows, GAPS)
    assert headline.severity is Severity.WAITING
    assert headline.text == "It is not known whether anything needs you"
    assert headline_of([*rows, ILL], GAPS).severity is Severity.BAD
    assert "need" in headline_of([*rows, ILL], GAPS).text


def test_what_is_not_seen_is_named_above_the_list_SEE_3() -> None:
    screen = list_screen(list_view([WELL], ListQuery(), GAPS))
    drawn = Renderer("test", ()).screen(screen, "/")
    parts = {
        one.attributes["id"]: one
        for one in elements("".join(part.html for part in drawn.parts.values()))
        if "id" in one.attributes
    }
    for gap in GAPS:
        assert gap in parts["headline"].text
    assert drawn.icon.startswith("./assets/icon-waiting")


class Outage(WatchFaults):
    """A source of faults that breaks each watch of instances at its next event, and refuses lists, while `is_on`."""

    is_on = False

    def of_requests(self, request: KubeRequest) -> Fault | None:
        is_hit = self.is_on and request.kind == APPLICATION_INSTANCE and not request.writes
        return Fault(Unavailable("connection refused")) if is_hit else None

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        if self.is_on and kind == APPLICATION_INSTANCE:
            raise Unavailable("connection refused")
        return True


@pytest.mark.slow
def test_a_page_whose_operator_is_cut_off_says_so_and_no_longer_once_it_is_back_SEE_3() -> None:
    outage = Outage()
    with (
        page_site(through=lambda api: FaultyKube(api, outage.of_requests, streams=outage)) as site,
        Follower(site.url, "/") as follower,
    ):
        site.create(APPLICATION_INSTANCE, instance("well"), ready())
        follower.until(lambda event: "Nothing needs you: 1 object" in event.data.get("title", ""))
        outage.is_on = True
        site.create(APPLICATION_INSTANCE, instance("unseen"))
        follower.until(lambda event: "It is not known" in event.data.get("title", ""))
        for path in ("/", "/timeline", f"/object/{APPLICATION_INSTANCE.crd_name}/{NS}/well"):
            assert "ApplicationInstance: may be out of date: connection refused" in site.get(path).text, path
        outage.is_on = False
        follower.until(lambda event: "2 objects" in event.data.get("title", ""))


class Counted:
    """A page that has to be drawn again every ten seconds, with the number of drawings."""

    tabs = ()
    drawn = 0

    async def screen(self, path: str, query: Mapping[str, str]) -> PageContent:
        self.drawn += 1
        return PageContent("Counted", "", (), every=10.0)

    def subscribe(self, heard: object) -> object:
        return lambda: None


def test_all_who_follow_one_view_share_a_drawing_also_of_what_is_drawn_at_intervals_SEE_3() -> None:
    async def main() -> None:
        source = Counted()
        followers = Followers(source, Renderer("test", ()))  # type: ignore[arg-type]  # what it needs of one
        async with anyio.create_task_group() as group:

            async def follow() -> None:
                async for _ in followers.follow("/", {}, "/", ""):
                    pass

            for _ in range(20):
                group.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            assert source.drawn == 1
            group.cancel_scope.cancel()

    anyio.run(main)

"""SEE-6: one notice for each transition to wanting a person and back; bounded; none lost within the bound."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.overview import notices
from vworkspace_core.overview.notices import MOST_WAITING, RECENT, Attention, Notice, NoticeType, Send, WaitUntil
from vworkspace_core.overview.page_paths import CLUSTER_SCOPED, OBJECT, object_path
from vworkspace_core.overview.summary import OverviewState, Summary

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
TROUBLE = (OverviewState.STALLED, OverviewState.WAITING, OverviewState.DEGRADED)
CALM = (OverviewState.READY, OverviewState.PROGRESSING, OverviewState.SUSPENDED)
PATIENCE = timedelta(minutes=5)


@attrs.define
class Site:
    """A process, a receiver that is there or not, and what it got."""

    state: Attention = attrs.field(factory=lambda: Attention(START))
    now: datetime = START
    away: bool = False
    received: list[Notice] = attrs.field(factory=list)
    raised: int = 0

    def observe(self, uid: str, state: OverviewState | None, since: datetime | None = None) -> None:
        summary = None if state is None else summary_in(state, uid, since or self.now)
        self.state = notices.observed(self.state, uid, summary, self.now)
        self.work()

    def pass_time(self, seconds: float) -> None:
        """Let time pass as the driver does: from one moment that asks for work to the next."""
        end = self.now + timedelta(seconds=seconds)
        while True:
            step = self.work()
            if step.until is None or step.until > end:
                break
            self.now = max(self.now, step.until)
        self.now = end
        self.work()

    def work(self) -> WaitUntil:
        before = len(self.state.waiting) + self.state.lost
        self.state = notices.due(self.state, self.now)
        self.raised += len(self.state.waiting) + self.state.lost - before
        while isinstance(step := notices.next_step(self.state, self.now), Send):
            if self.away:
                self.state = notices.failed(self.state, self.now, 0.5)
            else:
                self.received.append(step.notice)
                self.state = notices.delivered(self.state, step.notice)
        assert len(self.state.waiting) <= MOST_WAITING
        return step

    def types(self, uid: str) -> list[NoticeType]:
        return [notice.type for notice in self.received if notice.summary.ref.name == uid]


def summary_in(state: OverviewState, uid: str, since: datetime, message: str = "why") -> Summary:
    return Summary(ObjectRef(APPLICATION_INSTANCE, "n", uid), state, "Reason", message, since)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
UIDS = st.sampled_from("abc")
EVENTS = st.one_of(
    st.tuples(st.just("observe"), UIDS, st.sampled_from([*TROUBLE, *CALM, None])),
    st.tuples(st.just("pass"), st.sampled_from([1.0, 299.0, 301.0, 4000.0])),
    st.tuples(st.just("away"), st.booleans()),
)


@given(st.lists(EVENTS, max_size=40))
@example([("observe", "a", OverviewState.WAITING), ("away", True), ("pass", 301.0), ("observe", "a", None)])
@example([("observe", "a", OverviewState.WAITING), ("observe", "a", OverviewState.STALLED), ("observe", "a", None)])
def test_each_transition_is_received_once_in_order_however_long_the_receiver_is_away(events: list[Any]) -> None:
    site, present = Site(), dict[str, OverviewState | None]()
    for event in events:
        match event:
            case "observe", uid, state:
                present[uid] = state
                site.observe(uid, state)
            case "pass", seconds:
                site.pass_time(seconds)
            case "away", away:
                site.away = away
    site.away = False
    site.pass_time(3600)

    ids = [notice.id for notice in site.received if notice.type is NoticeType.NEEDED]
    assert site.state.waiting == ()
    assert site.state.lost == 0
    for uid in "abc":
        wants = present.get(uid) in TROUBLE
        alternating = [NoticeType.NEEDED, NoticeType.RESOLVED] * len(events)
        assert site.types(uid) == alternating[: len(site.types(uid))]
        assert (len(site.types(uid)) % 2 == 1) == wants, "what it heard last is how it is"
    times = [notice.at for notice in site.received]
    assert times == sorted(times)
    assert len(ids) <= len(events)


def test_an_unchanged_state_is_silent() -> None:
    site = Site()
    for _ in range(100):
        site.observe("a", OverviewState.STALLED, START)
        site.pass_time(60)
    assert site.types("a") == [NoticeType.NEEDED]


def test_an_obstacle_that_leaves_within_five_minutes_wants_nobody() -> None:
    site = Site()
    site.observe("a", OverviewState.WAITING)
    site.pass_time(PATIENCE.total_seconds() - 1)
    site.observe("a", OverviewState.READY)
    site.pass_time(3600)
    assert site.received == []


def test_what_is_stalled_wants_a_person_at_once_whatever_it_waited_for_before() -> None:
    site = Site()
    site.observe("a", OverviewState.WAITING)
    site.pass_time(10)
    site.observe("a", OverviewState.STALLED)
    assert site.types("a") == [NoticeType.NEEDED]


def test_beyond_the_bound_the_oldest_are_lost_and_the_next_one_tells_how_many() -> None:
    site = Site(away=True)
    for number in range(MOST_WAITING + 5):
        site.observe(f"o{number}", OverviewState.STALLED)
    assert len(site.state.waiting) == MOST_WAITING
    site.away = False
    site.pass_time(3600)
    assert [notice.lost for notice in site.received] == [5, *([0] * (MOST_WAITING - 1))]
    assert site.received[0].summary.ref.name not in {f"o{number}" for number in range(5)}


def test_retries_slow_down_and_a_receiver_may_ask_for_a_pause() -> None:
    state = notices.due(notices.observed(Attention(START), "a", summary_in(TROUBLE[0], "a", START), START), START)
    waits = []
    for _ in range(12):
        state = notices.failed(state, START, 1.0)
        step = notices.next_step(state, START)
        assert isinstance(step, WaitUntil)
        assert step.until is not None
        waits.append((step.until - START).total_seconds())
    assert waits == sorted(waits)
    assert waits[-1] == 300
    assert notices.next_step(notices.failed(state, START, 0.5, 90.0), START) == WaitUntil(START + timedelta(seconds=90))


def test_what_a_receiver_refuses_holds_up_no_other() -> None:
    site = Site(away=True)
    for uid in "ab":
        site.observe(uid, OverviewState.STALLED)
    first = site.state.waiting[0]
    site.state, site.away = notices.refused(site.state, first), False
    site.pass_time(1)
    assert [(notice.summary.ref.name, notice.lost) for notice in site.received] == [("b", 1)]


def test_a_process_that_begins_repeats_the_recent_needs_under_their_ids_and_no_older_ones() -> None:
    first, second = Site(), Site()
    for site in (first, second):
        site.observe("recent", OverviewState.STALLED, START - RECENT / 2)
        site.observe("old", OverviewState.STALLED, START - 2 * RECENT)
    assert [notice.id for notice in first.received] == [notice.id for notice in second.received]
    assert (first.types("recent"), first.types("old")) == ([NoticeType.NEEDED], [])
    first.observe("old", None)
    assert first.types("old") == [NoticeType.RESOLVED]


def test_a_notice_is_a_cloud_event_without_secrets() -> None:
    summary = summary_in(OverviewState.STALLED, "shop", START, "helm failed: password=hunter2-hunter2 is wrong")
    state = notices.due(notices.observed(Attention(START), "u", summary, START), START)
    event = notices.cloud_event(state.waiting[0], "prod-1", "https://ops.example.com/object/x")

    assert "hunter2" not in str(event)
    assert {name: event[name] for name in ("specversion", "type", "source", "subject", "time", "datacontenttype")} == {
        "specversion": "1.0",
        "type": "io.vworkspace.attention.needed",
        "source": "/vworkspace/clusters/prod-1",
        "subject": "applicationinstances.apps.vworkspace.io/n/shop",
        "time": "2026-11-23T12:00:00Z",
        "datacontenttype": "application/json",
    }
    assert event["data"]["reason"] == "Reason"
    assert event["data"]["link"] == "https://ops.example.com/object/x"


@given(TEXTS, TEXTS)
def test_the_link_of_any_name_is_one_path_that_reads_back(namespace: str, name: str) -> None:
    path = object_path(ObjectRef(APPLICATION_INSTANCE, namespace or None, name))
    kind, *place = path.removeprefix(OBJECT).split("/")
    assert kind == APPLICATION_INSTANCE.crd_name
    assert [unquote(part) for part in place] == [namespace or CLUSTER_SCOPED, name]
    assert path.isascii()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from(OverviewState))), max_size=12))
def test_several_objects_are_observed_together_as_one_by_one(found: list[tuple[str, OverviewState | None]]) -> None:
    """With a copy of all needs for each, eight thousand objects in trouble held up the process for fifteen seconds."""
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    ref = ObjectRef(APPLICATION_INSTANCE, "team", "shop")
    told = [(uid, None if state is None else Summary(ref, state, since=now)) for uid, state in found]
    single = Attention(now)
    for uid, summary in told:
        single = notices.observed(single, uid, summary, now)
    together = notices.all_observed(Attention(now), told, now)

    assert together == single
    due = notices.due(together, now + timedelta(hours=1))
    assert all(need.announced for need in due.needs.values())
    assert len(due.waiting) == len(due.needs)

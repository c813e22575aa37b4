"""Which Event is written next, and what its manifest says, one history at a time (RUN-5)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, EVENT
from purekube.apimachinery.resources import NAMESPACE as NAMESPACE_KIND
from purekube.controller.event_series import (
    LONGEST_NOTE,
    CreateEvent,
    EventSeries,
    Observed,
    Once,
    UpdateSeries,
    event_manifest,
    event_ref,
    note_of,
    note_with_link,
    series_of,
)
from purekube.ports import KubernetesEvent

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ABOUT = ObjectRef(CONFIG_MAP, "ns", "a")


def event(
    note: str = "note", *, kind: str = "Normal", about: ObjectRef = ABOUT, uid: str = "u", progress: bool = False
) -> KubernetesEvent:
    return KubernetesEvent(about, uid, kind, "Reason", "Reconcile", note, progress)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def created(series: EventSeries, now: datetime = NOW) -> CreateEvent:
    write = series.take(now, waited=None)
    assert isinstance(write, CreateEvent)
    return write


@pytest.mark.parametrize(
    ("about", "uid", "namespace", "regarding"),
    [
        (ABOUT, "u", "ns", {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "ns", "uid": "u"}),
        (ABOUT, "", "ns", {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "ns"}),
        (
            ObjectRef(NAMESPACE_KIND, None, "a"),
            "u",
            "default",
            {"apiVersion": "v1", "kind": "Namespace", "name": "a", "uid": "u"},
        ),
    ],
)
def test_an_event_names_its_object_and_who_reports_it(
    about: ObjectRef, uid: str, namespace: str, regarding: dict[str, Any]
) -> None:
    told = event(about=about, uid=uid, kind="Warning")
    ref = event_ref(told, "operator-0", NOW)

    assert (ref.kind, ref.namespace) == (EVENT, namespace)
    assert ref.name.startswith("a.")
    assert event_manifest(told, ref, instance="operator-0", first=NOW) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": ref.name, "namespace": namespace},
        "eventTime": "2026-06-01T12:00:00.000000Z",
        "reportingController": "vworkspace.io/operator",
        "reportingInstance": "operator-0",
        "action": "Reconcile",
        "reason": "Reason",
        "regarding": regarding,
        "note": "note",
        "type": "Warning",
    }


def test_the_name_of_an_event_has_the_microsecond_in_it_and_differs_in_everything_that_it_says() -> None:
    first = event()
    name = event_ref(first, "i", NOW).name
    moment = int(NOW.timestamp()) * 10**6

    assert name.startswith(f"a.{moment:014x}")
    others = [
        event_ref(first, "j", NOW),
        event_ref(first, "i", after(1)),
        event_ref(event(uid="v"), "i", NOW),
        event_ref(event("other"), "i", NOW),
        event_ref(event(kind="Warning"), "i", NOW),
        event_ref(attrs.evolve(first, reason="x"), "i", NOW),
        event_ref(attrs.evolve(first, action="x"), "i", NOW),
    ]
    assert len({name, *(ref.name for ref in others)}) == 8
    long = event_ref(event(about=ObjectRef(CONFIG_MAP, "ns", "n" * 253)), "i", NOW).name
    assert len(long) <= 253
    assert len(long.partition(".")[0]) == 220


def test_a_long_name_of_a_process_is_bounded() -> None:
    ref = event_ref(event(), "p" * 200, NOW)

    assert len(event_manifest(event(), ref, instance="p" * 200, first=NOW)["reportingInstance"]) == 128


def test_a_series_has_its_count_and_last_time_up_to_what_a_field_holds() -> None:
    assert series_of(2, NOW) == {"count": 2, "lastObservedTime": "2026-06-01T12:00:00.000000Z"}
    assert series_of(2**31, NOW)["count"] == 2**31 - 1
    assert series_of(2**31 - 1, NOW)["count"] == 2**31 - 1


LINK = "https://pages.example/" + "x" * 10
END = f" Page: {LINK}"


def test_a_link_is_told_whole_or_not_at_all() -> None:
    text = "t" * 2000

    assert note_with_link("short", LINK) == f"short{END}"
    whole = note_with_link(text, LINK)
    assert whole.endswith(f"…{END}")
    assert len(whole.encode()) == LONGEST_NOTE
    most = "l" * (LONGEST_NOTE // 2 - len(" Page: "))
    assert note_with_link("short", most) == f"short Page: {most}"
    assert note_with_link("short", f"{most}l") == "short"


@pytest.mark.parametrize(
    ("text", "longest", "note"),
    [
        ("abc", 3, "abc"),
        ("abcdefg", 6, "abc…"),
        ("äöü", 6, "äöü"),
        ("äöüß", 7, "äö…"),
        ("äöüß", 6, "ä…"),
        ("", 3, ""),
        ("\ud800", 6, "\\ud800"),
    ],
)
def test_a_note_is_cut_between_two_characters(text: str, longest: int, note: str) -> None:
    assert note_of(text, longest) == note


def test_a_message_is_told_when_it_changes() -> None:
    once = Once(most=2)

    assert [once.first("a", "x"), once.first("a", "x"), once.first("a", "y"), once.first("a", "x")] == [
        True,
        False,
        True,
        True,
    ]
    assert once.first("b", "x")
    assert not once.first("a", "x"), "now b is the one that was used least recently"
    assert once.first("c", "x")
    assert not once.first("a", "x")
    assert once.first("b", "x"), "b was dropped"
    assert once.forget("b")
    assert not once.forget("b")
    assert once.first("b", "x")


def test_an_event_is_created_once_and_its_repeats_are_an_update_of_the_count() -> None:
    series = EventSeries("operator-0")

    assert series.observe(event(), NOW) is Observed.NEW
    write = created(series)
    ref = event_ref(event(), "operator-0", NOW)
    assert write == CreateEvent(event(), event_manifest(event(), ref, instance="operator-0", first=NOW))
    assert series.take(NOW) is None, "its write is under way"
    series.wrote(write)
    assert (series.waiting, series.take(NOW)) == (0, None)

    assert [series.observe(event(), after(wait)) for wait in (1, 2)] == [Observed.REPEATED] * 2
    assert series.take(after(3)) == UpdateSeries(event(), ref, {"series": series_of(3, after(2))})
    assert len(series) == series.objects == 1


def test_repeats_before_the_first_write_are_created_with_their_count() -> None:
    series = EventSeries("operator-0")
    for wait in (0, 1):
        series.observe(event(), after(wait))

    write = created(series, after(5))

    assert write.manifest["series"] == series_of(2, after(1))
    assert write.manifest["eventTime"] == "2026-06-01T12:00:00.000000Z"
    series.observe(event(), after(6))
    series.wrote(write)
    assert series.waiting == 1
    update = series.take(after(6))
    assert isinstance(update, UpdateSeries)
    assert update.patch == {"series": series_of(3, after(6))}


def test_a_refused_create_is_dropped_and_its_repeat_is_a_new_event() -> None:
    series = EventSeries("operator-0")
    series.observe(event(), NOW)

    assert series.failed(created(series), after(1)) is Observed.DROPPED

    assert (len(series), series.waiting) == (0, 0)
    assert series.observe(event(), after(2)) is Observed.NEW


def with_repeat() -> tuple[EventSeries, UpdateSeries]:
    series = EventSeries("operator-0")
    series.observe(event(), NOW)
    series.wrote(created(series))
    series.observe(event(), after(1))
    update = series.take(after(1))
    assert isinstance(update, UpdateSeries)
    return series, update


def test_a_refused_update_is_tried_again_after_half_a_minute() -> None:
    series, update = with_repeat()

    assert series.failed(update, after(10)) is Observed.REPEATED

    assert series.next_look(after(10)) == timedelta(seconds=30, milliseconds=1)
    assert series.take(after(39.9)) is None
    assert series.take(after(40)) == update


def test_an_update_of_an_event_that_is_gone_makes_a_new_one() -> None:
    series, update = with_repeat()

    assert series.failed(update, after(10), gone=True) is Observed.NEW

    write = created(series, after(10))
    assert "series" not in write.manifest
    assert write.manifest["eventTime"] == "2026-06-01T12:00:10.000000Z"


def test_an_event_waits_unless_it_is_a_new_warning() -> None:
    series, patience = EventSeries("operator-0"), timedelta(seconds=5)
    series.observe(event("normal"), NOW)
    series.observe(event("warning", kind="Warning"), after(4))

    urgent = series.take(after(4.9), waited=patience)
    assert isinstance(urgent, CreateEvent)
    assert urgent.event.note == "warning"
    series.wrote(urgent)
    assert series.take(after(4.9), waited=patience) is None
    assert series.take(after(5), waited=patience) is not None
    series.observe(event("warning", kind="Warning"), after(6))
    assert series.take(after(7), waited=patience) is None, "a repeat is no news"


def test_an_object_has_twenty_five_events_at_once_and_one_more_every_five_minutes() -> None:
    series = EventSeries("operator-0")
    told = [series.observe(event(f"{number}"), NOW) for number in range(26)]
    assert told == [Observed.NEW] * 25 + [Observed.DROPPED]
    assert series.observe(event(about=ObjectRef(CONFIG_MAP, "ns", "b")), NOW) is Observed.NEW
    assert series.observe(event(uid="v"), NOW) is Observed.NEW
    while (write := series.take(NOW)) is not None:
        series.wrote(write)
    assert series.waiting == 0

    assert series.observe(event("later"), after(299.9)) is Observed.DROPPED
    assert series.observe(event("later"), after(300)) is Observed.NEW
    assert series.observe(event("too much"), after(300)) is Observed.DROPPED


def test_repeats_leave_five_for_news() -> None:
    series = EventSeries("operator-0")
    series.observe(event(), NOW)
    series.wrote(created(series))
    writes = 0
    for _ in range(30):
        series.observe(event(), NOW)
        if (write := series.take(NOW)) is not None:
            series.wrote(write)
            writes += 1

    assert writes == 19
    assert series.next_look(NOW) == timedelta(seconds=300, milliseconds=1)
    assert series.next_look(after(100)) == timedelta(seconds=200, milliseconds=1)
    assert [series.observe(event(f"{number}"), NOW) for number in range(6)] == [Observed.NEW] * 5 + [Observed.DROPPED]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    series = EventSeries("operator-0")
    for number in range(25):
        series.observe(event(f"{number}"), NOW)
        series.wrote(created(series))

    assert series.observe(event("x"), after(-3000)) is Observed.DROPPED
    assert series.observe(event("x"), after(-2700)) is Observed.NEW


@pytest.mark.parametrize("limit", ["most", "waiting"])
def test_what_does_not_fit_is_dropped_and_repeats_are_counted_on(limit: str) -> None:
    series = EventSeries("operator-0", **{limit: 2})

    assert [series.observe(event(f"{number}"), NOW) for number in (0, 1, 2, 1)] == [
        Observed.NEW,
        Observed.NEW,
        Observed.DROPPED,
        Observed.REPEATED,
    ]
    series.wrote(created(series))
    assert series.observe(event("2"), NOW) is (Observed.NEW if limit == "waiting" else Observed.DROPPED)


@pytest.mark.parametrize(("pause", "left"), [(359.9, 2), (360.0, 1)])
def test_a_series_ends_six_minutes_after_its_last_repeat(pause: float, left: int) -> None:
    series = EventSeries("operator-0")
    series.observe(event(), NOW)
    series.wrote(created(series))

    series.observe(event("other"), after(pause))

    assert len(series) == left


def test_the_series_that_ended_first_is_dropped_though_an_earlier_one_goes_on() -> None:
    series = EventSeries("operator-0")
    for wait, note in ((0, "a"), (1, "b"), (300, "a")):
        series.observe(event(note), after(wait))
        write = series.take(after(wait))
        assert write is not None
        series.wrote(write)

    series.observe(event("c"), after(365))

    assert len(series) == 2
    assert series.observe(event("a"), after(365)) is Observed.REPEATED


def test_a_long_note_is_cut_before_it_is_counted() -> None:
    series = EventSeries("operator-0")
    series.observe(event("x" * 2000), NOW)

    assert created(series).manifest["note"] == note_of("x" * 2000)
    assert series.observe(event("x" * 3000), NOW) is Observed.REPEATED


def test_a_series_that_is_not_written_yet_does_not_end() -> None:
    series = EventSeries("operator-0")
    series.observe(event(), NOW)
    series.observe(event("under way"), NOW)
    series.wrote(created(series))
    created(series)

    series.observe(event("other"), after(400))

    assert len(series) == 2


def test_an_object_is_forgotten_once_it_may_have_all_its_events_again() -> None:
    series, other = EventSeries("operator-0"), ObjectRef(CONFIG_MAP, "ns", "b")
    series.observe(event(), NOW)
    series.wrote(created(series))

    series.observe(event(about=other), after(299.9))
    assert series.objects == 2
    series.observe(event("more", about=other), after(300))
    assert series.objects == 1


def test_nothing_is_to_be_looked_at_where_nothing_waits() -> None:
    series = EventSeries("operator-0")
    assert series.next_look(NOW) is None
    series.observe(event(), NOW)
    assert series.next_look(NOW) == timedelta(milliseconds=1)
    write = created(series)
    assert series.next_look(NOW) is None, "it is under way"
    series.wrote(write)
    assert series.next_look(NOW) is None


def test_a_repeat_of_progress_that_was_told_is_written_although_its_end_comes_first() -> None:
    """Only what waits to be created is superseded."""
    series = EventSeries("operator-0")
    series.observe(event(progress=True), NOW)
    series.wrote(created(series))
    series.observe(event(progress=True), after(1))
    series.observe(event("there"), after(2))

    assert (series.superseded, series.waiting, len(series)) == (0, 2, 2)
    update = series.take(after(2))
    assert isinstance(update, UpdateSeries)
    assert update.patch == {"series": series_of(2, after(1))}


def test_progress_that_is_superseded_is_counted_with_its_repeats_and_costs_nothing() -> None:
    series = EventSeries("operator-0")
    for number in range(24):
        series.observe(event(f"{number}", progress=True), NOW)
    for _ in range(3):
        series.observe(event("0", progress=True), NOW)
    other = event(about=ObjectRef(CONFIG_MAP, "ns", "b"), progress=True)
    again = event(uid="v", progress=True)
    series.observe(other, NOW)
    series.observe(again, NOW)

    assert series.observe(event("there"), NOW) is Observed.NEW
    assert (series.superseded, series.waiting, len(series)) == (27, 3, 3)
    assert [write.event for write in (created(series), created(series), created(series))] == [
        other,
        again,
        event("there"),
    ]
    told = [series.observe(event(f"more {number}"), NOW) for number in range(25)]
    assert told == [Observed.NEW] * 23 + [Observed.DROPPED] * 2, "24 tokens, of which the write under way needs one"


def test_progress_that_is_superseded_may_begin_again() -> None:
    series = EventSeries("operator-0")
    for each in (event(progress=True), event("there"), event(progress=True)):
        assert series.observe(each, NOW) is Observed.NEW

    assert [created(series).event.note, created(series).event.note] == ["there", "note"]


def test_progress_waits_two_seconds_for_its_end() -> None:
    series = EventSeries("operator-0")
    series.observe(event(progress=True), NOW)

    assert series.next_look(NOW) == timedelta(seconds=2, milliseconds=1)
    assert series.take(after(1.9)) is None
    assert series.next_look(after(1.9)) == timedelta(seconds=0.1, milliseconds=1)
    assert series.take(after(3), waited=timedelta(seconds=4)) is None
    assert series.take(after(2)) is not None


def test_progress_waits_neither_at_the_end_of_the_process_nor_for_a_clock_that_went_back() -> None:
    series = EventSeries("operator-0")
    series.observe(event(progress=True), NOW)
    series.observe(event("later", progress=True), after(60))

    first, second = series.take(NOW, waited=None), series.take(after(59))
    assert first is not None
    assert second is not None
    assert (first.event.note, second.event.note) == ("note", "later")


def test_the_next_look_is_at_the_first_that_may_be_written() -> None:
    series = EventSeries("operator-0")
    for number in range(25):
        series.observe(event(f"{number}"), NOW)
        series.wrote(created(series))
    series.observe(event("0"), NOW)
    assert series.next_look(NOW) == timedelta(seconds=1800, milliseconds=1), "a repeat leaves five for news"

    series.observe(event(about=ObjectRef(CONFIG_MAP, "ns", "b")), NOW)

    assert series.next_look(NOW) == timedelta(milliseconds=1)


def test_an_event_of_the_future_is_written_at_once_where_nothing_has_to_wait() -> None:
    series = EventSeries("operator-0")
    series.observe(event(), after(60))

    assert series.take(NOW, waited=timedelta(seconds=5)) is None
    assert series.take(NOW) is not None


def test_the_rates_of_the_objects_that_were_looked_at_last_are_kept() -> None:
    series = EventSeries("operator-0", most=2)

    def observed(name: str) -> Observed:
        found = series.observe(event(about=ObjectRef(CONFIG_MAP, "ns", name)), NOW)
        if (write := series.take(NOW)) is not None:
            series.failed(write, NOW)
        return found

    assert [observed("a") for _ in range(25)] == [Observed.NEW] * 25
    assert [observed(name) for name in "bac"] == [Observed.NEW, Observed.DROPPED, Observed.NEW]
    assert series.objects == 3, "one more than there may be, until the next look"
    assert observed("a") is Observed.DROPPED
    assert series.objects == 2, "the rate of b is forgotten"
    assert [observed(name) for name in "cac"] == [Observed.NEW, Observed.DROPPED, Observed.NEW]
    assert series.objects == 2

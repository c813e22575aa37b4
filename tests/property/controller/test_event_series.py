"""RUN-5: repeats grow a series, no object floods its namespace, nothing that was counted is lost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import EVENT, NAMESPACE
from purekube.controller.event_series import LONGEST_NOTE, CreateEvent, EventSeries, Observed, note_of
from purekube.ports import KubernetesEvent, PatchType
from tests.support.effort import effort
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER

START = datetime(2026, 6, 1, tzinfo=UTC)
OBJECTS = (ObjectRef(APPLICATION_INSTANCE, "org-a", "one"), ObjectRef(CLUSTER, None, "main"))


def event(number: int, about: ObjectRef = OBJECTS[0], note: str = "", *, progress: bool = False) -> KubernetesEvent:
    kind = "Normal" if progress else "Warning"
    return KubernetesEvent(about, "u", kind, f"Reason{number}", "Reconcile", note or f"note {number}", progress)


@attrs.define
class Site:
    """A machine, a strict API server and what was written when."""

    series: EventSeries = attrs.field(factory=lambda: EventSeries("operator-0"))
    now: datetime = START
    api: InProcessKube = attrs.field(init=False)
    writes: list[tuple[datetime, ObjectRef]] = attrs.field(factory=list)
    observed: int = 0
    dropped: int = 0

    def __attrs_post_init__(self) -> None:
        self.api = InProcessKube(ApiServer(now=lambda: self.now))
        run_sync(self.api.create(NAMESPACE.manifest("org-a"), kind=NAMESPACE, field_manager="admin"))

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def observe(self, what: KubernetesEvent) -> None:
        self.observed += 1
        self.dropped += self.series.observe(what, self.now) is Observed.DROPPED

    def write(self, *, fail: bool = False) -> bool:
        """Write what is to be written next, if anything is."""
        found = self.series.take(self.now)
        if found is None:
            return False
        self.writes.append((self.now, found.event.regarding))
        if fail:
            lost = self.series.failed(found, self.now) is Observed.DROPPED
            assert lost == isinstance(found, CreateEvent)
            self.dropped += found.manifest.get("series", {}).get("count", 1) if isinstance(found, CreateEvent) else 0
            return True
        if isinstance(found, CreateEvent):
            run_sync(self.api.create(found.manifest, kind=EVENT, field_manager="test"))
        else:
            run_sync(self.api.patch(found.ref, found.patch, patch_type=PatchType.MERGE, field_manager="test"))
        self.series.wrote(found)
        return True

    def settle(self) -> None:
        """Let time pass until nothing waits."""
        for _ in range(10_000):
            while self.write():
                pass
            wait = self.series.next_look(self.now)
            if wait is None:
                return
            self.now += wait
        raise AssertionError("it never comes to rest")

    def events(self) -> list[dict[str, Any]]:
        return [dict(item) for item in run_sync(self.api.list(EVENT)).items]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), st.integers(0, 30), st.sampled_from(OBJECTS)),
        st.tuples(st.just("flood"), st.integers(0, 40), st.sampled_from(OBJECTS)),
        st.tuples(st.just("progress"), st.integers(0, 3), st.sampled_from(OBJECTS)),
        st.tuples(st.just("pass"), st.sampled_from([0.001, 1, 60, 299, 359, 361, 3000]), st.none()),
        st.tuples(st.just("write"), st.booleans(), st.none()),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(steps=STEPS)
@example(steps=[("observe", 0, OBJECTS[0]), ("write", False, None), *[("observe", 0, OBJECTS[0])] * 3])
@settings(max_examples=effort(1.5))
def test_a_strict_server_takes_every_write_and_the_laws_hold(steps: list[Any]) -> None:
    site = Site()
    for what, argument, about in steps:
        match what:
            case "observe":
                site.observe(event(argument, about))
            case "flood":
                for number in range(argument):
                    site.observe(event(100 + number, about))
            case "progress":
                site.observe(event(argument, about, progress=True))
            case "pass":
                site.pass_time(argument)
            case "write":
                site.write(fail=argument)
    site.settle()

    counted = sum(found.get("series", {}).get("count", 1) for found in site.events())
    # Nothing that was counted is lost.
    assert counted + site.dropped + site.series.superseded == site.observed
    for about in OBJECTS:
        times = [at for at, written in site.writes if written == about]
        for first, begin in enumerate(times):
            for last, end in enumerate(times[first:], first):
                assert last - first + 1 <= 25 + (end - begin) / timedelta(seconds=300) + 1e-6
    for found in site.events():
        assert found["metadata"]["namespace"] == ("org-a" if found["regarding"]["kind"] != "Cluster" else "default")
        assert found["action"] == "Reconcile"


def test_equal_events_are_apart_only_when_the_earlier_series_had_ended() -> None:
    site = Site()
    for seconds in (0, 359, 359, 361, 10):
        site.pass_time(seconds)
        site.observe(event(1))
        site.write()
    site.settle()

    assert sorted(found.get("series", {}).get("count", 1) for found in site.events()) == [2, 3]


def test_names_of_events_about_an_object_sort_by_time() -> None:
    """`kubectl describe` lists them by name, for it sorts by lastTimestamp, which none has."""
    site = Site()
    for number in (1, 2, 3, 4, 5):
        site.observe(event(number))
        site.pass_time(0.001)
    site.settle()

    listed = sorted(site.events(), key=lambda each: str(each["metadata"]["name"]))
    assert [each["reason"] for each in listed] == [f"Reason{number}" for number in (1, 2, 3, 4, 5)]


def test_repeats_never_keep_news_about_the_same_object_from_being_told() -> None:
    site = Site()
    for second in range(3600):
        site.observe(event(1))
        site.pass_time(1)
        site.write()
        if second % 1200 == 1199:
            site.observe(event(2 + second))
            assert site.write()
    site.settle()

    assert sorted(found.get("series", {}).get("count", 1) for found in site.events()) == [1, 1, 1, 3600]
    assert len(site.writes) <= 25 + 3600 / 300 + 1


def test_a_repeat_while_its_event_is_being_written_is_written_after_it() -> None:
    site = Site()
    site.observe(event(1))
    write = site.series.take(site.now)
    assert isinstance(write, CreateEvent)
    site.observe(event(1))

    assert site.series.take(site.now) is None
    run_sync(site.api.create(write.manifest, kind=EVENT, field_manager="test"))
    site.series.wrote(write)
    site.settle()

    (found,) = site.events()
    assert found["series"]["count"] == 2


def test_memory_is_bounded_and_what_does_not_fit_is_dropped() -> None:
    series = EventSeries("operator-0", most=100, waiting=50)
    found = [
        series.observe(event(1, ObjectRef(APPLICATION_INSTANCE, "org-a", f"app-{number}")), START)
        for number in range(1000)
    ]

    assert found.count(Observed.NEW) == 50
    assert len(series) == 50


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0, 300, 2000])), min_size=1, max_size=5))
@settings(max_examples=effort(0.5))
def test_nothing_is_remembered_of_objects_about_which_nothing_was_said_for_long(lives: list[tuple[int, int]]) -> None:
    """25 writes at most, each given back after five minutes: what is older is as if it had never been."""
    site = Site()
    for number, (events, seconds) in enumerate(lives):
        for one in range(events):
            site.observe(event(one, ObjectRef(APPLICATION_INSTANCE, "org-a", f"app-{number}")))
            site.write()
        site.pass_time(seconds)
    site.settle()

    site.pass_time(25 * 300)
    site.observe(event(1))

    assert (site.series.objects, len(site.series)) == (1, 1)


@given(st.text(max_size=1500))
@example("é" * 2000)
@example("x" * LONGEST_NOTE)
@example("\ud800" * 600)
@settings(max_examples=effort(1))
def test_a_note_fits_in_bytes_and_is_cut_between_characters(text: str) -> None:
    note = note_of(text)

    assert len(note.encode()) <= LONGEST_NOTE
    assert note_of(note) == note
    if len(text.encode("utf-8", "replace")) > 4 * LONGEST_NOTE:
        assert note.endswith("…")


@pytest.mark.parametrize(
    "secret", ["password=hunter2", "Authorization: Bearer hunter2hunter2", "https://u:hunter2@host/"]
)
def test_a_note_shows_no_secret(secret: str) -> None:
    assert "hunter2" not in note_of(f"Helm says: {secret} was refused")


PROGRESS = KubernetesEvent(OBJECTS[0], "u", "Normal", "Installing", "Reconcile", "it has begun", is_progress=True)
READY = KubernetesEvent(OBJECTS[0], "u", "Normal", "Ready", "Reconcile", "it is there")


@pytest.mark.parametrize(
    "between",
    [(), (PROGRESS,), (event(1, OBJECTS[1]),), (event(1, progress=True), event(2, OBJECTS[1], progress=True))],
    ids=["at once", "repeated", "another object", "more progress"],
)
def test_progress_is_not_told_when_its_end_comes_first(
    between: tuple[KubernetesEvent, ...],
) -> None:
    site = Site()
    for each in (PROGRESS, *between, READY, READY):
        site.observe(each)
    site.settle()

    others = {each.reason for each in between if each.regarding != OBJECTS[0]}
    assert {found["reason"] for found in site.events()} == {"Ready", *others}
    assert site.series.superseded == 1 + sum(each.regarding == OBJECTS[0] for each in between)
    assert site.dropped == 0


def test_progress_that_is_written_or_under_way_stays() -> None:
    site = Site()
    site.observe(PROGRESS)
    written = site.series.take(site.now, waited=None)
    site.observe(READY)
    assert isinstance(written, CreateEvent)
    run_sync(site.api.create(written.manifest, kind=EVENT, field_manager="test"))
    site.series.wrote(written)
    site.observe(PROGRESS)
    site.settle()

    assert [found["reason"] for found in site.events()] == ["Installing", "Ready"]
    assert site.series.superseded == 0


def test_a_state_is_told_although_the_next_comes_first() -> None:
    site = Site()
    site.observe(READY)
    site.observe(PROGRESS)
    site.observe(event(1))
    site.settle()

    assert {found["reason"] for found in site.events()} == {"Ready", "Reason1"}

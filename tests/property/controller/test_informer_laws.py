"""RUN-1: whatever goes wrong, and in whatever order, the store ends up equal to the server."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.apimachinery.errors import (
    Expired,
    Forbidden,
    Invalid,
    KindMissing,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.controller.informer.changes import ChangeType
from purekube.controller.informer.machine import step
from purekube.controller.informer.messages import (
    DEFAULT_POLICY,
    InformerCommand,
    InformerPhase,
    InformerState,
    ListFailed,
    OpenStream,
    PageRead,
    ReadPage,
    Relist,
    Replace,
    ReportWatchError,
    StreamEnded,
    Wait,
    WentQuiet,
)
from purekube.ports import WatchEvent, WatchEventType
from tests.support.effort import effort
from tests.support.watch_world import KIND, Rig, server_state, store_state

NAMES = ["a", "b", "c", "d", "e"]

ERRORS: list[OperatorError] = [
    Unavailable("connection refused"),
    Unavailable("connection reset"),
    Unavailable("too many requests", retry_after=7.0, status=429),
    Unavailable("internal error", status=500),
    Unavailable("a line is not a watch event", status=200),
    Unavailable("etcd is slow", status=504),
    Expired("too old resource version"),
    KindMissing("things are not served"),
    Forbidden("things are forbidden"),
    Unauthorized("token expired"),
    Invalid("invalid resource version"),
    Permanent("redirected"),
]


class Do:
    """A happening that prints as its name."""

    def __init__(self, name: str, act: Callable[[Rig], object]) -> None:
        self.name, self.act = name, act

    def __repr__(self) -> str:
        return self.name


def write(name: str) -> Do:
    return Do(f"write {name}", lambda rig: rig.world.write(name))


def delete(name: str) -> Do:
    return Do(f"delete {name}", lambda rig: rig.world.delete(name))


def serve(times: int) -> Do:
    return Do(f"serve {times}", lambda rig: [rig.serve() for _ in range(times)])


def fail(error: OperatorError) -> Do:
    return Do(f"fail {error.message}", lambda rig: rig.fail(error))


def passing(seconds: float) -> Do:
    def act(rig: Rig) -> None:
        rig.now += seconds

    return Do(f"pass {seconds}", act)


def remove_definition(rig: Rig) -> None:
    rig.world.remove_definition()


def install_definition(rig: Rig) -> None:
    rig.world.served = True


def repeat(rig: Rig) -> None:
    """The event that was delivered last, once more."""
    if rig.watching:
        delivered = [event for at, event in rig.world.log if at <= int(rig.position)]
        for event in delivered[-1:]:
            rig.deliver(event)


def overtake(rig: Rig) -> None:
    """The newest event before those that came before it. No API server does this; a faulty proxy may."""
    if rig.watching:
        for _, event in rig.world.log[-1:]:
            rig.feed(event)


ORDINARY = [
    *(write(name) for name in NAMES),
    *(delete(name) for name in NAMES),
    *(serve(times) for times in (1, 2, 5, 20)),
]
FAULTS = [
    *(fail(error) for error in ERRORS),
    Do("clean end", lambda rig: rig.over_stream(StreamEnded())),
    Do("quiet", lambda rig: rig.over_stream(WentQuiet())),
    Do("bookmark", Rig.bookmark),
    Do("repeat", repeat),
    Do("compact", lambda rig: rig.world.compact()),
    Do("wake", Rig.wake),
    Do("remove definition", remove_definition),
    Do("install definition", install_definition),
    *(passing(seconds) for seconds in (0.1, 0.5, 2.0, 130.0, 4000.0)),
]
RARE = [
    Do("overtake", overtake),
    *(Do(f"restore {back}", lambda rig, back=back: rig.world.restore(back)) for back in (1, 3, 10)),  # type: ignore[misc]
]

LONGEST_PAUSE = max(DEFAULT_POLICY.backoff.cap, DEFAULT_POLICY.missing_backoff.cap) + 1.0

JITTERS = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5)


def rig_with(jitters: list[float]) -> Rig:
    return Rig(DEFAULT_POLICY, itertools.cycle(jitters).__next__)


def run(rig: Rig, happenings: list[Do]) -> None:
    for happening in happenings:
        happening.act(rig)


def assert_equal_to_the_server(rig: Rig) -> None:
    assert store_state(rig.store) == server_state(rig.world)
    assert {ref.name: uid for ref, uid in rig.told.items()} == {
        name: obj["metadata"]["uid"] for name, obj in rig.world.objects.items()
    }
    assert rig.store.bytes == sum(len(rig.store._entries[name].content) for name in rig.store.names())


@settings(max_examples=effort(5))
@given(st.lists(st.sampled_from(ORDINARY + FAULTS), max_size=40), JITTERS)
def test_after_any_faults_the_store_equals_the_server(happenings: list[Do], jitters: list[float]) -> None:
    """Five fault-free minutes are enough: waits end, streams resume or relist, missed deletes are told."""
    rig = rig_with(jitters)
    run(rig, happenings)
    rig.world.served = True

    rig.heal(for_seconds=300.0)

    assert_equal_to_the_server(rig)
    assert rig.state.phase is InformerPhase.WATCHING


@pytest.mark.slow
@settings(max_examples=effort(4))
@given(st.lists(st.sampled_from(ORDINARY + FAULTS + RARE), max_size=30), JITTERS)
@example([serve(1), write("a"), write("b"), Do("overtake", overtake)], [0.0])
@example([serve(1), write("a"), write("b"), Do("overtake", overtake), fail(ERRORS[0])], [0.0])
def test_even_skipped_events_are_noticed_in_the_end(happenings: list[Do], jitters: list[float]) -> None:
    """A server that goes back in time under an open stream skips events silently (W-15), and so does a stream that
    breaks after one event overtook another: the periodic list finds out at the latest."""
    rig = rig_with(jitters)
    run(rig, happenings)
    rig.world.served = True

    rig.heal(for_seconds=2 * DEFAULT_POLICY.relist_after)

    assert_equal_to_the_server(rig)


@settings(max_examples=effort(5))
@given(st.lists(st.sampled_from(ORDINARY + FAULTS + RARE), max_size=60), JITTERS)
def test_the_server_is_asked_at_a_bounded_rate(happenings: list[Do], jitters: list[float]) -> None:
    """Of any five lists and watches in a row the first and the last are at least 0.8 s apart."""
    rig = rig_with(jitters)
    run(rig, happenings)

    for first, last in zip(rig.asked, rig.asked[4:], strict=False):
        assert last - first >= 0.8 - 1e-9


@given(st.lists(st.sampled_from(ORDINARY + FAULTS), max_size=40), JITTERS)
def test_while_a_list_is_read_readers_see_the_old_content(happenings: list[Do], jitters: list[float]) -> None:
    rig = rig_with(jitters)
    for happening in happenings:
        before = store_state(rig.store)
        reading = isinstance(rig.command, ReadPage) and rig.command.continue_token == ""
        happening.act(rig)
        still_reading = isinstance(rig.command, ReadPage) and rig.command.continue_token != ""
        if reading and still_reading:
            assert store_state(rig.store) == before


CUTS: dict[str, Callable[[Rig], None]] = {
    "reset": lambda rig: rig.fail(Unavailable("connection reset")),
    "clean end": lambda rig: rig.over_stream(StreamEnded()),
    "half open": lambda rig: setattr(rig, "is_half_open", rig.watching),
}
"""How a stream ends whose server is stopped."""

EDITS = [*(write(name) for name in NAMES), *(delete(name) for name in NAMES)]


@pytest.mark.slow
@settings(max_examples=effort(8))
@given(
    st.lists(st.sampled_from(ORDINARY + FAULTS), max_size=20),
    st.lists(st.sampled_from(EDITS), max_size=12),
    st.integers(0, 12),
    st.sampled_from(sorted(CUTS)),
    st.floats(3.0, 80.0),
    st.lists(st.sampled_from(EDITS), max_size=16),
    JITTERS,
)
@example([serve(20)], [write("a")], 1, "half open", 3.0, [write("a")], [0.5])
@example([serve(1), write("a"), serve(1)], [], 1, "clean end", 3.0, [write("a")], [0.0])
@example([serve(20)], [write("a"), write("b")], 2, "half open", 3.0, [write("b"), write("a"), write("c")], [0.5])
@example([serve(20)], [write("a"), serve(2), write("b"), serve(2)], 2, "reset", 9.0, [write("b"), write("a")], [0.9])
def test_after_a_snapshot_is_restored_every_edit_is_seen_within_the_quiet_limit_and_one_list_RUN_1(
    before: list[Do], edits: list[Do], back: int, cut: str, outage: float, after: list[Do], jitters: list[float]
) -> None:
    """Whatever versions the server serves next: lower than the position of the watch, equal, or beyond it already.

    Blind for up to an hour: a watch from a version of the server's future is accepted and silent (W-15).
    """
    rig = rig_with(jitters)
    run(rig, before + edits)
    rig.world.served = True
    CUTS[cut](rig)
    rig.world.restore(back)
    rig.stay_away(outage)
    run(rig, after)
    quiet_limit = rig.command.quiet_limit if isinstance(rig.command, OpenStream) else 0.0

    rig.heal(for_seconds=quiet_limit + LONGEST_PAUSE)

    assert_equal_to_the_server(rig)


@settings(max_examples=effort(3))
@given(
    st.lists(st.sampled_from(EDITS), min_size=1, max_size=12),
    st.integers(1, 12),
    st.sampled_from(["reset", "clean end"]),
    st.lists(st.sampled_from(EDITS), max_size=16),
    JITTERS,
)
def test_restored_storage_is_noticed_at_once_where_the_server_is_back_before_anything_is_tried(
    edits: list[Do], back: int, cut: str, after: list[Do], jitters: list[float]
) -> None:
    """Nothing has overtaken the position yet when the watch is to be resumed: a list of one object tells."""
    rig = rig_with(jitters)
    run(rig, edits)
    rig.heal(for_seconds=10.0)
    CUTS[cut](rig)
    rig.world.restore(back)
    while not rig.watching or rig.state.doubted_since is not None:
        rig.serve()
    run(rig, after)
    while rig.serve():
        pass

    assert_equal_to_the_server(rig)


def command_after_serving(rig: Rig) -> InformerCommand:
    """What the informer asks for next."""
    rig.serve()
    return rig.command


def settled_rig(*names: str) -> Rig:
    """An informer that watches a server with these objects."""
    rig = rig_with([0.5])
    for name in names:
        rig.world.write(name)
    while rig.serve():
        pass
    assert rig.watching
    rig.changes.clear()
    rig.asked.clear()
    return rig


def test_objects_of_the_first_list_are_marked_initial_and_later_ones_are_not() -> None:
    rig = rig_with([0.5])
    rig.world.write("a")
    while rig.serve():
        pass
    rig.world.write("b")
    rig.serve()

    assert [(change.ref.name, change.initial) for change in rig.changes] == [("a", True), ("b", False)]


@pytest.mark.parametrize("error", [Expired("in-stream"), Expired("HTTP 410")], ids=["in-stream", "http"])
def test_after_410_a_relist_tells_the_deletes_that_were_missed(error: Expired) -> None:
    rig = settled_rig("a", "b", "c")
    rig.world.delete("b")
    rig.world.write("d")
    rig.world.write("a")
    rig.world.compact()

    rig.fail(error)
    while rig.serve():
        pass

    assert {(change.type, change.ref.name) for change in rig.changes} == {
        (ChangeType.DELETED, "b"),
        (ChangeType.ADDED, "d"),
        (ChangeType.UPDATED, "a"),
    }
    assert rig.relists == ["expired"]


def test_an_object_recreated_while_disconnected_is_a_delete_and_an_add() -> None:
    rig = settled_rig("a")
    rig.world.delete("a")
    rig.world.write("a")
    rig.world.compact()

    rig.fail(Expired("too old"))
    while rig.serve():
        pass

    assert [change.type for change in rig.changes] == [ChangeType.DELETED, ChangeType.ADDED]


@pytest.mark.parametrize("error", [*ERRORS[:2], ERRORS[3], ERRORS[5]], ids=lambda error: error.message)
def test_connection_errors_429_and_5xx_resume_at_the_same_position(error: Unavailable) -> None:
    rig = settled_rig("a")
    position = rig.position

    rig.fail(error)

    assert isinstance(rig.command, Wait)
    assert 0.8 <= rig.command.seconds <= 2.0
    commands = [command_after_serving(rig), command_after_serving(rig)]
    assert commands[0] == ReadPage(limit=1), "a list of one object tells whether the server is behind"
    assert isinstance(commands[1], OpenStream)
    assert commands[1].resource_version == position
    assert rig.relists == []


@pytest.mark.parametrize("error", [*ERRORS[:3], ERRORS[5]], ids=lambda error: error.message)
def test_a_server_that_is_away_for_longer_is_listed_anew_as_its_storage_may_be_restored(error: Unavailable) -> None:
    rig = settled_rig("a")
    rig.fail(error)
    while rig.command != ReadPage():
        rig.fail(error)
        if isinstance(rig.command, Wait):
            rig.serve()

    assert rig.command == ReadPage()
    assert rig.relists == ["interrupted"]


def test_a_server_that_says_nonsense_twice_is_listed_anew() -> None:
    rig = settled_rig("a")
    for _ in range(2):
        rig.fail(Unavailable("garbage", status=200))
        rig.serve()

    assert rig.relists == ["interrupted"]


def test_backoff_grows_from_0_8_s_to_30_s_and_starts_anew_after_two_quiet_minutes() -> None:
    rig = settled_rig()
    waits = []
    for _ in range(9):
        rig.fail(Unavailable("connection refused"))
        assert isinstance(rig.command, Wait)
        waits.append(rig.command.seconds)
        rig.serve()
    rig.now += 121.0
    rig.fail(Unavailable("connection refused"))

    assert 0.8 <= waits[0] <= 1.6
    assert waits == sorted(waits)
    assert 15.0 <= waits[-1] <= 30.0
    assert rig.command == Wait(waits[0])


def test_a_server_may_ask_for_a_longer_wait_but_not_for_an_hour() -> None:
    rig = settled_rig()
    rig.fail(Unavailable("busy", status=429, retry_after=40.0))
    assert rig.command == Wait(40.0)
    rig.serve()
    rig.fail(Unavailable("busy", status=429, retry_after=86400.0))
    assert rig.command == Wait(300.0)


def test_a_watch_that_closes_at_once_counts_as_an_error() -> None:
    rig = settled_rig("a")
    waits = []
    for _ in range(5):
        rig.over_stream(StreamEnded())
        assert isinstance(rig.command, Wait)
        waits.append(rig.command.seconds)
        while rig.serve():
            pass

    assert waits[0] >= 0.8
    assert waits[-1] >= 8.0
    assert rig.relists == ["interrupted"] * 4


def test_a_watch_that_brings_one_event_and_closes_is_reopened_once_a_second() -> None:
    rig = settled_rig("a")
    began = rig.now
    for _ in range(10):
        rig.world.write("a")
        rig.serve()
        rig.over_stream(StreamEnded())
        while not rig.watching:
            rig.serve()

    assert rig.now - began == pytest.approx(10.0)
    assert rig.state.failures == 0


def test_a_bookmark_is_no_event_and_moves_the_position() -> None:
    rig = settled_rig("a")
    rig.world.version += 50
    rig.bookmark()
    rig.over_stream(StreamEnded())

    assert rig.changes == []
    assert rig.store.resource_version == str(rig.world.version)
    assert isinstance(rig.command, Wait), "closed at once: the bookmark does not count"


def test_silence_is_noticed_a_little_after_the_next_bookmark_was_due() -> None:
    """Also on the first stream, and again on the one after a silent one: a proxy may hold both."""
    rig = settled_rig("a")
    for _ in range(2):
        assert isinstance(rig.command, OpenStream)
        assert 75.0 < rig.command.quiet_limit == DEFAULT_POLICY.bookmark_silence <= 90.0
        rig.over_stream(WentQuiet())
        while rig.serve():
            pass
    rig.bookmark()
    for _ in range(10):
        rig.over_stream(WentQuiet())
        while rig.serve():
            pass
        assert isinstance(rig.command, OpenStream)
        assert rig.command.quiet_limit == DEFAULT_POLICY.bookmark_silence


def test_a_server_that_never_sends_bookmarks_is_not_suspected_for_ever() -> None:
    rig = settled_rig("a")
    for _ in range(DEFAULT_POLICY.believe_silence):
        rig.over_stream(WentQuiet())
        while rig.serve():
            pass

    assert isinstance(rig.command, OpenStream)
    assert rig.command.quiet_limit > rig.command.timeout_seconds


def test_the_server_timeout_is_between_five_and_ten_minutes() -> None:
    timeouts = set()
    for jitter in (0.0, 0.5, 0.999):
        rig = rig_with([jitter])
        rig.serve()
        assert isinstance(rig.command, OpenStream)
        timeouts.add(rig.command.timeout_seconds)

    assert timeouts == {300, 450, 600}


def test_a_resource_version_that_goes_backwards_leads_to_a_relist() -> None:
    """No kube-apiserver sends one: a proxy that reaches another cluster may."""
    rig = settled_rig("a", "b")
    rig.world.restore(1)
    rig.feed(WatchEvent(WatchEventType.BOOKMARK, {"kind": KIND.kind, "metadata": {"resourceVersion": "101"}}))

    assert rig.relists == ["backwards"]
    rig.heal(for_seconds=60)
    assert_equal_to_the_server(rig)


def test_a_list_of_restored_storage_is_believed_at_once() -> None:
    """A list without a resourceVersion is the most recent there is (W-01)."""
    rig = settled_rig("a", "b")
    rig.world.restore(1)
    rig.fail(Expired("too old"))

    assert rig.command == ReadPage()
    rig.serve()

    assert_equal_to_the_server(rig)
    assert set(store_state(rig.store)) == {"a"}


def test_a_version_that_restored_storage_gives_again_is_another_object() -> None:
    """The same uid and the same resourceVersion, and yet another content."""
    rig = settled_rig("a")
    rig.world.write("a")
    rig.serve()
    rig.world.restore(1)
    rig.world.write("a")
    rig.changes.clear()

    rig.over_stream(WentQuiet())
    while rig.serve():
        pass

    assert_equal_to_the_server(rig)
    assert [(change.type, change.ref.name) for change in rig.changes] == [(ChangeType.UPDATED, "a")]


def test_a_silent_stream_is_listed_anew_at_once() -> None:
    rig = settled_rig("a")
    rig.over_stream(WentQuiet())

    assert rig.command == ReadPage()
    assert rig.relists == ["quiet"]


def test_streams_that_a_load_balancer_cuts_are_resumed_each_time_without_a_list() -> None:
    """kubeadm's example of HAProxy closes what is idle for 35 seconds."""
    rig = settled_rig("a")
    for _ in range(20):
        rig.now += 35.0
        rig.fail(Unavailable("connection reset"))
        assert isinstance(rig.command, Wait)
        assert rig.command.seconds < 2.0
        while rig.serve():
            pass

    assert rig.relists == []


def test_a_missing_kind_settles_the_informer_and_is_looked_for_ever_more_slowly_REC_12() -> None:
    rig = rig_with([0.5])
    rig.world.served = False
    began, waits = rig.now, []
    while rig.now < began + 600:
        if isinstance(rig.command, Wait):
            waits.append(rig.command.seconds)
        rig.serve()

    assert rig.state.phase is InformerPhase.MISSING or isinstance(rig.command, ReadPage)
    assert rig.state.has_synced
    assert waits[0] < 1.7
    assert 30.0 <= waits[-1] <= 60.0


def test_an_informer_that_is_woken_finds_a_kind_that_has_appeared_at_once_REC_12() -> None:
    rig = rig_with([0.5])
    rig.world.served = False
    while rig.now < 5600:
        rig.serve()
    rig.world.served = True
    rig.world.write("a")
    if isinstance(rig.command, ReadPage):
        rig.serve()
    rig.now += 1.0

    rig.wake()
    while rig.serve():
        pass

    assert_equal_to_the_server(rig)
    assert rig.now < 5670


def test_a_kind_whose_definition_was_removed_is_emptied_only_when_it_was_said_twice() -> None:
    rig = settled_rig("a", "b")
    rig.world.served = False  # as an API server does that has not read its CRDs yet
    rig.fail(KindMissing("not served"))
    rig.serve()
    assert set(store_state(rig.store)) == {"a", "b"}

    rig.serve()
    rig.serve()

    assert store_state(rig.store) == {}
    assert [change.type for change in rig.changes] == [ChangeType.DELETED] * 2
    assert rig.state.phase is InformerPhase.MISSING


def test_a_page_that_failed_is_read_again_not_the_whole_list() -> None:
    rig = rig_with([0.5])
    for name in NAMES:
        rig.world.write(name)
    rig.serve()
    second = rig.command
    assert isinstance(second, ReadPage)
    assert second.continue_token

    rig.fail(Unavailable("connection reset"))
    rig.serve()

    assert rig.command == second


def test_a_token_that_expired_begins_the_list_anew() -> None:
    rig = rig_with([0.5])
    for name in NAMES:
        rig.world.write(name)
    rig.serve()
    rig.world.delete("a")
    rig.world.compact()
    while rig.serve():
        pass

    assert_equal_to_the_server(rig)
    assert rig.relists == ["expired"]


@given(st.lists(st.sampled_from(EDITS), min_size=1, max_size=12), st.sampled_from(["reset", "clean end"]))
def test_a_stream_that_broke_is_resumed_from_the_version_of_its_last_event_RUN_1(edits: list[Do], cut: str) -> None:
    rig = settled_rig("a")
    run(rig, edits)
    while rig.serve():
        pass
    CUTS[cut](rig)
    while not rig.watching:
        rig.serve()

    assert isinstance(rig.command, OpenStream)
    assert rig.command.resource_version == str(rig.world.version)
    assert rig.relists == []


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), st.data())
def test_a_deletion_on_an_open_stream_removes_one_object_and_lists_nothing_RUN_1(
    names: list[str], data: st.DataObject
) -> None:
    rig = settled_rig(*names)
    gone = data.draw(st.sampled_from(names))
    rig.world.delete(gone)
    rig.serve()

    assert [(change.type, change.ref.name) for change in rig.changes] == [(ChangeType.DELETED, gone)]
    assert set(store_state(rig.store)) == set(names) - {gone}
    assert rig.watching
    assert rig.asked == []
    assert rig.relists == []
    assert rig.store.resource_version == str(rig.world.version)


@pytest.mark.parametrize("names", [[], ["a"], NAMES], ids=len)
def test_a_kind_that_vanishes_between_two_pages_leaves_an_empty_store_REC_12(names: list[str]) -> None:
    """The pages that were read before are part of nothing."""
    rig = settled_rig(*names)
    for name in NAMES:
        rig.world.write(name)
    rig.world.compact()
    rig.fail(Expired("too old"))
    rig.serve()
    assert isinstance(rig.command, ReadPage)
    assert rig.command.continue_token, "the list is under way"
    rig.world.remove_definition()
    while rig.state.phase is not InformerPhase.MISSING:
        rig.serve()

    assert store_state(rig.store) == {}
    assert {change.ref.name for change in rig.changes if change.type is ChangeType.DELETED} == set(names)


def test_a_kind_that_vanishes_during_the_very_first_list_leaves_an_empty_store_REC_12() -> None:
    rig = rig_with([0.5])
    for name in NAMES:
        rig.world.write(name)
    rig.serve()
    rig.world.remove_definition()
    rig.serve()

    assert rig.state.phase is InformerPhase.MISSING
    assert store_state(rig.store) == {}
    assert rig.changes == []


@given(st.sampled_from([None, 0.0, 5.0, 1e6]), st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_a_list_of_one_object_lets_a_broken_watch_go_on_only_from_where_the_server_still_is_RUN_1(
    doubted: float | None, position: int, server: int, is_watching: bool
) -> None:
    now = 1e6
    phase = InformerPhase.WATCHING if is_watching else InformerPhase.LISTING
    since = None if doubted is None else now - doubted
    state = InformerState(phase, resource_version=str(position), doubted_since=since, has_synced=True)

    after, effects = step(state, PageRead((), str(server)), now, 0.0)

    assert after.heard_at == now
    if not is_watching:
        assert (after.phase, after.resource_version) == (InformerPhase.WATCHING, str(server))
        assert any(isinstance(effect, Replace) for effect in effects)
    elif server < position or (doubted or 0.0) > DEFAULT_POLICY.resume_within:
        assert after.phase is InformerPhase.LISTING
        assert any(isinstance(effect, Relist) for effect in effects)
    else:
        assert (after.doubted_since, after.resource_version) == (None, str(position))
        assert [type(effect) for effect in effects] == [OpenStream]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_after_any_failed_list_something_is_waited_for_or_asked_RUN_1(error: OperatorError) -> None:
    for phase in InformerPhase:
        after, effects = step(InformerState(phase, resource_version="7"), ListFailed(error), 100.0, 0.0)
        assert any(isinstance(effect, Wait | ReadPage | OpenStream) for effect in effects), phase
        for effect in effects:
            if isinstance(effect, Wait):
                assert after.wake_at == 100.0 + effect.seconds, phase


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_kind_that_is_missing_empties_the_store_and_leaves_no_version_REC_12(has_begun: bool) -> None:
    state = InformerState(InformerPhase.LISTING, resource_version="7" if has_begun else "", misses=int(has_begun))
    after, effects = step(state, ListFailed(KindMissing("gone")), 0.0, 0.0)

    assert (after.phase, after.has_synced, after.resource_version) == (InformerPhase.MISSING, True, "")
    assert Replace("") in effects
    assert ReportWatchError("gone") in effects
    assert after.wake_at > 0
    assert Wait(after.wake_at) in effects

"""When a notice is due, sent, lost and tried again, step by step (SEE-6)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef, content_hash
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.overview.notices import (
    MOST_WAITING,
    RECENT,
    Attention,
    Need,
    Notice,
    NoticeType,
    Send,
    WaitUntil,
    cloud_event,
    delivered,
    due,
    failed,
    next_step,
    observed,
    refused,
)
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATIENT = timedelta(minutes=5)
REF = ObjectRef(APPLICATION_INSTANCE, "ns", "a")
S = OverviewState


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def summary(state: OverviewState, since: datetime | None = NOW, **fields: Any) -> Summary:
    return Summary(REF, state, "R", "why", since, **fields)


def began(**fields: Any) -> Attention:
    return Attention(after(-60), **fields)


def need(state: OverviewState, since: datetime = NOW, **fields: Any) -> Need:
    patience = timedelta(0) if state in (S.STALLED, S.FAILED) else PATIENT
    return Need(summary(state, since), since, since + patience, **fields)


@pytest.mark.parametrize("state", list(S))
def test_each_state_needs_a_person_at_once_after_a_while_or_never(state: OverviewState) -> None:
    found = observed(began(), "u", summary(state), NOW)

    if state in (S.STALLED, S.FAILED, S.DEGRADED, S.WAITING, S.NOT_READY):
        assert dict(found.needs) == {"u": need(state)}
    else:
        assert found == began()


def test_a_deletion_needs_a_person_only_if_nothing_else_ends_it_SEE_6() -> None:
    waits = summary(S.DELETING, advice="one of two commands", is_helpable=True)
    found = observed(began(), "u", waits, NOW)

    assert dict(found.needs) == {"u": Need(waits, NOW, NOW + PATIENT)}
    assert observed(began(needs={"u": need(S.STALLED)}), "u", summary(S.DELETING, advice="Flux"), NOW) == began()


@pytest.mark.parametrize(("reason", "is_noticed"), [("ConflictingOperation", False), ("AwaitingApproval", True)])
def test_nobody_is_called_for_an_operation_that_waits_for_another(reason: str, is_noticed: bool) -> None:
    """A notice said that a person is needed, and its help that nothing has to be done."""
    blocked = {"type": "Blocked", "status": "True", "reason": reason, "message": "m"}
    told = summary_of(OPERATION, {**OPERATION.manifest("a", "ns"), "status": {"conditions": [blocked]}})
    assert ("u" in observed(began(), "u", told, NOW).needs) is is_noticed


@pytest.mark.parametrize(("since", "counted"), [(None, 0), (after(-3), -3), (after(3), 0)])
def test_a_need_counts_from_when_it_began_and_not_from_the_future(since: datetime | None, counted: float) -> None:
    found = observed(began(), "u", summary(S.WAITING, since), NOW).needs["u"]

    assert (found.since, found.due_at) == (after(counted), after(counted) + PATIENT)


@pytest.mark.parametrize(("age", "announced"), [(0.0, False), (0.1, True)])
def test_a_need_that_a_former_process_will_have_announced_is_known(age: float, announced: bool) -> None:
    start = NOW - RECENT - PATIENT - timedelta(minutes=age)

    assert observed(Attention(NOW), "u", summary(S.WAITING, start), NOW).needs["u"].announced is announced


def test_a_need_that_goes_on_is_due_at_the_earlier_time() -> None:
    waiting = observed(began(), "u", summary(S.WAITING), NOW)
    worse = observed(waiting, "u", summary(S.STALLED, after(2)), after(2))
    assert worse.needs["u"] == Need(summary(S.STALLED, after(2)), NOW, after(2))

    later = observed(waiting, "u", summary(S.DEGRADED, after(2)), after(2))
    assert later.needs["u"] == Need(summary(S.DEGRADED, after(2)), NOW, after(5))
    told = began(needs={"u": need(S.WAITING, announced=True)})
    assert observed(told, "u", summary(S.STALLED, after(2)), after(2)).needs["u"].due_at == after(5)


def notice(type_: NoticeType = NoticeType.NEEDED, at: datetime = NOW, id_: str = "x", **fields: Any) -> Notice:
    return Notice(id_, type_, at, summary(S.STALLED), NOW, **fields)


def test_a_need_is_announced_once_it_is_due_the_oldest_first() -> None:
    needs = {"b": need(S.WAITING), "a": need(S.WAITING), "c": need(S.STALLED, after(1)), "d": need(S.WAITING, after(1))}
    early = due(began(needs=needs), after(4.9))
    assert [(each.summary, each.at) for each in early.waiting] == [(summary(S.STALLED, after(1)), after(4.9))]

    found = due(began(needs=needs), after(5))
    assert [each.since for each in found.waiting] == [after(1), NOW, NOW]
    assert [found.needs[uid].announced for uid in "abcd"] == [True, True, True, False]
    assert due(found, after(5)) == found
    assert len({each.id for each in found.waiting}) == 3
    assert {each.type for each in found.waiting} == {NoticeType.NEEDED}


@pytest.mark.parametrize("gone", [False, True])
def test_an_announced_need_that_ends_is_told_and_another_is_forgotten(gone: bool) -> None:
    well = None if gone else summary(S.READY, after(1))
    told = began(needs={"u": need(S.STALLED, announced=True)})

    found = observed(told, "u", well, after(2))

    assert dict(found.needs) == {}
    (sent,) = found.waiting
    assert (sent.type, sent.at, sent.since) == (NoticeType.RESOLVED, after(2), NOW)
    deleted = attrs.evolve(summary(S.STALLED), state=S.DELETING, message="it is deleted")
    assert sent.summary == (deleted if gone else well)
    assert observed(began(needs={"u": need(S.WAITING)}), "u", well, after(2)) == began()
    (announced,) = due(began(needs={"u": need(S.STALLED)}), NOW).waiting
    assert [announced.id, sent.id] == [
        content_hash(["u", "2026-01-01T12:00:00Z"]),
        content_hash(["u", "2026-01-01T12:00:00Z", "resolved"]),
    ], "every process gives a transition the same id"


def test_the_next_step_is_to_send_or_to_wait_for_the_earliest_time() -> None:
    needs = {"a": need(S.WAITING, after(1)), "b": need(S.WAITING), "c": need(S.STALLED, after(-9), announced=True)}
    waiting = (notice(), notice(id_="y"))

    assert next_step(began(), NOW) == WaitUntil(None)
    assert next_step(began(needs=needs), NOW) == WaitUntil(after(5))
    assert next_step(began(waiting=waiting, lost=3), NOW) == Send(notice(lost=3))
    assert next_step(began(waiting=waiting, retry_at=NOW), NOW) == Send(notice())
    assert next_step(began(needs=needs, waiting=waiting, retry_at=after(1)), NOW) == WaitUntil(after(1))
    sooner = {"b": need(S.WAITING, after(-1))}
    assert next_step(began(needs=sooner, waiting=waiting, retry_at=after(5)), NOW) == WaitUntil(after(4))
    assert next_step(began(retry_at=after(1)), NOW) == WaitUntil(None), "nothing waits to be tried again"


def test_a_clock_that_was_set_back_delays_neither_a_notice_nor_its_delivery() -> None:
    hours_ago = after(-120)
    told = due(began(needs={"u": need(S.WAITING)}), hours_ago)

    assert [each.at for each in told.waiting] == [hours_ago]
    assert next_step(began(waiting=(notice(),), retry_at=after(1)), hours_ago) == Send(notice())


def test_a_delivery_ends_the_tries_and_tells_what_was_lost() -> None:
    state = began(waiting=(notice(), notice(id_="y")), lost=5, attempts=3, retry_at=NOW)

    left = began(waiting=(notice(id_="y"),), lost=2)
    assert delivered(state, notice(lost=3)) == left
    assert refused(state, notice(lost=3)) == attrs.evolve(left, lost=6)


@pytest.mark.parametrize(
    ("attempts", "asked", "seconds"),
    [(0, None, 1.5), (1, None, 3.0), (20, None, 225.0), (0, 20.0, 20.0), (0, 999.0, 300.0), (0, 0.0, 1.5)],
)
def test_a_failed_delivery_is_tried_again_with_backoff_or_when_the_receiver_says(
    attempts: int, asked: float | None, seconds: float
) -> None:
    found = failed(began(attempts=attempts), NOW, 0.5, asked)

    assert found == began(attempts=attempts + 1, retry_at=NOW + timedelta(seconds=seconds))


def test_beyond_the_most_the_oldest_is_lost() -> None:
    full = tuple(notice(id_=str(number)) for number in range(MOST_WAITING))
    needs = {"u": need(S.STALLED)}

    found = due(began(needs=needs, waiting=full, lost=1), NOW)
    assert (len(found.waiting), found.waiting[0].id, found.lost) == (MOST_WAITING, "1", 2)
    room = due(began(needs=needs, waiting=full[1:]), NOW)
    assert (len(room.waiting), room.waiting[0].id, room.lost) == (MOST_WAITING, "1", 0)


def test_an_event_for_the_receiver_has_exactly_these_fields() -> None:
    told = notice(at=after(1), lost=2)
    told = attrs.evolve(told, summary=attrs.evolve(told.summary, remedies=("kubectl x",), advice="ask"))

    assert cloud_event(told, "c", "https://page") == {
        "specversion": "1.0",
        "id": "x",
        "source": "/vworkspace/clusters/c",
        "type": "io.vworkspace.attention.needed",
        "subject": f"{APPLICATION_INSTANCE.crd_name}/ns/a",
        "time": "2026-01-01T12:01:00Z",
        "datacontenttype": "application/json",
        "data": {
            "cluster": "c",
            "kind": "ApplicationInstance",
            "namespace": "ns",
            "name": "a",
            "state": "Stalled",
            "reason": "R",
            "message": "why",
            "help": "ask kubectl x",
            "since": "2026-01-01T12:00:00Z",
            "link": "https://page",
            "lost": 2,
        },
    }
    bare = Notice("x", NoticeType.RESOLVED, NOW, Summary(ObjectRef(CLUSTER, None, "c"), S.READY, advice="wait"), NOW)
    event = cloud_event(bare, "c")
    assert (event["type"], event["subject"]) == ("io.vworkspace.attention.resolved", f"{CLUSTER.crd_name}/c")
    assert event["data"] == {
        "cluster": "c",
        "kind": "Cluster",
        "name": "c",
        "state": "Ready",
        "help": "wait",
        "since": "2026-01-01T12:00:00Z",
    }


@pytest.mark.parametrize("end", [delivered, refused])
def test_a_notice_that_is_dropped_while_it_is_sent_is_lost_only_if_it_does_not_arrive_SEE_6(end: Any) -> None:
    """The receiver was told of a lost notice that it had got, or of two where one was lost."""
    notices = tuple(Notice(str(at), NoticeType.NEEDED, NOW, summary(S.FAILED), NOW) for at in range(MOST_WAITING))
    state = began(waiting=notices)
    step = next_step(state, NOW)
    assert isinstance(step, Send)
    state = due(observed(state, "u", summary(S.FAILED), NOW), NOW)
    assert (state.waiting[0].id, state.lost) == ("1", 1)
    state = end(state, step.notice)

    assert state.lost == (0 if end is delivered else 1)
    assert len(state.waiting) == MOST_WAITING

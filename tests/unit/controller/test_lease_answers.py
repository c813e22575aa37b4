"""What a candidate does with each event in each role, exactly, and what it writes into the Lease (RUN-4, RUN-13)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import AlreadyExists, Forbidden, NotFound, OperatorError, Stale, Unavailable
from purekube.controller.lease.machine import renewal_wait, retry_wait, standby_wait, step, timeout
from purekube.controller.lease.messages import (
    CloseFence,
    CreateLease,
    End,
    LeaderObserved,
    LeadershipLost,
    LeaseContext,
    LeaseEvent,
    LeaseRead,
    LeaseRequestFailed,
    LeaseState,
    LeaseWritten,
    OpenFence,
    PeersRead,
    PeersUnread,
    ReadLease,
    ReadPeers,
    ReleaseRequested,
    ReportLeaseError,
    Role,
    SetTimer,
    ShardsDisagree,
    TimerFired,
    UpdateLease,
)
from purekube.controller.lease.record import (
    Disagreement,
    LeasePolicy,
    LeaseTimes,
    Peers,
    acquired,
    holder_of,
    identity_of,
    is_lease_of,
    lease_duration,
    lease_name,
    released,
    shard_count_of,
)
from purekube.controller.shard import WHOLE, Shard

WALL = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2026-01-01T00:00:00.000000Z"
POLICY = LeasePolicy()
NEVER = float("-inf")
ME, OTHER = "me", "other"
WAIT = 2 * (1 + 1.2 * 0.5)
DISAGREES = ShardsDisagree(Disagreement("op", "other_0/2", 2))


def moment(now: float = 100.0, jitter: float = 0.5) -> LeaseContext:
    return LeaseContext(now, WALL, jitter)


def lease(holder: str = ME, version: str = "7", name: str = "op", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", **({"resourceVersion": version} if version else {})}
    return {"metadata": meta, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec}}


def candidate(role: Role = Role.STANDBY, **fields: Any) -> LeaseState:
    return attrs.evolve(LeaseState("ns", "op", ME, role), **fields)


def leader(**fields: Any) -> LeaseState:
    return candidate(Role.LEADER, **{"lease": lease(), "held_until": 108.0, "asked_at": 98.0, **fields})


def asked(state: LeaseState, now: float = 100.0) -> LeaseState:
    return attrs.evolve(state, asked_at=now)


def standing(state: LeaseState) -> LeaseState:
    return attrs.evolve(state, role=Role.STANDBY, held_until=NEVER)


NO = LeaseRequestFailed(Forbidden("no"))


# --- times --------------------------------------------------------------------------------------------------------


def test_a_standby_waits_between_one_period_and_more_by_its_jitter() -> None:
    assert [standby_wait(moment(jitter=jitter)) for jitter in (0.0, 0.5, 1.0)] == [2.0, WAIT, pytest.approx(4.4)]


@pytest.mark.parametrize(
    ("now", "request_", "renewal", "retry"),
    [
        (98.0, 5.0, 2.0, 2.0),
        (104.0, 4.0, 2.0, 2.0),
        (106.0, 2.0, 2.0, 1.0),
        (107.0, 1.0, 1.0, 0.5),
        (107.9, 0.1, 0.1, 0.1),
    ],
)
def test_a_leader_waits_no_longer_than_it_may_write(now: float, request_: float, renewal: float, retry: float) -> None:
    at = moment(now)

    assert timeout(leader(), at) == pytest.approx(request_)
    assert timeout(attrs.evolve(leader(), role=Role.CONFIRMING), at) == pytest.approx(request_)
    assert timeout(attrs.evolve(leader(), role=Role.STANDBY), at) == 5.0
    assert renewal_wait(leader(), at) == pytest.approx(renewal)
    assert retry_wait(leader(), at) == pytest.approx(retry)
    assert renewal_wait(leader(), moment(200.0)) == 0.0


# --- standby ------------------------------------------------------------------------------------------------------


def test_a_standby_reads_the_lease_first() -> None:
    assert step(candidate(), TimerFired(), moment()) == (asked(candidate()), (ReadLease(5.0),))


@pytest.mark.parametrize(
    ("found", "effects"),
    [(None, ()), (lease(""), ()), (lease(ME), (LeaderObserved(ME),))],
)
def test_a_free_lease_is_taken_once_the_others_were_looked_at(found: Any, effects: Any) -> None:
    state, told = step(candidate(), LeaseRead(found), moment())

    assert (state.lease, state.asked_at, state.role) == (found, 100.0, Role.STANDBY)
    assert told == (*effects, ReadPeers(5.0))


@pytest.mark.parametrize(
    ("changed", "duration", "left"),
    [(100.0, 15, 15.0), (86.0, 15, 1.0), (86.0, 60, 46.0), (86.0, 1, 1.0), (85.0, 15, 0.0)],
)
def test_a_lease_of_another_is_taken_when_it_has_not_changed_for_its_duration(
    changed: float, duration: int, left: float
) -> None:
    held = lease(OTHER, leaseDurationSeconds=duration)
    state = candidate(lease=held, changed_at=changed)

    after, effects = step(state, LeaseRead(held), moment())

    assert after == (state if left else asked(state))
    assert effects == ((SetTimer(min(WAIT, left + 0.25)),) if left else (ReadPeers(5.0),))


def test_a_new_holder_is_told_and_waited_for() -> None:
    before = candidate(lease=lease(OTHER), changed_at=3.0)
    found = lease("third", "8")

    state, effects = step(before, LeaseRead(found), moment())

    assert (state.lease, state.changed_at) == (found, 100.0)
    assert effects == (LeaderObserved("third"), SetTimer(WAIT))
    renewed = lease(OTHER, "8", renewTime="x")
    state, effects = step(before, LeaseRead(renewed), moment())
    assert (state.changed_at, effects) == (100.0, (SetTimer(WAIT),))
    same = lease(OTHER, "8")
    assert step(before, LeaseRead(same), moment(4.0))[0] == attrs.evolve(before, lease=same)


def test_a_holder_with_other_shards_is_told_while_it_is_waited_for_RUN_13() -> None:
    held = lease("other_0/2")
    state = candidate(lease=held, changed_at=100.0)

    assert step(state, LeaseRead(held), moment())[1] == (DISAGREES, SetTimer(WAIT))


def test_a_deleted_lease_keeps_its_holder_until_its_time_is_over() -> None:
    state, effects = step(candidate(lease=lease(OTHER), changed_at=99.0), LeaseRead(None), moment())

    assert (state.lease, state.changed_at) == ({"spec": lease(OTHER)["spec"]}, 99.0)
    assert effects == (SetTimer(WAIT),)


@pytest.mark.parametrize(
    ("error", "lease_", "effects"),
    [
        (Forbidden("no"), lease(OTHER), [ReportLeaseError("no")]),
        (Unavailable("down"), None, [ReportLeaseError("down")]),
        (NotFound("no namespace"), None, [ReportLeaseError("no namespace")]),
        (NotFound("gone"), lease(OTHER), []),
        (Stale("changed"), lease(OTHER), []),
        (AlreadyExists("there"), None, []),
    ],
)
def test_a_standby_tries_again_later_and_reports_what_no_other_candidate_explains(
    error: OperatorError, lease_: Any, effects: list[Any]
) -> None:
    state = candidate(lease=lease_)

    assert step(state, LeaseRequestFailed(error), moment()) == (state, (*effects, SetTimer(WAIT)))


def test_a_standby_that_is_asked_to_end_ends() -> None:
    ended = candidate(Role.ENDED)

    assert step(candidate(), ReleaseRequested(), moment()) == (ended, (End(),))
    assert step(ended, TimerFired(), moment()) == (ended, (End(),))


def test_an_uncontested_lease_is_created_or_updated() -> None:
    new, effects = step(candidate(), PeersRead(()), moment())
    assert (new.asked_at, new.times) == (100.0, LeaseTimes(WALL))
    (create,) = effects
    assert isinstance(create, CreateLease)
    assert (create.timeout, create.lease["metadata"]) == (5.0, {"name": "op", "namespace": "ns"})

    (update,) = step(candidate(lease=lease("")), PeersRead(()), moment())[1]
    assert isinstance(update, UpdateLease)
    assert (update.lease["metadata"], holder_of(update.lease)) == (lease()["metadata"], ME)
    remains = {"spec": lease(OTHER)["spec"]}
    (anew,) = step(candidate(lease=remains), PeersRead(()), moment())[1]
    assert isinstance(anew, CreateLease)
    assert "resourceVersion" not in anew.lease["metadata"]


@pytest.mark.parametrize(
    ("shard", "error", "acquires"),
    [
        (WHOLE, Forbidden("no"), True),
        (WHOLE, Unavailable("down"), False),
        (Shard(0, 2), Forbidden("no"), False),
        (Shard(1, 2), Unavailable("down"), False),
    ],
)
def test_without_the_list_of_leases_only_a_whole_operator_without_the_right_goes_on(
    shard: Shard, error: OperatorError, acquires: bool
) -> None:
    effects = step(candidate(shard=shard), PeersUnread(error), moment())[1]

    if acquires:
        assert [type(effect) for effect in effects] == [CreateLease]
    else:
        assert effects == (ReportLeaseError(error.message), SetTimer(WAIT))


def test_a_replica_with_other_shards_keeps_a_standby_from_the_lease_RUN_13() -> None:
    state = candidate(shard=Shard(1, 3), asked_at=100.0)
    peers = (lease("other_0/2", name="op"),)

    after, effects = step(state, PeersRead(peers), moment())

    assert after.role is Role.STANDBY
    assert after.peers == Peers().observed(peers, base="op", own="op-shard-1", now=100.0), "it remembers them"
    assert effects == (DISAGREES, SetTimer(WAIT))


# --- taking it ----------------------------------------------------------------------------------------------------


def test_a_lease_that_was_taken_is_relied_on_from_the_sending_of_the_request() -> None:
    state, effects = step(candidate(asked_at=95.0, lease=lease("")), LeaseWritten(lease()), moment())

    assert (state.role, state.held_until, state.asked_at) == (Role.CONFIRMING, 105.0, 100.0)
    assert (state.lease, state.changed_at, effects) == (lease(), 100.0, (ReadPeers(5.0),))
    late, effects = step(candidate(asked_at=90.0), LeaseWritten(lease()), moment())
    assert (late.role, late.held_until, effects) == (Role.STANDBY, NEVER, (SetTimer(WAIT),))


CONFIRMING = candidate(Role.CONFIRMING, lease=lease(), held_until=105.0, asked_at=100.0)


def test_a_confirmed_candidate_leads_until_its_time() -> None:
    state, effects = step(CONFIRMING, PeersRead(()), moment())
    assert state == attrs.evolve(CONFIRMING, role=Role.LEADER)
    assert effects == (OpenFence(105.0), SetTimer(2.0))

    assert step(CONFIRMING, PeersRead(()), moment(105.0)) == (standing(CONFIRMING), (SetTimer(WAIT),))
    unread = step(CONFIRMING, PeersUnread(Unavailable("down")), moment())
    assert unread == (standing(CONFIRMING), (ReportLeaseError("down"), SetTimer(WAIT)))
    assert step(CONFIRMING, PeersUnread(Forbidden("no")), moment())[0].role is Role.LEADER


def test_a_candidate_gives_way_to_another_number_of_shards_and_releases_RUN_13() -> None:
    mine = lease(identity_of(ME, Shard(1, 3)), name="op-shard-1")
    state = attrs.evolve(CONFIRMING, shard=Shard(1, 3), identity=identity_of(ME, Shard(1, 3)), lease=mine)
    peers = PeersRead((lease("other_0/2"),))

    after, effects = step(state, peers, moment())

    assert (after.role, after.held_until, after.asked_at) == (Role.YIELDING, NEVER, 100.0)
    assert effects == (DISAGREES, UpdateLease(released(mine, LeaseTimes(WALL)), 5.0))
    for lost in (lease(OTHER), {**mine, "metadata": {"name": "op-shard-1"}}):
        after, effects = step(attrs.evolve(state, lease=lost), peers, moment())
        assert (after.role, effects) == (Role.STANDBY, (DISAGREES, SetTimer(WAIT)))


def test_after_giving_way_it_is_a_standby_again() -> None:
    yielding = candidate(Role.YIELDING, lease=lease())
    free = lease("", "8")

    state, effects = step(yielding, LeaseWritten(free), moment())
    assert (state.role, state.lease, state.changed_at, effects) == (Role.STANDBY, free, 100.0, (SetTimer(WAIT),))
    assert step(yielding, LeaseRequestFailed(Stale("x")), moment()) == (standing(yielding), (SetTimer(WAIT),))


# --- leading ------------------------------------------------------------------------------------------------------


def test_a_leader_renews_and_its_right_counts_from_the_request() -> None:
    state, effects = step(leader(), TimerFired(), moment())
    assert (state.asked_at, state.held_until) == (100.0, 108.0)
    (update,) = effects
    assert isinstance(update, UpdateLease)
    assert update.lease["spec"] == {**lease()["spec"], "renewTime": TIME}

    renewed, effects = step(leader(asked_at=100.0), LeaseWritten(lease(version="8")), moment(101.0))
    assert (renewed.held_until, renewed.lease) == (110.0, lease(version="8"))
    assert effects == (OpenFence(110.0), SetTimer(2.0))
    older, effects = step(leader(asked_at=90.0), LeaseWritten(lease()), moment(101.0))
    assert (older.held_until, effects) == (108.0, (OpenFence(108.0), SetTimer(2.0)))


LOST = (CloseFence(), LeadershipLost("it could not be renewed within 10 s"), End())


@pytest.mark.parametrize(
    "event", [TimerFired(), LeaseRead(lease()), NO, LeaseRequestFailed(Stale("x")), LeaseWritten(lease())]
)
def test_at_its_deadline_a_leader_is_lost(event: LeaseEvent) -> None:
    state, effects = step(leader(asked_at=90.0), event, moment(108.0))

    assert (state.role, state.held_until, effects) == (Role.ENDED, NEVER, LOST)
    assert step(leader(asked_at=90.0), event, moment(107.9))[0].role is Role.LEADER


@pytest.mark.parametrize("holder", [ME, "", OTHER])
def test_a_leader_that_reads_another_holder_is_lost(holder: str) -> None:
    found = lease(holder, "8")
    state, effects = step(leader(), LeaseRead(found), moment())

    if holder == OTHER:
        assert (state.role, effects) == (Role.ENDED, (CloseFence(), LeadershipLost("other holds it now"), End()))
    else:
        assert (state.role, state.lease) == (Role.LEADER, found)
        assert isinstance(effects[0], UpdateLease)


def test_a_leader_whose_renewal_failed_looks_creates_or_tries_again() -> None:
    for error in (Stale("x"), AlreadyExists("x")):
        assert step(leader(), LeaseRequestFailed(error), moment()) == (asked(leader()), (ReadLease(5.0),))
    gone, effects = step(leader(), LeaseRequestFailed(NotFound("x")), moment())
    assert gone.lease is None
    assert isinstance(effects[0], CreateLease)
    assert isinstance(step(leader(), LeaseRead(None), moment())[1][0], CreateLease)
    assert step(leader(), NO, moment()) == (leader(), (ReportLeaseError("no"), SetTimer(2.0)))


def test_a_leader_closes_its_fence_before_it_releases() -> None:
    state, effects = step(leader(), ReleaseRequested(), moment())

    assert (state.role, state.held_until, state.asked_at) == (Role.RELEASING, NEVER, 100.0)
    assert effects == (CloseFence(), UpdateLease(released(lease(), LeaseTimes(WALL)), 5.0))
    assert state.times == LeaseTimes(WALL), "the next write has a later time"
    again, _ = step(attrs.evolve(state, lease=lease()), LeaseRead(lease()), moment())
    assert again.times == LeaseTimes(WALL).next(WALL) != state.times


@pytest.mark.parametrize("event", [PeersRead(()), PeersUnread(Forbidden("no"))])
def test_a_leader_is_not_told_of_other_leases(event: LeaseEvent) -> None:
    with pytest.raises(AssertionError, match="a leader looks at its own lease only"):
        step(leader(), event, moment())


def test_a_release_is_tried_again_only_for_a_lease_of_its_own() -> None:
    releasing, ended = (candidate(role, lease=lease()) for role in (Role.RELEASING, Role.ENDED))
    assert step(releasing, LeaseRequestFailed(Stale("x")), moment()) == (asked(releasing), (ReadLease(5.0),))
    newer = lease(version="8")
    again, effects = step(releasing, LeaseRead(newer), moment())
    assert (again.role, again.lease) == (Role.RELEASING, newer)
    assert effects == (UpdateLease(released(newer, LeaseTimes(WALL)), 5.0),)
    for event in (LeaseRead(None), LeaseRead(lease(OTHER)), NO, LeaseWritten(lease(""))):
        assert step(releasing, event, moment()) == (ended, (End(),))


# --- the record ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        (None, {"acquireTime": TIME, "leaseTransitions": 0}),
        (lease("", leaseTransitions=3, acquireTime="a"), {"acquireTime": TIME, "leaseTransitions": 4}),
        (lease(OTHER), {"acquireTime": TIME, "leaseTransitions": 1}),
        (lease(OTHER, leaseTransitions="x"), {"acquireTime": TIME, "leaseTransitions": 1}),
        (lease(ME, leaseTransitions=3, acquireTime="a"), {"acquireTime": "a", "leaseTransitions": 3}),
    ],
)
def test_a_lease_counts_its_transitions_and_keeps_what_others_wrote(found: Any, changed: dict[str, Any]) -> None:
    policy = LeasePolicy(duration=14.5)

    made = acquired(found, namespace="ns", name="op", identity=ME, policy=policy, times=LeaseTimes(WALL))

    assert made["spec"] == {"holderIdentity": ME, "leaseDurationSeconds": 15, "renewTime": TIME, **changed}
    assert made["metadata"] == (found["metadata"] if found else {"name": "op", "namespace": "ns"})


def test_a_released_lease_has_no_holder_and_the_shortest_duration() -> None:
    found = lease(ME, leaseTransitions=3)

    assert released(found, LeaseTimes(WALL)) == {
        "metadata": found["metadata"],
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3, "renewTime": TIME},
    }


def test_times_always_move() -> None:
    first = LeaseTimes().next(WALL)

    assert first == LeaseTimes(WALL)
    assert first.next(WALL) == first.next(WALL - timedelta(days=1)) == LeaseTimes(WALL + timedelta(microseconds=1))
    assert first.next(WALL + timedelta(days=1)) == LeaseTimes(WALL + timedelta(days=1))


def test_what_is_in_a_lease_is_read_leniently() -> None:
    assert [holder_of(one) for one in (None, {}, lease(""), lease(ME))] == ["", "", "", ME]
    durations = [lease_duration(lease(leaseDurationSeconds=seconds)) for seconds in (7, 7.5, "7", None)]
    assert durations == [7.0, 7.5, 0.0, 0.0]
    assert lease_duration(None) == 0.0


def test_names_of_leases_and_holders_tell_the_shard() -> None:
    assert [lease_name("op", shard) for shard in (WHOLE, Shard(0, 2), Shard(1, 2))] == ["op", "op", "op-shard-1"]
    names = ("op", "op-shard-1", "op-shard-", "op-shard-x", "op-shard-1x", "opx", "xop")
    assert [is_lease_of("op", name) for name in names] == [True, True, False, False, False, False, False]
    assert is_lease_of("o.p", "oxp-shard-1") is False
    assert [identity_of("me", shard) for shard in (WHOLE, Shard(1, 2))] == ["me", "me_1/2"]
    holders = ("me", "me_1/2", "me_0/12", "me_5/2", "me_1/2x", "")
    assert [shard_count_of(holder) for holder in holders] == [1, 2, 12, 1, 1, 1]


def test_peers_are_the_leases_of_all_other_shards_and_age_from_when_they_were_first_seen() -> None:
    first = lease("a_0/2")
    other, own, foreign = lease("b_1/2", name="op-shard-1"), lease(name="op-shard-2"), lease(name="x")
    peers = Peers().observed([first, other, own, foreign], base="op", own="op-shard-2", now=10.0)
    assert sorted(peers.leases) == ["op", "op-shard-1"]

    again = peers.observed([first, lease("c_1/2", name="op-shard-1")], base="op", own="op-shard-2", now=20.0)
    assert [(name, seen.since) for name, seen in sorted(again.leases.items())] == [("op", 10.0), ("op-shard-1", 20.0)]
    assert again.observed([], base="op", own="op-shard-2", now=30.0) == again, "a deleted Lease still counts"


@pytest.mark.parametrize(
    ("holder", "seconds", "asked_at", "disagrees"),
    [
        ("a_0/2", 15, 24.9, True),
        ("a_0/2", 15, 25.0, False),
        ("a_0/2", 60, 69.9, True),
        ("a_0/2", 60, 70.0, False),
        ("a_0/2", 1, 24.9, True),
        ("a_0/3", 15, 20.0, False),
        ("", 15, 20.0, False),
        ("a", 15, 20.0, True),
    ],
)
def test_a_peer_disagrees_while_its_lease_may_hold(holder: str, seconds: int, asked_at: float, disagrees: bool) -> None:
    found = lease(holder, leaseDurationSeconds=seconds)
    peers = Peers().observed([found], base="op", own="op-shard-2", now=10.0)

    told = peers.disagreement(3, asked_at=asked_at, duration=15.0)

    assert told == (Disagreement("op", holder, shard_count_of(holder)) if disagrees else None)

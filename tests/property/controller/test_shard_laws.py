"""RUN-13: each namespace belongs to one shard; never two processes that act on one object, whatever n each was given.

The world is the one of `test_lease_laws`: requests and answers are lost, writes arrive late, clocks run at unequal
speed, processes are paused, killed and stopped, the server goes away.
"""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.clock import START
from purekube.apimachinery.errors import Forbidden
from purekube.controller.lease.machine import step
from purekube.controller.lease.messages import (
    CreateLease,
    LeaseContext,
    LeaseEvent,
    LeaseRead,
    LeaseState,
    LeaseWritten,
    OpenFence,
    PeersUnread,
    ReadLease,
    ReadPeers,
    ReportLeaseError,
    Role,
    TimerFired,
)
from purekube.controller.lease.record import Disagreement, Peers, identity_of, shard_count_of
from purekube.controller.shard import MOST_SHARDS, WHOLE, Shard, shard_of
from tests.property.controller.test_lease_laws import CHAOS, CLOCKS, DRIFT, FATES, HAPPENINGS, POLICY, happening
from tests.support.lease_world import Candidate, Clocks, Fate, LeaseWorld

NAMESPACES = st.text(min_size=1, max_size=63)
COUNTS = st.integers(1, MOST_SHARDS)
LAYOUTS = st.lists(st.sampled_from(["0/1", "0/2", "1/2", "0/3", "1/3", "2/3"]).map(Shard.of), min_size=2, max_size=4)


# --- the assignment -------------------------------------------------------------------------------------------------


@given(NAMESPACES, COUNTS)
def test_each_namespace_belongs_to_exactly_one_shard(namespace: str, count: int) -> None:
    owners = [shard for shard in (Shard(index, count) for index in range(count)) if shard.owns(namespace)]

    assert owners == [Shard(shard_of(namespace, count), count)]


@given(COUNTS)
def test_what_lies_in_no_namespace_is_the_first_shards(count: int) -> None:
    owners = [index for index in range(count) if Shard(index, count).owns(None)]

    assert owners == [0]


@pytest.mark.parametrize(
    ("namespace", "of_two", "of_four", "of_seven"),
    [("default", 1, 1, 4), ("org-acme", 1, 1, 5), ("org-zeta", 0, 2, 2)],
)
def test_the_assignment_is_the_same_in_every_release(namespace: str, of_two: int, of_four: int, of_seven: int) -> None:
    """By what `sha256sum` says of the name; whoever changes this moves objects between processes of one cluster."""
    assert [shard_of(namespace, count) for count in (2, 4, 7)] == [of_two, of_four, of_seven]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_shares_are_about_equal(count: int) -> None:
    names = [f"org-{number}" for number in range(4000)]

    shares = [sum(Shard(index, count).owns(name) for name in names) for index in range(count)]

    assert max(shares) - min(shares) < 0.2 * len(names) / count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2/2", "the shards of 2 are 0/2 to 1/2"),
        ("0/0", "give I/N"),
        ("1", "give I/N"),
        ("-1/2", "give I/N"),
        ("01/2", "give I/N"),
        ("0/65", "at most 64"),
        ("", "give I/N"),
    ],
)
def test_a_shard_that_there_is_not_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Shard.of(text)


@pytest.mark.parametrize(("text", "shard"), [("0/1", Shard()), ("63/64", Shard(63, 64)), ("10/12", Shard(10, 12))])
def test_a_shard_is_read_as_it_is_written(text: str, shard: Shard) -> None:
    assert Shard.of(text) == shard
    assert str(shard) == text


def test_a_name_that_is_no_text_has_a_shard_too() -> None:
    digest = sha256(b"\xed\xa0\x80").digest()

    assert shard_of("\ud800", 7) == int.from_bytes(digest[:8], "big") % 7


@given(COUNTS.flatmap(lambda count: st.builds(Shard, st.integers(0, count - 1), st.just(count))), st.text(max_size=40))
def test_a_holder_tells_with_how_many_shards_it_works(shard: Shard, replica: str) -> None:
    assert Shard.of(str(shard)) == shard
    assert shard_count_of(identity_of(f"{replica}_uid", shard)) == shard.count


@pytest.mark.parametrize("holder", ["", "pod_0a1b", "2/3", "pod_3/3", "pod_1/2_uid", "pod_0/99"])
def test_who_tells_no_shard_works_alone(holder: str) -> None:
    assert shard_count_of(holder) == 1


@pytest.mark.parametrize(("asked_at", "waits"), [(24.9, True), (25.0, False)])
def test_a_list_that_was_asked_for_before_a_lease_ran_out_does_not_tell_so(asked_at: float, waits: bool) -> None:
    """However late its answer comes: the holder may have renewed it since."""
    spec = {"holderIdentity": "pod_0/2", "leaseDurationSeconds": 15}
    lease = {"metadata": {"name": "lease"}, "spec": spec}
    peers = Peers().observed([lease], base="lease", own="lease-shard-1", now=10.0)

    found = peers.observed([lease], base="lease", own="lease-shard-1", now=99.0)

    disagreement = found.disagreement(3, asked_at=asked_at, duration=15.0)
    assert disagreement == (Disagreement("lease", "pod_0/2", 2) if waits else None)
    assert found.disagreement(2, asked_at=asked_at, duration=15.0) is None


# --- the Leases ------------------------------------------------------------------------------------------------------


def never_two_at_one_object(world: LeaseWorld) -> Callable[[], None]:
    """Those that may write work with one number of shards, and each with another shard: so they share no namespace."""

    def check() -> None:
        shards = [candidate.state.shard for candidate in world.leaders()]
        told = (
            [(candidate.state.identity, candidate.until) for candidate in world.leaders()],
            world.now,
            world.history,
        )
        assert len({shard.count for shard in shards}) <= 1, told
        assert len(set(shards)) == len(shards), told

    return check


def make(layout: list[Shard], clocks: list[Clocks], fates: list[Fate], starts: list[float]) -> LeaseWorld:
    world = LeaseWorld(POLICY, fates)
    for number, shard in enumerate(layout):
        world.join(clocks[number % len(clocks)], at=starts[number % len(starts)], shard=shard)
    return world


STARTS = st.lists(st.sampled_from([0.0, 0.005, 0.3, 8.0, 20.0, 45.0]), min_size=1, max_size=4)
TOGETHER = [Shard(1, 2), Shard(2, 3)]


@given(LAYOUTS, st.lists(CLOCKS, min_size=1, max_size=3), FATES, STARTS, HAPPENINGS)
@example(TOGETHER, [Clocks()], [Fate()], [0.0], []).via("both look before either has taken its Lease")
@example([Shard(0, 1), Shard(1, 2)], [Clocks()], [Fate()], [0.0], []).via("without shards and with them")
@example(TOGETHER, [Clocks()], [Fate()], [0.0, 8.0], [(20.0, "pause the leader", 0, 16.0)]).via("paused, run out")
@example(TOGETHER, [Clocks()], [Fate(there=4.9)], [0.0, 0.3], []).via("each write takes long")
def test_two_of_different_shardings_never_believe_that_they_may_write(
    layout: list[Shard],
    clocks: list[Clocks],
    fates: list[Fate],
    starts: list[float],
    happenings: list[tuple[float, str, int, float]],
) -> None:
    world = make(layout, clocks, fates, starts)
    for when, what, whom, seconds in happenings:
        world.at(when, happening(world, what, whom, seconds))

    world.run(CHAOS, never_two_at_one_object(world))


@pytest.mark.slow
@given(st.sampled_from([(2, 3), (3, 2), (1, 2), (2, 1), (3, 1)]), st.lists(CLOCKS, min_size=1, max_size=3), FATES)
def test_after_a_change_of_n_every_shard_is_led_once_the_old_ones_have_ended(
    change: tuple[int, int], clocks: list[Clocks], fates: list[Fate]
) -> None:
    """However they end: one is stopped, the others are killed, so that their Leases run out."""
    before, after = change
    world = make([Shard(index, before) for index in range(before)], clocks, fates, [0.0])
    world.run(60.0, never_two_at_one_object(world))
    old = list(world.candidates)
    for index in range(after):
        world.join(clocks[index % len(clocks)], at=61.0, shard=Shard(index, after))
    world.run(90.0, never_two_at_one_object(world))

    world.stop(old[0])
    for candidate in old[1:]:
        candidate.alive = False
    world.healed = True
    for index in range(after):  # who was lost meanwhile is started again
        world.join(Clocks(), at=91.0, shard=Shard(index, after))
    world.run(91.0 + settling(fates), never_two_at_one_object(world))

    assert {candidate.state.shard for candidate in world.leaders()} == {Shard(index, after) for index in range(after)}


@pytest.mark.slow
@given(LAYOUTS, st.lists(CLOCKS, min_size=1, max_size=3), FATES)
@example(TOGETHER, [Clocks()], [Fate()]).via("all at once, with equal clocks")
def test_of_two_shardings_at_the_same_time_one_works(
    layout: list[Shard], clocks: list[Clocks], fates: list[Fate]
) -> None:
    """Those of the other wait, and know for whom; nobody waits for who waits. Who has ended is started again."""
    world = make(layout, clocks, fates, [0.0])
    world.run(30.0, never_two_at_one_object(world))
    world.healed = True
    for number, shard in enumerate(layout):
        world.join(clocks[number % len(clocks)], at=world.now, shard=shard)
    world.run(world.now + 3 * settling(fates), never_two_at_one_object(world))

    (working,) = {candidate.state.shard.count for candidate in world.leaders()}
    assert {candidate.state.shard for candidate in world.leaders()} == {
        shard for shard in layout if shard.count == working
    }
    waiting = [
        candidate
        for candidate in world.candidates
        if candidate.state.role is Role.STANDBY and candidate.state.shard.count != working
    ]
    assert {candidate.waits_for for candidate in waiting} <= {working}
    assert len(world.leases) <= len(layout)


def settling(fates: list[Fate]) -> float:
    """What is still under way; a Lease seen late that has to run out, at the pace of the slowest clock; a few looks."""
    late = max((fate.there + fate.back for fate in fates), default=0.0)
    looks = 8 * POLICY.retry_period * (1 + POLICY.jitter_factor)
    return late + 2 * POLICY.duration * (1 + DRIFT) / (1 - DRIFT) + looks


def pair(first: Shard, second: Shard, *, at: float = 10.0) -> tuple[LeaseWorld, Candidate, Candidate]:
    world = LeaseWorld(POLICY, [Fate()])
    one, other = world.join(Clocks(), shard=first), world.join(Clocks(offset=99.0), at=at, shard=second)
    world.run(at + 5.0)
    assert world.leaders() == [one]
    return world, one, other


def test_who_comes_with_another_n_waits_takes_no_lease_and_says_for_whom() -> None:
    world, first, second = pair(Shard(0, 2), Shard(1, 3))

    world.run(300.0, never_two_at_one_object(world))

    assert world.leaders() == [first]
    assert second.waits_for == 2
    assert list(world.leases) == ["lease"], "no Lease is held by who waits"
    world.stop(first)
    world.run(world.now + POLICY.retry_period * (1 + POLICY.jitter_factor) + 0.1)
    assert world.leaders() == [second]


def test_shards_of_one_n_do_not_wait_for_each_other() -> None:
    world = LeaseWorld(POLICY, [Fate()])
    candidates = [world.join(Clocks(), shard=Shard(index, 3)) for index in range(3)]

    world.run(1.0, never_two_at_one_object(world))

    assert world.leaders() == candidates
    assert sorted(world.leases) == ["lease", "lease-shard-1", "lease-shard-2"]


def test_a_killed_shard_is_taken_over_by_its_own_standby_only() -> None:
    world = LeaseWorld(POLICY, [Fate()])
    zero, one = (world.join(Clocks(), shard=Shard(index, 2)) for index in range(2))
    standby = world.join(Clocks(), at=5.0, shard=Shard(1, 2))
    world.run(20.0, never_two_at_one_object(world))
    one.alive = False

    world.run(60.0, never_two_at_one_object(world))

    assert world.leaders() == [zero, standby]


def test_the_lease_of_a_shard_that_was_killed_long_ago_keeps_nobody_for_longer_than_it_lasts() -> None:
    world, first, _ = pair(Shard(1, 2), Shard(1, 2))
    for candidate in world.candidates:
        candidate.alive = False
    world.run(1000.0)
    alone = world.join(Clocks(), at=1000.0)

    world.run(1000.0 + POLICY.duration - 1)
    assert not world.leaders(), "nobody can tell yet whether its holder lives"
    world.run(1000.0 + POLICY.duration + 2 * POLICY.retry_period * (1 + POLICY.jitter_factor))

    assert world.leaders() == [alone]
    assert first.state.shard == Shard(1, 2)


def test_an_operator_without_shards_needs_no_right_to_list_leases() -> None:
    """Rights of an older release: by them nobody can work with several shards either (RUN-13)."""

    def answered(shard: Shard) -> list[type]:
        state, moment = LeaseState("ns", "lease", "me", shard=shard), LeaseContext(0.0, START, 0.5)
        event: LeaseEvent = TimerFired()
        told: list[type] = []
        while len(told) < 5:
            state, effects = step(state, event, moment)
            told.append(type(effects[0]))
            match effects[-1]:
                case ReadLease():
                    event = LeaseRead(None)
                case ReadPeers():
                    event = PeersUnread(Forbidden("may not list leases"))
                case CreateLease(lease):
                    event = LeaseWritten(lease)
                case _:
                    break
        return told

    assert answered(WHOLE) == [ReadLease, ReadPeers, CreateLease, ReadPeers, OpenFence]
    assert answered(Shard(0, 2)) == [ReadLease, ReadPeers, ReportLeaseError], "it waits, and says why"

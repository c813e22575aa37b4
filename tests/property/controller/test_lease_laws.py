"""RUN-4: never two candidates that believe they may write, and never long without one that may.

The world loses requests and answers, delivers writes after their sender has given them up, runs clocks at unequal
speed, steps wall clocks, pauses, kills and stops processes, and takes the server away.
"""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.clock import START
from purekube.controller.lease.messages import Role
from purekube.controller.lease.record import DEFAULT_LEASE_POLICY, LeasePolicy, LeaseTimes, holder_of
from tests.support.lease_world import Candidate, Clocks, Fate, LeaseWorld

POLICY = DEFAULT_LEASE_POLICY
DRIFT = 0.05
"""How much faster or slower than true time a monotonic clock may run."""
CHAOS = 120.0

SPEEDS = st.floats(1 - DRIFT, 1 + DRIFT, allow_nan=False)
WALLS = st.lists(st.sampled_from([0.0, 0.0, -3600.0, 7.5, 86400.0]), min_size=1, max_size=5).map(tuple)
CLOCKS = st.builds(Clocks, offset=st.sampled_from([0.0, -1e6, 5e8]), rate=SPEEDS, wall=WALLS)
SECONDS = st.sampled_from([0.0, 0.01, 0.5, 2.0, 4.9, 5.1, 9.9, 14.0, 40.0])
FATES = st.lists(
    st.one_of(
        st.just(Fate()),
        st.builds(Fate, there=SECONDS, back=SECONDS),
        st.builds(Fate, there=SECONDS, lost_back=st.just(True)),
        st.just(Fate(lost_there=True)),
    ),
    min_size=1,
    max_size=12,
)
HAPPENINGS = st.lists(
    st.tuples(
        st.floats(0, CHAOS, allow_nan=False),
        st.sampled_from(["pause", "kill", "stop", "outage", "pause the leader", "kill the leader", "stop the leader"]),
        st.integers(0, 2),
        st.sampled_from([0.1, 3.0, 9.0, 11.0, 16.0, 30.0]),
    ),
    max_size=6,
)


def make(clocks: list[Clocks], fates: list[Fate], happenings: list[tuple[float, str, int, float]]) -> LeaseWorld:
    world = LeaseWorld(POLICY, fates)
    for number, clock in enumerate(clocks):
        world.join(clock, at=number * 0.3)
    for when, what, whom, seconds in happenings:
        world.at(when, happening(world, what, whom, seconds))
    return world


def happening(world: LeaseWorld, what: str, whom: int, seconds: float) -> Callable[[], None]:
    def act() -> None:
        target = world.candidates[whom % len(world.candidates)]
        if what.endswith("the leader"):
            target = next(iter(world.leaders()), target)
        match what.split()[0]:
            case "pause":
                target.paused_until = max(target.paused_until, world.now + seconds)
            case "kill":
                target.alive = False
            case "stop":
                world.stop(target)
            case "outage":
                world.outages.append((world.now, world.now + seconds))

    return act


def never_two(world: LeaseWorld) -> Callable[[], None]:
    def check() -> None:
        assert len(world.leaders()) <= 1, ([candidate.state.identity for candidate in world.leaders()], world.history)

    return check


@given(st.lists(CLOCKS, min_size=2, max_size=3), FATES, HAPPENINGS)
@example([Clocks(wall=(0.0,)), Clocks()], [Fate()], []).via("a wall clock that stands still: renewals must show")
@example([Clocks(wall=(0.0, -5.0)), Clocks()], [Fate()], []).via("a wall clock that goes back and forth")
@example([Clocks(), Clocks()], [Fate()], [(20.0, "pause the leader", 0, 30.0)]).via("paused beyond its lease")
@example([Clocks(), Clocks()], [Fate(there=4.9, lost_back=True), Fate()], []).via("taken, but the answer was lost")
def test_two_never_believe_that_they_may_write(
    clocks: list[Clocks], fates: list[Fate], happenings: list[tuple[float, str, int, float]]
) -> None:
    world = make(clocks, fates, happenings)

    world.run(CHAOS, never_two(world))


@given(st.lists(CLOCKS, min_size=2, max_size=3), FATES, HAPPENINGS)
def test_a_leader_has_stopped_well_before_its_lease_is_taken(
    clocks: list[Clocks], fates: list[Fate], happenings: list[tuple[float, str, int, float]]
) -> None:
    """The margin, at the moment when the server gives the lease to another: 15 s less 10 s, less what clocks drift."""
    world = make(clocks, fates, happenings)
    margin = POLICY.duration / (1 + DRIFT) - POLICY.renew_deadline / (1 - DRIFT)
    taken = 0

    def check() -> None:
        nonlocal taken
        for when, holder, before in world.takes[taken:]:
            for other in world.candidates:
                if other.state.identity == before and holder != before and other.state.role is not Role.RELEASING:
                    assert other.until <= when - margin + 1e-6, (when, holder, other.until, world.history)
        taken = len(world.takes)

    world.run(CHAOS, check)


@pytest.mark.slow
@given(st.lists(CLOCKS, min_size=2, max_size=3), FATES, HAPPENINGS)
def test_once_faults_are_over_somebody_leads_in_bounded_time(
    clocks: list[Clocks], fates: list[Fate], happenings: list[tuple[float, str, int, float]]
) -> None:
    """The bound: what is still under way, the last look before the lease changed, its duration, and one more look."""
    world = make(clocks, fates, happenings)
    world.run(CHAOS)
    world.join(Clocks(), at=world.now)
    world.healed = True
    world.outages.clear()
    for candidate in world.candidates:
        candidate.paused_until = min(candidate.paused_until, world.now)
    longest_pause = POLICY.retry_period * (1 + POLICY.jitter_factor)
    late_writes = max((fate.there + fate.back for fate in fates), default=0.0)
    bound = late_writes + POLICY.request_timeout + 2 * longest_pause + POLICY.duration * (1 + DRIFT) / (1 - DRIFT) + 1

    world.run(CHAOS + bound, never_two(world))

    assert len(world.leaders()) == 1, (world.lease, world.history)
    leader = world.leaders()[0]
    assert holder_of(world.lease) == leader.state.identity
    world.run(world.now + 300, never_two(world))
    assert world.leaders() == [leader], "who leads goes on leading while nothing happens"


def settled(*clocks: Clocks) -> tuple[LeaseWorld, Candidate, Candidate]:
    """Two candidates, one of which leads."""
    world = LeaseWorld(POLICY, [Fate()])
    for clock in clocks or (Clocks(), Clocks(offset=99.0)):
        world.join(clock)
    world.run(10.0)
    (leader,) = world.leaders()
    (standby,) = (candidate for candidate in world.candidates if candidate is not leader)
    return world, leader, standby


def test_a_dead_leader_is_replaced_after_its_lease_and_not_before() -> None:
    world, leader, standby = settled()
    leader.alive = False
    died = world.now

    world.run(died + POLICY.duration - POLICY.retry_period - 0.1)
    assert not standby.believes(world.now)
    world.run(died + POLICY.duration + 2.2 * POLICY.retry_period + 1)
    assert standby.believes(world.now)


def test_a_released_lease_is_taken_at_the_next_look() -> None:
    world, leader, standby = settled()
    world.stop(leader)
    stopped = world.now
    assert not leader.believes(stopped), "it writes nothing more before anybody knows"

    world.run(stopped + 2.2 * POLICY.retry_period + 0.1)

    assert standby.believes(world.now)
    assert leader.state.role is Role.ENDED


def test_a_leader_that_cannot_renew_is_lost_at_its_deadline_and_says_so() -> None:
    world, leader, standby = settled()
    world.outages.append((world.now, world.now + POLICY.renew_deadline + POLICY.retry_period))

    world.run(world.now + POLICY.renew_deadline + 0.1)

    assert leader.lost == "it could not be renewed within 10 s"
    assert not world.leaders()
    world.run(world.now + 2 * POLICY.retry_period + POLICY.duration + 2 * 2.2 * POLICY.retry_period)
    assert standby.believes(world.now), "counted from when it saw the last renewal, which may be after the outage"


def test_an_outage_shorter_than_the_deadline_changes_nothing() -> None:
    world, leader, _ = settled()
    world.outages.append((world.now, world.now + 7.0))

    world.run(world.now + 30)

    assert world.leaders() == [leader]
    assert [holder for _, holder, _ in world.takes] == [leader.state.identity]


def test_a_lease_that_somebody_deletes_is_not_taken_from_a_living_leader() -> None:
    world, leader, _ = settled()
    world.lease = None

    world.run(world.now + 60, never_two(world))

    assert world.leaders() == [leader]
    assert holder_of(world.lease) == leader.state.identity


def test_a_leader_that_meets_another_holder_is_lost_at_once() -> None:
    world, leader, _ = settled()
    assert world.lease is not None
    world.version += 1
    spec = {**world.lease["spec"], "holderIdentity": "somebody"}
    world.lease = {**world.lease, "spec": spec}
    world.lease["metadata"] = {**world.lease["metadata"], "resourceVersion": str(world.version)}

    world.run(world.now + POLICY.retry_period + 0.1)

    assert leader.lost == "somebody holds it now"


def test_the_right_to_write_counts_from_the_sending_of_the_renewal_not_from_its_answer() -> None:
    world = LeaseWorld(POLICY, [*[Fate(0, 0)] * 4, Fate(0.1, 4.8)])
    leader = world.join(Clocks())

    world.run(2.0 + 4.9)

    assert leader.until == pytest.approx(2.0 + POLICY.renew_deadline)


def test_what_others_wrote_into_the_lease_stays() -> None:
    world = LeaseWorld(POLICY, [Fate()])
    world.version = 1
    mine = {"name": "lease", "namespace": "ns", "resourceVersion": "1", "labels": {"team": "x"}}
    world.lease = {
        "apiVersion": "v1",
        "kind": "Lease",
        "metadata": mine,
        "spec": {"strategy": "OldestEmulationVersion"},
    }
    world.join(Clocks())

    world.run(5.0)

    assert world.lease["metadata"]["labels"] == {"team": "x"}
    assert world.lease["spec"]["strategy"] == "OldestEmulationVersion"
    assert world.lease["spec"]["leaseTransitions"] == 1
    assert world.lease["spec"]["leaseDurationSeconds"] == 15


def test_a_longer_lease_of_an_older_release_is_waited_for() -> None:
    """A rolling update may change the times: what the holder was promised counts."""
    world = LeaseWorld(POLICY, [Fate()])
    world.version = 1
    mine = {"name": "lease", "namespace": "ns", "resourceVersion": "1"}
    spec = {"holderIdentity": "older", "leaseDurationSeconds": 60, "renewTime": "2001-01-01T00:00:00.000000Z"}
    world.lease = {"apiVersion": "v1", "kind": "Lease", "metadata": mine, "spec": spec}
    candidate = world.join(Clocks())

    world.run(59.0)
    assert not candidate.believes(world.now), "a renewTime in the past tells nothing"
    world.run(61.0)
    assert candidate.believes(world.now)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (LeasePolicy(duration=0.5, renew_deadline=0.3, retry_period=0.1), "whole seconds"),
        (LeasePolicy(duration=0, renew_deadline=-1, retry_period=-1), "whole seconds"),
        (LeasePolicy(duration=15.5), "whole seconds"),
        (LeasePolicy(duration=15, renew_deadline=15), "nine tenths"),
        (LeasePolicy(duration=15, renew_deadline=13.6), "nine tenths"),
        (LeasePolicy(retry_period=0), "retry period"),
        (LeasePolicy(retry_period=9), "half of the renew deadline"),
        (LeasePolicy(retry_period=-1), "above 0"),
    ],
    ids=str,
)
def test_times_that_leave_no_margin_are_refused(policy: LeasePolicy, said: str) -> None:
    assert any(said in problem for problem in policy.problems())


@pytest.mark.parametrize(
    "policy",
    [DEFAULT_LEASE_POLICY, LeasePolicy(1, 0.9, 0.1), LeasePolicy(10, 9, 4.5), LeasePolicy(20.0, 10, 1)],
    ids=str,
)
def test_times_that_just_leave_a_margin_are_taken(policy: LeasePolicy) -> None:
    assert policy.problems() == ()
    assert policy.request_timeout * 2 == policy.renew_deadline, "two requests fit into it"


def test_times_written_for_people_move_with_every_write() -> None:
    first = LeaseTimes().next(START)
    assert first.text == "2026-01-01T00:00:00.000000Z"
    assert first.next(START).text == "2026-01-01T00:00:00.000001Z"

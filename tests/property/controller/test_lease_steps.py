"""RUN-4: what each step of the lease machine owes, whatever is answered and however late."""

from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.clock import START
from purekube.apimachinery.errors import AlreadyExists, Forbidden, NotFound, OperatorError, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest
from purekube.controller.lease.machine import step
from purekube.controller.lease.messages import (
    CloseFence,
    CreateLease,
    End,
    LeaseContext,
    LeaseEffect,
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
    Role,
    SetTimer,
    TimerFired,
    UpdateLease,
)
from purekube.controller.lease.record import DEFAULT_LEASE_POLICY, holder_of
from tests.support.lease_world import Clocks, Fate, LeaseWorld

POLICY = DEFAULT_LEASE_POLICY
COMMANDS = (ReadLease, ReadPeers, CreateLease, UpdateLease, SetTimer, End)
SECONDS = st.sampled_from([0.0, 0.1, 2.0, 4.9, 9.9, 10.0, 10.1, 14.9, 15.1, 60.0])
ERRORS: list[OperatorError] = [
    Unavailable("timeout"),
    Stale("moved on"),
    AlreadyExists("there"),
    NotFound("not there"),
    Forbidden("no right"),
]
ANSWERS = st.tuples(SECONDS, st.integers(0, 9))


def lease_of(holder: str, version: int) -> Manifest:
    meta = {"name": "lease", "namespace": "ns", "resourceVersion": str(version)}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": str(version)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def answer(command: LeaseEffect, choice: int, version: int) -> LeaseEvent:
    """An answer that the command may get."""
    error = ERRORS[choice % len(ERRORS)]
    match command:
        case ReadLease():
            leases = [None, lease_of("me", version), lease_of("other", version), lease_of("", version)]
            return LeaseRead(leases[choice]) if choice < len(leases) else LeaseRequestFailed(error)
        case ReadPeers():
            return PeersRead(()) if choice < 6 else PeersUnread(error)
        case CreateLease() | UpdateLease():
            # The answer to a release is the lease without a holder.
            written = {**command.lease, "metadata": lease_of("", version)["metadata"]}
            return LeaseWritten(written) if choice < 6 else LeaseRequestFailed(error)
        case _:
            return ReleaseRequested() if choice == 9 else TimerFired()


def first() -> LeaseEvent:
    return TimerFired()


@given(st.lists(ANSWERS, max_size=25))
@example([(0, 0), (0, 0), (0, 0), (10.1, 0)]).via("a win that is answered too late")
@example([(0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (10.1, 0)]).via("a renewal that is answered too late")
def test_every_step_ends_in_one_request_or_wait_and_only_the_last_one_in_the_end_RUN_4(
    answers: list[tuple[float, int]],
) -> None:
    state, now, following = LeaseState("ns", "lease", "me"), 100.0, first()
    sent = now
    for version, (seconds, choice) in enumerate(answers):
        state, effects = step(state, following, LeaseContext(now, START + timedelta(seconds=now), 0.5, POLICY))
        command = effects[-1]
        assert [effect for effect in effects if isinstance(effect, COMMANDS)] == [command]
        assert isinstance(command, End) == (state.role is Role.ENDED)
        for effect in effects:
            if isinstance(effect, OpenFence):
                assert state.role is Role.LEADER
                assert now < effect.until <= sent + POLICY.renew_deadline
        if CloseFence() in effects:
            assert state.role in (Role.RELEASING, Role.ENDED)
        if state.role is Role.ENDED:
            return
        if isinstance(command, CreateLease | UpdateLease):
            sent = now
        elif isinstance(command, SetTimer):
            assert 0 <= command.seconds <= POLICY.duration
        else:
            assert isinstance(command, ReadLease | ReadPeers)
            assert command.timeout <= POLICY.request_timeout
        if state.role is Role.LEADER and not isinstance(command, SetTimer):
            assert command.timeout <= state.held_until - now, "a leader waits for no answer beyond its right"
        now += seconds
        following = answer(command, choice, version)


@given(st.floats(0, 2.5), st.floats(0, 9.5), st.sampled_from([0.0, 0.5, 1.0]))
@example(0.0, 9.0, 0.5).via("the leader renews later than the standby looks")
def test_a_deleted_lease_is_not_taken_before_its_holders_time_has_run_out_RUN_4(
    deleted_after: float, paused: float, offset: float
) -> None:
    """A standby that has seen the lease waits for its end as if it were still there."""
    world = LeaseWorld(POLICY, [Fate()])
    for clocks in (Clocks(), Clocks(offset=99.0)):
        world.join(clocks)
    world.run(10.0 + offset)
    (leader,) = world.leaders()
    leader.paused_until = world.now + paused
    world.run(world.now + deleted_after)
    world.lease = None

    def check() -> None:
        for when, holder, _ in world.takes[1:]:
            if holder != leader.state.identity:
                assert leader.until <= when, world.history
        assert len(world.leaders()) <= 1

    world.run(world.now + 60, check)
    assert len(world.leaders()) == 1
    assert holder_of(world.lease) == world.leaders()[0].state.identity


def test_a_deleted_lease_of_a_dead_leader_is_created_again_after_its_duration_RUN_4() -> None:
    world = LeaseWorld(POLICY, [Fate()])
    for clocks in (Clocks(), Clocks(offset=99.0)):
        world.join(clocks)
    world.run(10.0)
    (leader,) = world.leaders()
    leader.alive = False
    world.lease = None
    world.run(10.0 + POLICY.duration - 2.2 * POLICY.retry_period)
    assert world.lease is None
    world.run(10.0 + POLICY.duration + 2.2 * POLICY.retry_period)
    assert world.leaders()[0].state.identity != leader.state.identity


def releasing() -> LeaseState:
    """A leader that was asked to end, and whose release met a newer copy of the lease."""
    state, fed = LeaseState("ns", "lease", "me"), 100.0
    won = LeaseWritten(lease_of("me", 1))
    begun: list[LeaseEvent] = [TimerFired(), LeaseRead(None), PeersRead(()), won, PeersRead(())]
    ended: list[LeaseEvent] = [ReleaseRequested(), LeaseRequestFailed(Stale("moved on"))]
    effects: tuple[LeaseEffect, ...] = ()
    for event in begun + ended:
        assert (state.role is Role.LEADER) == (event is ended[0])
        state, effects = step(state, event, LeaseContext(fed, START, 0.5, POLICY))
    assert isinstance(effects[-1], ReadLease)
    return state


def test_a_lease_that_another_has_taken_meanwhile_is_not_released_for_them_RUN_4() -> None:
    moment = LeaseContext(100.0, START, 0.5, POLICY)
    for lease in (lease_of("other", 2), lease_of("", 2), None):
        after, effects = step(releasing(), LeaseRead(lease), moment)
        assert (after.role, effects) == (Role.ENDED, (End(),))
    again, effects = step(releasing(), LeaseRead(lease_of("me", 2)), moment)
    assert again.role is Role.RELEASING
    assert isinstance(effects[-1], UpdateLease)
    assert holder_of(effects[-1].lease) == ""

"""Leader election as a state machine without I/O: one candidate, one lease (RUN-4).

Expected flow
    standby: read, wait, read … until the lease is free or has not changed for its duration → check that no replica
             works with another number of shards → acquire it → check again → lead
    leader:  renew, wait, renew … → release requested → close the fence (end the right to write), release
Guarantees
    Of two candidates, neither believes it may write while the other may, whatever their clocks show and whatever is
    lost on the way: a leader's right ends `renew_deadline` after it *sent* its last accepted renewal; a standby takes
    over `duration` after it *saw* that renewal, and only by an update of exactly the lease it saw.
    Times of other machines are not read. Of the lease only changes count, timed by the local monotonic clock.
    A leader that cannot renew, or finds another holder, has lost the lease for good: the process must end.
    The same holds for two candidates that share the cluster by different numbers of shards (RUN-13): each checks the
    leases of all shards after it has taken its own, so the candidate that took its lease later sees the other's.
Assumptions
    Monotonic clocks run, within the ratio of `duration` to `renew_deadline`, equally fast.
    Identities are unique to a process. Only candidates edit the lease, and nothing deletes it.
"""

from typing import TypeAlias, assert_never

import attrs

from purekube.apimachinery.errors import AlreadyExists, Forbidden, NotFound, OperatorError, Stale
from purekube.apimachinery.manifest import Json, Manifest, get_path
from purekube.controller.lease.messages import (
    CloseFence,
    CreateLease,
    End,
    LeaderObserved,
    LeadershipLost,
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
    acquired,
    holder_of,
    lease_duration,
    released,
    shard_count_of,
)

LeaseStep: TypeAlias = tuple[LeaseState, tuple[LeaseEffect, ...]]


def timeout(state: LeaseState, moment: LeaseContext) -> float:
    """Return how many seconds to wait for a response to a request about the Lease. A holder of the Lease waits only as
    long as it may still write. `moment` holds the time and the policy.
    """
    longest = moment.policy.request_timeout
    holds = state.role in (Role.LEADER, Role.CONFIRMING)
    return min(longest, state.held_until - moment.now) if holds else longest


def standby_wait(moment: LeaseContext) -> float:
    """Return how many seconds a standby waits before it reads the Lease again: the policy's retry period and more.

    The jitter in `moment` decides how much more, so that the standbys do not all send requests together.
    """
    policy = moment.policy
    return policy.retry_period * (1 + policy.jitter_factor * moment.jitter)


def renewal_wait(state: LeaseState, moment: LeaseContext) -> float:
    """Return how many seconds a leader waits after a successful renewal before the next one: the policy's retry period,
    but no longer than the leader may write. `moment` holds the time and the policy.
    """
    return max(0.0, min(moment.policy.retry_period, state.held_until - moment.now))


def retry_wait(state: LeaseState, moment: LeaseContext) -> float:
    """Return how many seconds a leader waits after a failed renewal. The wait becomes shorter as the end of the
    leader's right to write nears. `moment` holds the time and the policy.
    """
    left, period = state.held_until - moment.now, moment.policy.retry_period
    return min(left, max(period / 8, min(period, left / 2)))


def step(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> LeaseStep:
    """Return the candidate's next state after `event`, and the effects that the caller must carry out.

    An effect is a request about the Lease, a timer to set, a change of this process's right to write, or a report.
    `moment` holds the time, the jitter and the policy.
    """
    match state.role:
        case Role.STANDBY:
            return _standby(state, event, moment)
        case Role.CONFIRMING:
            return _confirming(state, event, moment)
        case Role.YIELDING:
            return _yielding(state, event, moment)
        case Role.LEADER:
            return _leader(state, event, moment)
        case Role.RELEASING:
            return _releasing(state, event, moment)
        case Role.ENDED:
            return state, (End(),)
        case _:
            assert_never(state.role)


# -- standby -------------------------------------------------------------------------------------------------------


def _standby(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> LeaseStep:
    match event:
        case TimerFired():
            return _read(state, moment)
        case LeaseRead(lease):
            return _try_acquire(*_observe(state, lease, moment), moment)
        case PeersRead() | PeersUnread():
            return _acquire_if_uncontested(state, event, moment)
        case LeaseWritten(lease):
            return _confirm(state, lease, moment)
        case LeaseRequestFailed(NotFound() as error) if state.lease is None:  # a create: the namespace is missing
            return _wait_as_standby(state, moment, ReportLeaseError(error.message))
        case LeaseRequestFailed(error):
            return _wait_as_standby(state, moment, *_report(error))
        case ReleaseRequested():
            return attrs.evolve(state, role=Role.ENDED), (End(),)
        case _:
            assert_never(event)


def _wait_as_standby(state: LeaseState, moment: LeaseContext, *effects: LeaseEffect) -> LeaseStep:
    """Return the step (state and effects) of a standby, which does not write and reads the Lease again later.

    `effects` come first in the step.
    """
    return attrs.evolve(state, role=Role.STANDBY, held_until=float("-inf")), (*effects, SetTimer(standby_wait(moment)))


def _try_acquire(state: LeaseState, effects: tuple[LeaseEffect, ...], moment: LeaseContext) -> LeaseStep:
    """Return the step (state and effects) that begins to take the Lease, if it may be taken.

    Otherwise the candidate waits.

    The Lease may be taken if it has no holder, if it has expired, or if it names this candidate already: an earlier
    write whose response was lost has succeeded. `effects` come first in the step.
    """
    left = _free_at(state, moment.policy) - moment.now
    if left > 0:
        # Jitter after the end as well: several standbys saw the same last renewal.
        wait = min(standby_wait(moment), left + moment.jitter * moment.policy.retry_period / 4)
        return state, (*effects, *_other_sharding(state), SetTimer(wait))
    asking, requests = _read_peers(state, moment)
    return asking, (*effects, *requests)


def _other_sharding(state: LeaseState) -> tuple[LeaseEffect, ...]:
    """Return a report for the log if the Lease's holder works with another number of shards, so that this replica
    cannot replace it.
    """
    holder = holder_of(state.lease)
    shards = shard_count_of(holder)
    return () if shards == state.shard.count else (ShardsDisagree(Disagreement(state.name, holder, shards)),)


def _acquire_if_uncontested(state: LeaseState, event: PeersRead | PeersUnread, moment: LeaseContext) -> LeaseStep:
    seen, obstacle = _judged(state, event, moment)
    match obstacle:
        case None:
            return _acquire(seen, moment)
        case Disagreement():
            return _yield(seen, obstacle, moment)
        case _:
            return _wait_as_standby(seen, moment, *_report(obstacle))


def _free_at(state: LeaseState, policy: LeasePolicy) -> float:
    """Return the monotonic time when the Lease may be taken.

    A Lease that someone deleted is not free at once, since its last holder may still run.
    """
    if holder_of(state.lease) in ("", state.identity):
        return float("-inf")
    # client-go waits for the duration that the holder wrote (tools/leaderelection, isLeaseValid); here the longer of
    # the two counts, as the one in the Lease may have been edited.
    return state.changed_at + max(policy.duration, lease_duration(state.lease))


def _confirm(state: LeaseState, lease: Manifest, moment: LeaseContext) -> LeaseStep:
    """Return the step (state and effects) of a candidate that has just taken its Lease.

    It lists the Leases of the other shards once more. This finds a replica with another number of shards that took a
    Lease just before. A replica that takes a Lease later will find this candidate's Lease in the same way.
    """
    seen, _ = _observe(state, lease, moment)
    taken = attrs.evolve(seen, role=Role.CONFIRMING, held_until=state.asked_at + moment.policy.renew_deadline)
    # An answer that arrives too late is not relied on.
    return _read_peers(taken, moment) if moment.now < taken.held_until else _wait_as_standby(taken, moment)


# -- confirming and yielding ---------------------------------------------------------------------------------------


def _confirming(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> LeaseStep:
    assert isinstance(event, PeersRead | PeersUnread), "nothing else was asked"
    seen, obstacle = _judged(state, event, moment)
    match obstacle:
        case None if moment.now < state.held_until:
            leading = attrs.evolve(seen, role=Role.LEADER)
            return leading, (OpenFence(leading.held_until), SetTimer(renewal_wait(leading, moment)))
        case Disagreement():
            return _yield(seen, obstacle, moment)
        case _:
            return _wait_as_standby(seen, moment, *(_report(obstacle) if obstacle is not None else ()))


def _yield(state: LeaseState, disagreement: Disagreement, moment: LeaseContext) -> LeaseStep:
    """Return the step (state and effects) by which this candidate gives way to replicas with another number of shards.

    It then waits until they have ended. If the candidate holds its Lease, it releases the Lease, so that those replicas
    do not wait for it.
    """
    if holder_of(state.lease) != state.identity or not _version(state.lease):
        return _wait_as_standby(state, moment, ShardsDisagree(disagreement))
    leaving = attrs.evolve(state, role=Role.YIELDING, held_until=float("-inf"))
    asking, effects = _request_release(leaving, moment)
    return asking, (ShardsDisagree(disagreement), *effects)


def _yielding(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> LeaseStep:
    """Return the step (state and effects) after the response to the release of the Lease.

    The candidate is a standby again. If the release failed, it is tried again after the next read of the Lease.
    """
    return _wait_as_standby(
        _observe(state, event.lease, moment)[0] if isinstance(event, LeaseWritten) else state, moment
    )


def _judged(
    state: LeaseState, event: PeersRead | PeersUnread, moment: LeaseContext
) -> tuple[LeaseState, Disagreement | OperatorError | None]:
    """Return the state after a list of the other shards' Leases, and the reason why the candidate may not lead.

    The reason is a replica with another number of shards, or the error of the list. It is None if the candidate may
    lead.
    """
    if isinstance(event, PeersUnread):
        # A missing right comes from the role of a release without shards, so no other replica works with several
        # either.
        alone = state.shard.count == 1 and isinstance(event.error, Forbidden)
        return state, None if alone else event.error
    peers = state.peers.observed(event.leases, base=state.base, own=state.name, now=moment.now)
    disagreement = peers.disagreement(state.shard.count, asked_at=state.asked_at, duration=moment.policy.duration)
    return attrs.evolve(state, peers=peers), disagreement


# -- leader --------------------------------------------------------------------------------------------------------


def _leader(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> LeaseStep:
    match event:
        case ReleaseRequested():
            return _release(state, moment)
        case LeaseWritten(lease):
            # Counted from the request, not from its answer: other candidates may have seen the renewal before this
            # process did.
            until = state.asked_at + moment.policy.renew_deadline
            renewed = attrs.evolve(state, lease=lease, held_until=max(state.held_until, until))
            if moment.now >= renewed.held_until:
                return _lost(renewed, moment)
            return renewed, (OpenFence(renewed.held_until), SetTimer(renewal_wait(renewed, moment)))
        case _ if moment.now >= state.held_until:
            return _lost(state, moment)
        case TimerFired():
            return _acquire(state, moment)
        case LeaseRead(lease):
            # An empty holder is no other leader: an administrator may clear it, and the next renewal takes the lease
            # again.
            if holder_of(lease) not in ("", state.identity):
                return _ended(state, f"{holder_of(lease)} holds it now")
            return _acquire(attrs.evolve(state, lease=lease), moment)
        case LeaseRequestFailed(Stale() | AlreadyExists()):
            return _read(state, moment)  # a renewal whose answer was lost, or another holder
        case LeaseRequestFailed(NotFound()):
            return _acquire(attrs.evolve(state, lease=None), moment)
        case LeaseRequestFailed(error):
            return state, (*_report(error), SetTimer(retry_wait(state, moment)))
        case PeersRead() | PeersUnread():
            raise AssertionError("a leader looks at its own lease only")
        case _:
            assert_never(event)


def _lost(state: LeaseState, moment: LeaseContext) -> LeaseStep:
    return _ended(state, f"it could not be renewed within {moment.policy.renew_deadline:g} s")


def _ended(state: LeaseState, reason: str) -> LeaseStep:
    return attrs.evolve(state, role=Role.ENDED, held_until=float("-inf")), (CloseFence(), LeadershipLost(reason), End())


def _release(state: LeaseState, moment: LeaseContext) -> LeaseStep:
    leaving = attrs.evolve(state, role=Role.RELEASING, held_until=float("-inf"))
    asking, effects = _request_release(leaving, moment)
    return asking, (CloseFence(), *effects)


def _request_release(state: LeaseState, moment: LeaseContext) -> LeaseStep:
    assert state.lease is not None, "a leader has written its lease"
    times = state.times.next(moment.wall)
    asking = attrs.evolve(state, asked_at=moment.now, times=times)
    return asking, (UpdateLease(released(state.lease, times), moment.policy.request_timeout),)


def _releasing(state: LeaseState, event: LeaseEvent, moment: LeaseContext) -> LeaseStep:
    """Return the next step (state and effects) of releasing the Lease.

    The release is retried if this candidate's copy of the Lease was stale. A Lease that could not be released expires.
    """
    match event:
        case LeaseRequestFailed(Stale()):
            return _read(state, moment)
        case LeaseRead(lease) if lease is not None and holder_of(lease) == state.identity:
            return _request_release(attrs.evolve(state, lease=lease), moment)
        case _:
            return attrs.evolve(state, role=Role.ENDED), (End(),)


# -- standby and leader --------------------------------------------------------------------------------------------


def _read(state: LeaseState, moment: LeaseContext) -> LeaseStep:
    return attrs.evolve(state, asked_at=moment.now), (ReadLease(timeout(state, moment)),)


def _read_peers(state: LeaseState, moment: LeaseContext) -> LeaseStep:
    return attrs.evolve(state, asked_at=moment.now), (ReadPeers(timeout(state, moment)),)


def _acquire(state: LeaseState, moment: LeaseContext) -> LeaseStep:
    """Return the step (state and effects) that takes or renews the Lease.

    The step creates a missing Lease, and updates an existing one at the resourceVersion that was read.
    """
    times = state.times.next(moment.wall)
    current = state.lease if _version(state.lease) else None
    desired = acquired(
        current, namespace=state.namespace, name=state.name, identity=state.identity, policy=moment.policy, times=times
    )
    asking = attrs.evolve(state, asked_at=moment.now, times=times)
    longest = timeout(state, moment)
    return asking, (CreateLease(desired, longest) if current is None else UpdateLease(desired, longest),)


def _observe(
    state: LeaseState, lease: Manifest | None, moment: LeaseContext
) -> tuple[LeaseState, tuple[LeaseEffect, ...]]:
    """Record the Lease as read; return the state, and a `LeaderObserved` if the holder is new.

    If the content differs from the last copy, the time of the Lease's last change is now.
    """
    if lease is None:
        # Keep the former holder and the time of the change, but nothing that an update could be based on.
        remains = {"spec": get_path(state.lease, "spec")} if state.lease is not None else None
        return attrs.evolve(state, lease=remains), ()
    if _content(lease) == _content(state.lease):
        return attrs.evolve(state, lease=lease), ()
    observed = (LeaderObserved(holder_of(lease)),) if holder_of(lease) != holder_of(state.lease) else ()
    return attrs.evolve(state, lease=lease, changed_at=moment.now), observed


def _content(lease: Manifest | None) -> Json:
    return get_path(lease, "spec")


def _version(lease: Manifest | None) -> str:
    return str(get_path(lease, "metadata", "resourceVersion") or "")


def _report(error: OperatorError) -> tuple[LeaseEffect, ...]:
    """Return the effect that logs an error; nothing if the error means that another candidate was faster."""
    return () if isinstance(error, Stale | AlreadyExists | NotFound) else (ReportLeaseError(error.message),)

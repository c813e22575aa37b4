"""The types of the leader election's state machine (`machine.step`): its state, events and effects (RUN-4).

An event is what happened, such as a response about the Lease. An effect is what the caller must do, such as send a
request.
"""

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest
from purekube.controller.lease.record import (
    DEFAULT_LEASE_POLICY,
    Disagreement,
    LeasePolicy,
    LeaseTimes,
    Peers,
    lease_name,
)
from purekube.controller.shard import WHOLE, Shard


class Role(StrEnum):
    """The role of a replica that competes for the Lease: a standby waits for the Lease, the leader holds it and may
    write, and the other roles are steps on the way from one to the other or to the end.
    """

    STANDBY = "standby"
    CONFIRMING = "confirming"
    """The lease is taken; the right to write begins once no replica is found to work with another number of shards."""
    YIELDING = "yielding"
    """The lease is being given back, because other replicas work with another number of shards."""
    LEADER = "leader"
    RELEASING = "releasing"
    """The right to write has been given up; the release of the lease is under way."""
    ENDED = "ended"
    """The election is over for this replica: the lease was released, lost, or never held."""


@attrs.frozen
class LeaseState:
    """The state of a candidate in a leader election by a Lease. All times are seconds of the local monotonic clock.

    `base` is the Lease's name in an operator without shards. `identity` includes the shard (`record.identity_of`). The
    candidate may write until `held_until`.
    """

    namespace: str
    base: str
    identity: str
    role: Role = Role.STANDBY
    lease: Manifest | None = None
    """The lease as last read or written."""
    changed_at: float = float("-inf")
    """The time when the present content of the lease was first seen."""
    asked_at: float = float("-inf")
    """The time when the last request was sent."""
    held_until: float = float("-inf")
    times: LeaseTimes = attrs.field(factory=LeaseTimes)
    shard: Shard = WHOLE
    peers: Peers = attrs.field(factory=Peers)

    @property
    def name(self) -> str:
        """The name of the Lease that this candidate tries to hold."""
        return lease_name(self.base, self.shard)


@attrs.frozen
class LeaseContext:
    """The inputs of a step of the leader election other than state and event. `now` is monotonic seconds, `wall` is
    only for display, `jitter` is a number in [0, 1).
    """

    now: float
    wall: datetime
    jitter: float
    policy: LeasePolicy = DEFAULT_LEASE_POLICY


@attrs.frozen
class TimerFired:
    """The event that the wait requested by `SetTimer` has ended. It is also the very first event."""


@attrs.frozen
class LeaseRead:
    """The event that the Lease was read: `lease` is None if it does not exist."""

    lease: Manifest | None


@attrs.frozen
class LeaseWritten:
    """The event that the server accepted a write of the Lease. `lease` is the Lease as stored."""

    lease: Manifest


@attrs.frozen
class LeaseRequestFailed:
    """The event that a request about the Lease was refused or got no response. Without a response, a write may still
    take effect.
    """

    error: OperatorError


@attrs.frozen
class PeersRead:
    """The event that all Leases in the namespace were listed, including those of other holders."""

    leases: tuple[Manifest, ...]


@attrs.frozen
class PeersUnread:
    """The event that the list of Leases was refused or got no response."""

    error: OperatorError


@attrs.frozen
class ReleaseRequested:
    """The event that the process ends and the Lease is to be released. Work that relies on the Lease must have ended
    before.
    """


LeaseEvent: TypeAlias = (
    TimerFired | LeaseRead | LeaseWritten | LeaseRequestFailed | PeersRead | PeersUnread | ReleaseRequested
)


@attrs.frozen
class ReadLease:
    """A request to read the Lease. The response is the event LeaseRead or, after at most `timeout` seconds,
    LeaseRequestFailed.
    """

    timeout: float


@attrs.frozen
class CreateLease:
    """A request to create the Lease. The response is the event LeaseWritten or, after at most `timeout` seconds,
    LeaseRequestFailed.
    """

    lease: Manifest
    timeout: float


@attrs.frozen
class UpdateLease:
    """A request to update the Lease at its resourceVersion.

    The response is the event LeaseWritten or, after at most `timeout` seconds, LeaseRequestFailed.
    """

    lease: Manifest
    timeout: float


@attrs.frozen
class ReadPeers:
    """A request to list the Leases in the namespace.

    The response is the event PeersRead or, after at most `timeout` seconds, PeersUnread.
    """

    timeout: float


@attrs.frozen
class SetTimer:
    """A request to wait for `seconds`. A ReleaseRequested ends the wait early."""

    seconds: float


@attrs.frozen
class End:
    """A request to end the election for this candidate: no further events are handled."""


@attrs.frozen
class OpenFence:
    """A request to permit this process to write to the cluster while the local monotonic clock is below `until`."""

    until: float


@attrs.frozen
class CloseFence:
    """A request to end this process's permission to write to the cluster."""


@attrs.frozen
class LeadershipLost:
    """A report that this candidate has lost the Lease that it held. `reason` says why, as text for people."""

    reason: str


@attrs.frozen
class LeaderObserved:
    """A report that the holder of the Lease has changed. `holder` is the new one, or empty if there is none."""

    holder: str


@attrs.frozen
class ReportLeaseError:
    """A note for the log that a request about a Lease has failed and will be retried."""

    reason: str


@attrs.frozen
class ShardsDisagree:
    """A report that another replica works with a different number of shards, so that this replica waits (RUN-13)."""

    disagreement: Disagreement


LeaseCommand: TypeAlias = ReadLease | ReadPeers | CreateLease | UpdateLease | SetTimer | End
"""The effects that start a request or a wait, or end the machine: every step has exactly one, as its last."""

LeaseEffect: TypeAlias = (
    OpenFence | CloseFence | LeadershipLost | LeaderObserved | ReportLeaseError | ShardsDisagree | LeaseCommand
)

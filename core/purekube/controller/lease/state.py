"""State of a candidate for the lease, and the context of a step (RUN-4)."""

from datetime import datetime
from enum import StrEnum

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.controller.lease.peers import Peers, lease_name
from purekube.controller.lease.record import DEFAULT_LEASE_POLICY, LeasePolicy, LeaseTimes
from purekube.controller.shard import WHOLE, Shard


class Role(StrEnum):
    """The role of a candidate."""

    STANDBY = "standby"
    CONFIRMING = "confirming"
    """The lease is taken; writing begins once it is known that no replica works with another number of shards."""
    YIELDING = "yielding"
    """The lease is being given back to replicas that work with another number of shards."""
    LEADER = "leader"
    RELEASING = "releasing"
    """The right to write is given up; the lease is about to be."""
    ENDED = "ended"
    """Released, lost, or never held."""


@attrs.frozen
class LeaseState:
    """The state of a candidate. All times are of the local monotonic clock, in seconds.

    `base` is the Lease's name of an operator without shards; `identity` includes the shard (`peers.identity_of`).
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
    """The context of a step: `now` is monotonic, `wall` only for people to read, `jitter` a number in [0, 1)."""

    now: float
    wall: datetime
    jitter: float
    policy: LeasePolicy = DEFAULT_LEASE_POLICY

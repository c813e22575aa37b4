"""Where a candidate for the lease stands, and what a step of its machine knows beside (RUN-4)."""

from datetime import datetime
from enum import StrEnum

import attrs

from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.controller.lease.peers import Peers, lease_name
from vworkspace_core.controller.lease.record import (
    DEFAULT_LEASE_POLICY,
    LeasePolicy,
    LeaseTimes,
)
from vworkspace_core.controller.shard import WHOLE, Shard


class Role(StrEnum):
    """What a candidate is."""

    STANDBY = "standby"
    CONFIRMING = "confirming"
    """The lease is taken, and nothing is written before it is known that nobody works with other shards."""
    YIELDING = "yielding"
    """The lease is given back to those who do."""
    LEADER = "leader"
    RELEASING = "releasing"
    """The right to write is given up; the lease is about to be."""
    ENDED = "ended"
    """Released, lost, or never held."""


@attrs.frozen
class LeaseState:
    """Where a candidate stands. All times are of the local monotonic clock, in seconds.

    `base` is the name of the Lease of an operator without shards; `identity` tells the shard (`peers.identity_of`).
    """

    namespace: str
    base: str
    identity: str
    role: Role = Role.STANDBY
    lease: Manifest | None = None
    """As last read or written."""
    changed_at: float = float("-inf")
    """When the lease was first seen as it is."""
    asked_at: float = float("-inf")
    """When the last request was sent."""
    held_until: float = float("-inf")
    times: LeaseTimes = attrs.field(factory=LeaseTimes)
    shard: Shard = WHOLE
    peers: Peers = attrs.field(factory=Peers)

    @property
    def name(self) -> str:
        """The Lease that it stands for."""
        return lease_name(self.base, self.shard)


@attrs.frozen
class LeaseContext:
    """When a step happens: `now` is monotonic, `wall` only for people to read, `jitter` a number in [0, 1)."""

    now: float
    wall: datetime
    jitter: float
    policy: LeasePolicy = DEFAULT_LEASE_POLICY

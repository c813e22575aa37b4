"""Where a candidate for the lease stands, and what a step of its machine knows beside (RUN-4)."""

from datetime import datetime
from enum import StrEnum

import attrs

from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.controller.lease.record import (
    DEFAULT_LEASE_POLICY,
    LeasePolicy,
    LeaseTimes,
)


class Role(StrEnum):
    """What a candidate is."""

    STANDBY = "standby"
    LEADER = "leader"
    RELEASING = "releasing"
    """The right to write is given up; the lease is about to be."""
    ENDED = "ended"
    """Released, lost, or never held."""


@attrs.frozen
class LeaseState:
    """Where a candidate stands. All times are of the local monotonic clock, in seconds."""

    namespace: str
    name: str
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


@attrs.frozen
class LeaseContext:
    """When a step happens: `now` is monotonic, `wall` only for people to read, `jitter` a number in [0, 1)."""

    now: float
    wall: datetime
    jitter: float
    policy: LeasePolicy = DEFAULT_LEASE_POLICY

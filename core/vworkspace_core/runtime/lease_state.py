"""Where a candidate for the lease stands, and how long it rests or waits; all in seconds (RUN-4)."""

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

import attrs

from vworkspace_core.manifest import Manifest
from vworkspace_core.runtime.lease_events import LeaseEffect
from vworkspace_core.runtime.lease_record import DEFAULT_LEASE_POLICY, LeasePolicy, LeaseTimes

__all__ = [
    "LeaseMoment",
    "LeaseState",
    "Role",
    "Stepped",
    "pause",
    "timeout",
    "until_renewal",
    "until_retry",
]


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
class LeaseMoment:
    """When a step happens: `now` is monotonic, `wall` only for people to read, `jitter` a number in [0, 1)."""

    now: float
    wall: datetime
    jitter: float
    policy: LeasePolicy = DEFAULT_LEASE_POLICY


Stepped: TypeAlias = tuple[LeaseState, tuple[LeaseEffect, ...]]


def timeout(state: LeaseState, moment: LeaseMoment) -> float:
    """How long to wait for an answer. A leader does not wait beyond the end of its right."""
    longest = moment.policy.request_timeout
    return min(longest, state.held_until - moment.now) if state.role is Role.LEADER else longest


def pause(moment: LeaseMoment) -> float:
    """How long a standby rests; candidates drift apart by their jitter."""
    policy = moment.policy
    return policy.retry_period * (1 + policy.jitter_factor * moment.jitter)


def until_renewal(state: LeaseState, moment: LeaseMoment) -> float:
    """How long a leader whose renewal was accepted rests."""
    return max(0.0, min(moment.policy.retry_period, state.held_until - moment.now))


def until_retry(state: LeaseState, moment: LeaseMoment) -> float:
    """How long a leader rests whose renewal failed: the shorter the nearer the end, so that it sees an outage end."""
    left, period = state.held_until - moment.now, moment.policy.retry_period
    return min(left, max(period / 8, min(period, left / 2)))

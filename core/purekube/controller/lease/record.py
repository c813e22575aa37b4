"""The `coordination.k8s.io/v1` Lease that replicas share, read and written as data (RUN-4)."""

from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Json, Manifest, get_path
from purekube.apimachinery.resources import LEASE
from purekube.apimachinery.timestamps import microtime

_TICK = timedelta(microseconds=1)


@attrs.frozen
class LeasePolicy:
    """The times of an election in seconds. The defaults are client-go's.

    A holder writes for at most `renew_deadline` after it sent its last accepted renewal; others wait `duration` from
    the moment they saw that renewal. The difference is the margin that covers clocks of unequal speed and requests on
    their way.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    jitter_factor: float = 1.2
    """A standby waits between one and 1 + `jitter_factor` retry periods, so that many do not send requests together."""

    @property
    def request_timeout(self) -> float:
        """The longest time of one request about the lease: two of them fit into the renew deadline."""
        return self.renew_deadline / 2

    def problems(self) -> tuple[str, ...]:
        """Return the contradictions in these times, empty if there are none."""
        problems = []
        if self.duration < 1 or self.duration != int(self.duration):
            problems.append(f"the lease duration is {self.duration:g} s: whole seconds, at least 1")
        if not self.renew_deadline <= 0.9 * self.duration:
            problems.append(
                f"the renew deadline is {self.renew_deadline:g} s: at most nine tenths of the lease duration, "
                f"so that a holder has stopped before another begins"
            )
        if self.retry_period <= 0 or not self.retry_period * 2 <= self.renew_deadline:
            problems.append(f"the retry period is {self.retry_period:g} s: above 0, at most half of the renew deadline")
        return tuple(problems)


DEFAULT_LEASE_POLICY: Final = LeasePolicy()
"""15 s, 10 s, 2 s."""


@attrs.frozen
class LeaseTimes:
    """The wall time of our own writes, for people who read the lease. No decision uses it.

    It moves with every write even if the clock stops or is set back, since other candidates watch for a change.
    """

    last: datetime | None = None

    def next(self, wall: datetime) -> "LeaseTimes":
        """Return the time of the next write."""
        return LeaseTimes(wall if self.last is None else max(wall, self.last + _TICK))

    @property
    def text(self) -> str:
        """The time as the API server requires it: RFC 3339 with microseconds."""
        assert self.last is not None, "no write yet"
        return microtime(self.last)


def holder_of(lease: Manifest | None) -> str:
    """Return the holder of the lease; an empty text for none."""
    return str(get_path(lease, "spec", "holderIdentity") or "")


def lease_duration(lease: Manifest | None) -> float:
    """Return the seconds after a renewal for which the holder may rely on it."""
    seconds = get_path(lease, "spec", "leaseDurationSeconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def acquired(
    lease: Manifest | None, *, namespace: str, name: str, identity: str, policy: LeasePolicy, times: LeaseTimes
) -> dict[str, Any]:
    """Return the lease with `identity` as its holder: new, taken over, or renewed.

    Labels, annotations and the resourceVersion of the lease that was read stay.
    """
    before = dict(get_path(lease, "spec") or {})
    spec = {
        **before,
        "holderIdentity": identity,
        "leaseDurationSeconds": ceil(policy.duration),
        "renewTime": times.text,
    }
    if holder_of(lease) != identity:
        spec["acquireTime"] = times.text
        spec["leaseTransitions"] = _transitions(before) + (1 if lease is not None else 0)
    return {**(lease or LEASE.manifest(name, namespace)), "spec": spec}


def released(lease: Manifest, times: LeaseTimes) -> dict[str, Any]:
    """Return the lease without a holder, so that a standby need not wait for its end."""
    spec = {**(get_path(lease, "spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": times.text}
    return {**lease, "spec": spec}


def _transitions(spec: dict[str, Json]) -> int:
    count = spec.get("leaseTransitions")
    return count if isinstance(count, int) else 0

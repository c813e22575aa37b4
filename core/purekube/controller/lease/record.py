"""The content of Leases: the Lease for which this shard's replicas compete, and the Leases of the other shards (RUN-4,
RUN-13).

A shard is the share of the cluster's namespaces that one process reconciles.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Json, Manifest, get_path, metadata
from purekube.apimachinery.resources import LEASE
from purekube.apimachinery.timestamps import microtime
from purekube.controller.shard import WHOLE, Shard

# A Lease's times have microseconds, so this is the smallest step that other candidates can notice.
_TICK = timedelta(microseconds=1)


@attrs.frozen
class LeasePolicy:
    """The times of a leader election in seconds. The defaults are client-go's.

    A holder writes for at most `renew_deadline` seconds after it sent its last accepted renewal. Others wait for
    `duration` seconds from the moment they saw that renewal. The difference is a margin for clocks of unequal speed and
    for requests on their way.
    """

    # In the API `leaseDurationSeconds` is an integer; the other two times never leave the process.
    # component-base: config/v1alpha1/defaults.go, RecommendedDefaultLeaderElectionConfiguration; JitterFactor is in
    # client-go, tools/leaderelection.
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    jitter_factor: float = 1.2
    """A standby waits between one and 1 + `jitter_factor` retry periods, so that many do not send requests together."""

    @property
    def request_timeout(self) -> float:
        """The time limit of one request about the lease, in seconds. Two such requests fit into the renew deadline."""
        return self.renew_deadline / 2

    def problems(self) -> tuple[str, ...]:
        """Return a message for each contradiction between the times of this policy; nothing if there is none."""
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
"""The defaults of client-go: duration 15 s, renew deadline 10 s, retry period 2 s."""


@attrs.frozen
class LeaseTimes:
    """The wall time that a candidate writes into the Lease, for people only; no decision uses this time.

    The time increases with every write even if the clock stops or is set back, since other candidates wait for a
    change.
    """

    last: datetime | None = None

    def next(self, wall: datetime) -> "LeaseTimes":
        """Return the time to write next: `wall`, or just after the last written time if that is later."""
        return LeaseTimes(wall if self.last is None else max(wall, self.last + _TICK))

    @property
    def text(self) -> str:
        """The time as the API server requires it: RFC 3339 with microseconds."""
        assert self.last is not None, "no write yet"
        return microtime(self.last)


def holder_of(lease: Manifest | None) -> str:
    """Return the identity of the Lease's holder; "" if the Lease has none."""
    return str(get_path(lease, "spec", "holderIdentity") or "")


def lease_duration(lease: Manifest | None) -> float:
    """Return the Lease's `leaseDurationSeconds`; 0 if it is absent or not a number."""
    seconds = get_path(lease, "spec", "leaseDurationSeconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def acquired(
    lease: Manifest | None, *, namespace: str, name: str, identity: str, policy: LeasePolicy, times: LeaseTimes
) -> dict[str, Any]:
    """Return the manifest of the lease with `identity` as its holder: new (`lease` is None), taken over, or renewed.

    Labels, annotations and resourceVersion of `lease` are kept. `policy` gives the duration, and `times` the time of
    the renewal that is written. `namespace` and `name` are those of a new Lease.
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
    """Return the manifest of the Lease without a holder, so that a standby may take it at once. `times` gives the time
    of the renewal that is written.
    """
    # A duration of 1 s, as client-go's release writes it: the API refuses 0 (kubernetes:
    # pkg/apis/coordination/validation).
    spec = {**(get_path(lease, "spec") or {}), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": times.text}
    return {**lease, "spec": spec}


def _transitions(spec: dict[str, Json]) -> int:
    count = spec.get("leaseTransitions")
    return count if isinstance(count, int) else 0


_BETWEEN: Final = "-shard-"
_SHARD: Final = re.compile(r"_([0-9]{1,4}/[0-9]{1,4})\Z")


def lease_name(base: str, shard: Shard) -> str:
    """Return the name of a shard's Lease. `base` is the Lease's name in an operator without shards.

    The first shard uses that same Lease, so that an operator without shards and one with shards exclude each other.
    """
    return base if shard.is_first else f"{base}{_BETWEEN}{shard.index}"


def is_lease_of(base: str, name: str) -> bool:
    """Report whether `name` is the name of the Lease of any shard of one operator.

    `base` is the name of the Lease of that operator's first shard.
    """
    return name == base or re.fullmatch(re.escape(base + _BETWEEN) + "[0-9]+", name) is not None


def identity_of(replica: str, shard: Shard) -> str:
    """Return the holder identity that `replica` writes into the Lease of that shard."""
    return replica if shard == WHOLE else f"{replica}_{shard}"


def shard_count_of(holder: str) -> int:
    """Return the number of shards that a Lease holder's identity names; 1 if it names none."""
    match = _SHARD.search(holder)
    try:
        return 1 if match is None else Shard.of(match[1]).count
    except ValueError:
        return 1


@attrs.frozen
class Disagreement:
    """A Lease held by a replica that works with a number of shards other than this replica's.

    `lease` is the Lease's name, `holder` that replica's identity, and `shards` its number of shards.
    """

    lease: str
    holder: str
    shards: int


@attrs.frozen
class _Seen:
    spec: Json
    duration: float
    """The `leaseDurationSeconds` of the Lease, for which its holder may rely on a renewal."""
    since: float
    """The time when this `spec` was first seen, on the local monotonic clock."""


@attrs.frozen
class Peers:
    """The Leases of all other shards as last listed, each with the time when its present content was first seen.

    A Lease that was deleted meanwhile is kept, since its holder may be active until the Lease expires.
    """

    leases: Mapping[str, _Seen] = attrs.field(factory=dict)

    def observed(self, leases: Iterable[Manifest], *, base: str, own: str, now: float) -> "Peers":
        """Return the other shards' Leases as updated by `leases`, a list that has just arrived. `own` is the name of
        this candidate's Lease, which is omitted; `base` is the Lease's name in an operator without shards. `now` is the
        local monotonic time in seconds, which is recorded for each Lease whose content has changed.
        """
        seen = dict(self.leases)
        for lease in leases:
            name, spec = str(metadata(lease).get("name")), get_path(lease, "spec")
            if name == own or not is_lease_of(base, name):
                continue
            if name not in seen or seen[name].spec != spec:
                seen[name] = _Seen(spec, lease_duration(lease), now)
        return Peers(seen)

    def disagreement(self, count: int, *, asked_at: float, duration: float) -> Disagreement | None:
        """Return the Lease of a replica that may still be active with a number of shards other than `count`; None if
        there is none.

        `asked_at` is when the list was requested. A holder may write until its Lease has been unchanged for `duration`
        seconds, or longer if the Lease says so; only a later list proves that the holder has stopped.
        """
        for name, seen in sorted(self.leases.items()):
            holder = holder_of({"spec": seen.spec})
            live = asked_at - seen.since < max(duration, seen.duration)
            if holder and live and shard_count_of(holder) != count:
                return Disagreement(name, holder, shard_count_of(holder))
        return None

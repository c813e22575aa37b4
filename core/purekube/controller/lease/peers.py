"""The other Leases of an operator: which replicas are active, and with how many shards (RUN-13).

The name of a holder includes its shard, so that the shard always belongs to the present holder, never to an earlier
one. A name without a shard is that of an operator without shards, of any release.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from purekube.apimachinery.manifest import Json, Manifest, get_path, metadata
from purekube.controller.lease.record import holder_of, lease_duration
from purekube.controller.shard import WHOLE, Shard

_BETWEEN: Final = "-shard-"
_SHARD: Final = re.compile(r"_([0-9]{1,4}/[0-9]{1,4})\Z")


def lease_name(base: str, shard: Shard) -> str:
    """Return the Lease of a shard.

    The first shares its name with an operator without shards: they exclude each other.
    """
    return base if shard.is_first else f"{base}{_BETWEEN}{shard.index}"


def is_lease_of(base: str, name: str) -> bool:
    """Report whether `name` is the Lease of some shard, whatever their number."""
    return name == base or re.fullmatch(re.escape(base + _BETWEEN) + "[0-9]+", name) is not None


def identity_of(replica: str, shard: Shard) -> str:
    """Return the name by which `replica` holds the Lease of that shard."""
    return replica if shard == WHOLE else f"{replica}_{shard}"


def shard_count_of(holder: str) -> int:
    """Return with how many shards the holder of a Lease works."""
    match = _SHARD.search(holder)
    try:
        return 1 if match is None else Shard.of(match[1]).count
    except ValueError:
        return 1


@attrs.frozen
class Disagreement:
    """A Lease held by a replica that shares the cluster by another number of shards than we do."""

    lease: str
    holder: str
    shards: int


@attrs.frozen
class _Seen:
    spec: Json
    duration: float
    """The seconds after a renewal for which the holder may rely on it, as the Lease says."""
    since: float
    """The time when this content was first seen, on the local monotonic clock."""


@attrs.frozen
class Peers:
    """The Leases of all other shards as last listed. A deleted one counts until it expires."""

    leases: Mapping[str, _Seen] = attrs.field(factory=dict)

    def observed(self, leases: Iterable[Manifest], *, base: str, own: str, now: float) -> "Peers":
        """Return the peers updated by a list that has just arrived."""
        seen = dict(self.leases)
        for lease in leases:
            name, spec = str(metadata(lease).get("name")), get_path(lease, "spec")
            if name == own or not is_lease_of(base, name):
                continue
            if name not in seen or seen[name].spec != spec:
                seen[name] = _Seen(spec, lease_duration(lease), now)
        return Peers(seen)

    def disagreement(self, count: int, *, asked_at: float, duration: float) -> Disagreement | None:
        """Return a replica that may be active with another number of shards, by the list requested at `asked_at`.

        A holder may write until its Lease has not changed for `duration` seconds, or longer if the Lease says so; only
        a list requested after that shows that it has stopped.
        """
        for name, seen in sorted(self.leases.items()):
            holder = holder_of({"spec": seen.spec})
            live = asked_at - seen.since < max(duration, seen.duration)
            if holder and live and shard_count_of(holder) != count:
                return Disagreement(name, holder, shard_count_of(holder))
        return None

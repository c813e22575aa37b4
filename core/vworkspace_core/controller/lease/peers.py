"""The other Leases of an operator: who is at work, and with how many shards (RUN-13).

A holder's name tells its shard, so that what is said always belongs to who holds the Lease now, whoever wrote it. Who
says nothing works alone: an operator without shards, of any release.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from vworkspace_core.apimachinery.manifest import Json, Manifest, get_path, metadata
from vworkspace_core.controller.lease.record import holder_of, lease_duration
from vworkspace_core.controller.shard import WHOLE, Shard

_BETWEEN: Final = "-shard-"
_SHARD: Final = re.compile(r"_([0-9]{1,4}/[0-9]{1,4})\Z")


def lease_name(base: str, shard: Shard) -> str:
    """The Lease of a shard. The first has that of an operator without shards, so that the two exclude each other."""
    return base if shard.is_first else f"{base}{_BETWEEN}{shard.index}"


def is_lease_of(base: str, name: str) -> bool:
    """Whether it is the Lease of some shard, however many there are."""
    return name == base or re.fullmatch(re.escape(base + _BETWEEN) + "[0-9]+", name) is not None


def identity_of(replica: str, shard: Shard) -> str:
    """What `replica` calls itself in the Lease of that shard."""
    return replica if shard == WHOLE else f"{replica}_{shard}"


def shard_count_of(holder: str) -> int:
    """With how many shards the holder of a Lease works."""
    match = _SHARD.search(holder)
    try:
        return 1 if match is None else Shard.of(match[1]).count
    except ValueError:
        return 1


@attrs.frozen
class Disagreement:
    """A Lease that somebody holds who shares the cluster by another number of shards than we do."""

    lease: str
    holder: str
    shards: int


@attrs.frozen
class _Seen:
    spec: Json
    duration: float
    """How long it is left to its holder, by its own word."""
    since: float
    """When it was first seen as it is, on the local monotonic clock."""


@attrs.frozen
class Peers:
    """The Leases of all shards as last listed, but for the own one. One that was deleted counts until it runs out."""

    leases: Mapping[str, _Seen] = attrs.field(factory=dict)

    def observed(self, leases: Iterable[Manifest], *, base: str, own: str, now: float) -> "Peers":
        """With what a list shows that has just come."""
        seen = dict(self.leases)
        for lease in leases:
            name, spec = str(metadata(lease).get("name")), get_path(lease, "spec")
            if name == own or not is_lease_of(base, name):
                continue
            if name not in seen or seen[name].spec != spec:
                seen[name] = _Seen(spec, lease_duration(lease), now)
        return Peers(seen)

    def disagreement(self, count: int, *, asked_at: float, duration: float) -> Disagreement | None:
        """Who may be at work with another number of shards, by the list that was asked for at `asked_at`.

        A holder may write until its Lease has not changed for `duration` seconds, or for longer where it says so; a
        list that was asked for only then shows it.
        """
        for name, seen in sorted(self.leases.items()):
            holder = holder_of({"spec": seen.spec})
            live = asked_at - seen.since < max(duration, seen.duration)
            if holder and live and shard_count_of(holder) != count:
                return Disagreement(name, holder, shard_count_of(holder))
        return None

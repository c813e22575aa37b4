"""The operator replicas that are at work in a cluster, found by their Leases: one leader for each shard (RUN-13).

A shard is a part of the namespaces, which one replica reconciles. An operator without leader election takes no Lease:
the heartbeat of its Cluster object shows that it runs.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.timestamps import time_or_none
from purekube.controller.lease.record import holder_of, lease_name, shard_count_of
from purekube.controller.shard import Shard

_HELD: Final = timedelta(seconds=60)
"""The time after its last renewal for which a Lease counts as held, with a margin for clock skew between machines."""


_BEATING: Final = timedelta(seconds=150)
"""The time for which an operator counts as alive after a heartbeat: two heartbeats, and a margin for clock skew."""


@attrs.frozen
class AtWork:
    """One shard (a part of the namespaces) with its leader, and when the leader last renewed its Lease.

    `holder` is empty if there is no leader.
    """

    shard: Shard
    holder: str = ""
    heard: datetime | None = None
    """The time of the Lease's last renewal; None if the shard has no Lease, or its time cannot be read."""


@attrs.frozen
class Workers:
    """The signs of running operators: the leader of each shard, and the newest heartbeat of a Cluster object.

    A shard is a part of the namespaces, which one replica of the operator reconciles.
    """

    shards: tuple[AtWork, ...] = ()
    heartbeat: datetime | None = None


def is_held(lease: Manifest | None, now: datetime) -> bool:
    """Report whether the Lease shows that a replica is leader at the time `now`: it was renewed in the minute before.

    The result is False if `lease` is None.
    """
    renewed = _renewed(lease)
    return bool(holder_of(lease)) and renewed is not None and renewed > now - _HELD


def at_work(leases: Iterable[Manifest], base: str, now: datetime) -> tuple[AtWork, ...]:
    """Return all shards in order, with their leaders, or an empty tuple if there is no Lease.

    A shard is a part of the namespaces. `base` is the name of the first shard's Lease. Each leader writes the number of
    shards into its Lease; the number is taken from the leaders at the time `now`, or else from the last leader. Leases
    left from a former number of shards are ignored.
    """
    by_name = {str(get_path(lease, "metadata", "name")): lease for lease in leases}
    if not by_name:
        return ()
    held = [lease for lease in by_name.values() if is_held(lease, now)]
    telling = held or [max(by_name.values(), key=lambda lease: str(get_path(lease, "spec", "renewTime") or ""))]
    count = max(shard_count_of(holder_of(lease)) for lease in telling)
    return tuple(_of_shard(Shard(index, count), base, by_name, now) for index in range(count))


def heartbeat_of(clusters: Iterable[Manifest]) -> datetime | None:
    """Return the newest heartbeat in the Cluster objects, or None if there is no heartbeat.

    A heartbeat shows that an operator without a Lease runs.
    """
    beats = [beat for each in clusters if (beat := time_or_none(get_path(each, "status", "lastHeartbeat"))) is not None]
    return max(beats, default=None)


def is_alive(heartbeat: datetime | None, now: datetime) -> bool:
    """Report whether `heartbeat` is less than 150 seconds old at the time `now`; False if it is None.

    Operators send a heartbeat every minute.
    """
    return heartbeat is not None and heartbeat > now - _BEATING


def _of_shard(shard: Shard, base: str, leases: Mapping[str, Manifest], now: datetime) -> AtWork:
    lease = leases.get(lease_name(base, shard))
    holder = holder_of(lease) if lease is not None and is_held(lease, now) else ""
    return AtWork(shard, holder, _renewed(lease))


def _renewed(lease: Manifest | None) -> datetime | None:
    return time_or_none(get_path(lease, "spec", "renewTime"))

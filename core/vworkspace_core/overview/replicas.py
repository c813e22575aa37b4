"""Who is at work in a cluster, by the Leases of its replicas: one, or one of each shard (RUN-13).

An operator that runs without leader election takes none: the heartbeat of its Cluster object is its sign of life.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, get_path
from vworkspace_core.apimachinery.timestamps import parse_time
from vworkspace_core.controller.lease.peers import lease_name, shard_count_of
from vworkspace_core.controller.lease.record import holder_of
from vworkspace_core.controller.shard import Shard

_HELD: Final = timedelta(seconds=60)
"""A Lease that was renewed this recently has a holder, whatever the clocks of two machines differ by."""


_BEATING: Final = timedelta(seconds=150)
"""Two heartbeats, and what the clocks of two machines differ by."""


@attrs.frozen
class AtWork:
    """One shard: who leads it, and when that was last heard of. `holder` is empty where nobody does."""

    shard: Shard
    holder: str = ""
    heard: datetime | None = None
    """None where no Lease of the shard was ever made, or it says nothing that can be read."""


@attrs.frozen
class Workers:
    """Signs of operators at work: the Leases by shard, and the newest heartbeat of a Cluster object."""

    shards: tuple[AtWork, ...] = ()
    heartbeat: datetime | None = None


def is_held(lease: Manifest | None, now: datetime) -> bool:
    """Whether a replica leads at this moment, as far as its Lease tells."""
    renewed = _renewed(lease)
    return bool(holder_of(lease)) and renewed is not None and renewed > now - _HELD


def at_work(leases: Iterable[Manifest], base: str, now: datetime) -> tuple[AtWork, ...]:
    """Every shard that there has to be, the first one first; nothing where no replica ever took turns.

    `base` is the name of the first one's Lease. How many there are, say those who lead, or else who did last: the
    Leases of a former number are left behind, and nobody waits for them.
    """
    by_name = {str(get_path(lease, "metadata", "name")): lease for lease in leases}
    if not by_name:
        return ()
    held = [lease for lease in by_name.values() if is_held(lease, now)]
    telling = held or [max(by_name.values(), key=lambda lease: str(get_path(lease, "spec", "renewTime") or ""))]
    count = max(shard_count_of(holder_of(lease)) for lease in telling)
    return tuple(_of_shard(Shard(index, count), base, by_name, now) for index in range(count))


def heartbeat_of(clusters: Iterable[Manifest]) -> datetime | None:
    """Return the newest heartbeat of Cluster objects: the sign of life of an operator that takes no Lease."""
    beats = [beat for each in clusters if (beat := _time(get_path(each, "status", "lastHeartbeat"))) is not None]
    return max(beats, default=None)


def beats(heartbeat: datetime | None, now: datetime) -> bool:
    """Whether an operator has given a sign of life lately: it gives one a minute."""
    return heartbeat is not None and heartbeat > now - _BEATING


def _of_shard(shard: Shard, base: str, leases: Mapping[str, Manifest], now: datetime) -> AtWork:
    lease = leases.get(lease_name(base, shard))
    holder = holder_of(lease) if lease is not None and is_held(lease, now) else ""
    return AtWork(shard, holder, _renewed(lease))


def _renewed(lease: Manifest | None) -> datetime | None:
    return _time(get_path(lease, "spec", "renewTime"))


def _time(text: Any) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None

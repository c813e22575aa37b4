"""Who is at work, from the Leases of one operator or of all its shards (SEE-1, RUN-13)."""

from datetime import UTC, datetime, timedelta

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import LEASE
from purekube.apimachinery.timestamps import format_time, microtime
from purekube.controller.lease.record import identity_of, lease_name
from purekube.controller.shard import WHOLE, Shard
from vworkspace_core.api.kinds import CLUSTER
from vworkspace_core.overview.tree import AtWork, at_work, heartbeat_of, is_alive, present_cluster

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
BASE = "vworkspace-operator"


def lease(shard: Shard, seconds: float, holder: str = "pod") -> Manifest:
    """A Lease that was renewed so long ago; without a holder it was given back."""
    held = {"holderIdentity": identity_of(holder, shard) if holder else ""}
    renewed = {"renewTime": microtime(NOW - timedelta(seconds=seconds))}
    return {**LEASE.manifest(lease_name(BASE, shard), "own"), "spec": {**held, **renewed}}


def holders(*leases: Manifest) -> dict[str, str]:
    """Who leads, by shard."""
    return {str(one.shard): one.holder for one in at_work(leases, BASE, NOW)}


def test_one_replica_leads_alone_or_none_does_SEE_1() -> None:
    assert at_work([], BASE, NOW) == ()
    assert at_work([lease(WHOLE, 3)], BASE, NOW) == (AtWork(WHOLE, "pod", NOW - timedelta(seconds=3)),)
    assert holders(lease(WHOLE, 300)) == {"0/1": ""}
    assert holders(lease(WHOLE, 3, holder="")) == {"0/1": ""}


def test_every_shard_is_told_also_one_that_never_ran_RUN_13() -> None:
    first, third = lease(Shard(0, 3), 2), lease(Shard(2, 3), 400)
    assert holders(first, third) == {"0/3": "pod_0/3", "1/3": "", "2/3": ""}
    never, stopped = at_work([first, third], BASE, NOW)[1:]
    assert (never.heard, stopped.heard) == (None, NOW - timedelta(seconds=400))


def test_leases_of_a_former_number_are_nobody_to_wait_for_RUN_13() -> None:
    left = [lease(Shard(index, 4), 900, holder="") for index in range(1, 4)]
    assert holders(lease(WHOLE, 2), *left) == {"0/1": "pod"}
    assert holders(lease(WHOLE, 600), lease(Shard(3, 4), 900)) == {"0/1": ""}


def test_while_the_number_of_shards_changes_the_larger_one_is_told_RUN_13() -> None:
    assert holders(lease(WHOLE, 2), lease(Shard(1, 2), 2)) == {"0/2": "pod", "1/2": "pod_1/2"}
    assert holders(lease(Shard(0, 2), 2), lease(Shard(2, 3), 2)) == {"0/3": "pod_0/2", "1/3": "", "2/3": "pod_2/3"}


def test_what_cannot_be_read_in_a_lease_is_not_at_work_SEE_1() -> None:
    broken = {**LEASE.manifest(BASE, "own"), "spec": {"holderIdentity": "pod", "renewTime": "soon"}}
    assert at_work([broken], BASE, NOW) == (AtWork(WHOLE),)


def cluster(name: str, **status: str) -> Manifest:
    return {**CLUSTER.manifest(name), "status": status}


def test_without_a_lease_the_newest_heartbeat_is_the_sign_of_life_SEE_1() -> None:
    """An operator that runs without leader election, as in the quickstart, takes no Lease."""
    late, lately = NOW - timedelta(minutes=20), NOW - timedelta(seconds=59)
    clusters = [cluster("a", lastHeartbeat=format_time(late)), cluster("b", lastHeartbeat=format_time(lately))]

    assert heartbeat_of([*clusters, cluster("c"), cluster("d", lastHeartbeat="soon")]) == lately
    assert is_alive(lately, NOW)
    assert not is_alive(late, NOW)
    assert not is_alive(heartbeat_of([cluster("c")]), NOW)


def test_the_cluster_of_a_former_id_is_not_the_one_that_the_operator_writes_SEE_1() -> None:
    """The object of a former id stays when the operator is registered again."""
    former = cluster("a-former", lastHeartbeat=format_time(NOW - timedelta(days=3)))
    present = cluster("present", lastHeartbeat=format_time(NOW))
    assert present_cluster([former, present]) is present
    assert present_cluster([cluster("quiet")]) == cluster("quiet")
    assert present_cluster([cluster("quiet"), cluster("silent")]) is None
    assert present_cluster([]) is None

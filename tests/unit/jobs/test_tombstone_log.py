"""PULL-4: the log of tombstones, write by write: what each leaves in the cluster, and what is reported of it."""

import types
from collections.abc import Coroutine, Generator
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import Any

import pytest

from kubelab.clock import ManualClock
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden, NotFound, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.faults import Fault, calm, interruption
from tests.support.faulty_kube import FaultyKube
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.jobs.job_store import Tombstone
from vworkspace_core.jobs.store.codec import CorruptSecret, ForeignSecret, role_of, secret_manifest
from vworkspace_core.jobs.store.tombstones import (
    SEGMENT_BYTES,
    Segment,
    TombstoneEntry,
    TombstoneLog,
    encoded,
    read_segment,
    segment_manifest,
    segment_name,
)

NS = "vworkspace-system"
MANY = 1000


def entry(number: int, uid: str | None = None, *, outcome: str = "succeeded", closed_at: str = "t") -> TombstoneEntry:
    name = f"A/ns/a@{number}"
    return TombstoneEntry(Tombstone(name, outcome, "u", number, closed_at), f"uid-{number}" if uid is None else uid)


class Cluster:
    """An API server with the operator's namespace, and logs on it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = InProcessKube(ApiServer(now=self.clock.now, collects=True))
        self.faulty = FaultyKube(self.kube)
        self.reports: list[str] = []
        run_sync(self.kube.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup"))

    def log(
        self, size: int = MANY, remembered: int = MANY, lock: AbstractAsyncContextManager[Any] | None = None
    ) -> TombstoneLog:
        keep = timedelta(days=31)
        return TombstoneLog(self.faulty, NS, lock or nullcontext(), self.reports.append, keep, remembered, size)

    def stored(self) -> dict[int, list[TombstoneEntry]]:
        """The entries of each segment in the cluster."""
        secrets = run_sync(self.kube.list(SECRET, namespace=NS)).items
        segments = [read_segment(secret) for secret in secrets if role_of(secret)]
        return {segment.number: segment.entries for segment in segments if isinstance(segment, Segment)}

    def create(self, manifest: Manifest) -> None:
        run_sync(self.kube.create(manifest, kind=SECRET, field_manager="somebody"))

    def delete(self, number: int) -> None:
        run_sync(self.kube.delete(ObjectRef(SECRET, NS, segment_name(number))))


def remember(log: TombstoneLog, *entries: TombstoneEntry) -> None:
    for one in entries:
        run_sync(log.remember(one))


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_segment_grows_to_its_size_and_then_the_next_one_begins() -> None:
    cluster = Cluster()
    log = cluster.log(size=2)
    remember(log, *map(entry, range(1, 6)))

    assert cluster.stored() == {1: [entry(1), entry(2)], 2: [entry(3), entry(4)], 3: [entry(5)]}
    assert log.index.closed == {f"uid-{number}" for number in range(1, 6)}
    assert cluster.reports == []


def test_each_tombstone_costs_one_request_as_long_as_nobody_else_writes() -> None:
    """The version of what was written is known by the answer, so that nothing is read again."""
    cluster = Cluster()
    log, requests = cluster.log(size=3), []
    for number in range(1, 6):
        cluster.faulty.count = 0
        remember(log, entry(number))
        requests.append(cluster.faulty.count)

    assert requests == [1] * 5
    assert list(cluster.stored()) == [1, 2]


@pytest.mark.parametrize(("spare", "segments"), [(0, [1]), (1, [1, 2])])
def test_a_segment_grows_to_its_bytes(spare: int, segments: list[int]) -> None:
    empty = len(encoded([entry(1), entry(2, "")]))
    long = entry(2, "x" * (SEGMENT_BYTES - empty + spare))
    cluster = Cluster()
    remember(cluster.log(), entry(1), long)

    assert list(cluster.stored()) == segments
    assert [one for entries in cluster.stored().values() for one in entries] == [entry(1), long]


def test_an_entry_that_is_larger_than_a_segment_has_one_of_its_own() -> None:
    cluster = Cluster()
    log = cluster.log(size=0)
    remember(log, entry(1), entry(2))

    assert cluster.stored() == {1: [entry(1)], 2: [entry(2)]}


def test_a_tombstone_is_stored_once_for_each_record_that_it_closes() -> None:
    """Each record's uid has to be in the log: a crash may leave that record behind."""
    cluster = Cluster()
    log = cluster.log(size=2)
    for _ in range(2):
        remember(log, entry(1, "r1"), entry(1, "r2"), entry(1, "r3"))

    assert cluster.stored() == {1: [entry(1, "r1"), entry(1, "r2")], 2: [entry(1, "r3")]}
    assert log.index.closed == {"r1", "r2", "r3"}


def test_a_tombstone_without_a_record_is_stored_unless_only_its_time_is_new() -> None:
    cluster = Cluster()
    log = cluster.log()
    kept = [entry(1, ""), entry(1, "", outcome="noop")]
    remember(log, kept[0], entry(1, "", closed_at="later"), kept[1], entry(1, "", outcome="noop", closed_at="x"))

    assert cluster.stored() == {1: kept}


def test_a_tombstone_that_another_one_replaced_is_written_again() -> None:
    cluster = Cluster()
    log = cluster.log()
    story = [entry(1, ""), entry(1, "", outcome="noop"), entry(1, "")]
    remember(log, *story)

    assert cluster.stored() == {1: story}


def test_an_empty_segment_takes_what_is_larger_than_a_segment() -> None:
    cluster = Cluster()
    cluster.create(segment_manifest(NS, 4, encoded([])))
    log = cluster.log(size=0)
    log.take(map(read_segment, run_sync(cluster.kube.list(SECRET, namespace=NS)).items))
    remember(log, entry(1), entry(2))

    assert cluster.stored() == {4: [entry(1)], 5: [entry(2)]}


class Gate:
    """A lock whose turn comes when the test says so."""

    async def __aenter__(self) -> None:
        await _pause()

    async def __aexit__(self, *_: object) -> None:
        return None


@types.coroutine
def _pause() -> Generator[None]:
    yield


def ended(coroutine: Coroutine[Any, Any, None]) -> bool:
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False


def test_tombstones_that_wait_together_share_a_write_of_at_most_64() -> None:
    cluster = Cluster()
    log = cluster.log(lock=Gate())
    entries = [entry(number) for number in range(66)]
    waiting = [log.remember(one) for one in entries]
    assert not any(ended(one) for one in waiting)
    writes = []
    for one in waiting:
        cluster.faulty.count = 0
        assert ended(one)
        writes.append(cluster.faulty.count)

    assert writes == [1] + [0] * 63 + [1, 0]
    assert cluster.stored() == {1: entries}


def test_a_tombstone_that_waits_while_the_log_is_read_again_is_written() -> None:
    cluster = Cluster()
    log = cluster.log(lock=Gate())
    waiting = log.remember(entry(1))
    assert not ended(waiting)
    log.take([])
    assert ended(waiting)

    assert cluster.stored() == {1: [entry(1)]}


# --- answers that do not come -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
def test_a_write_without_an_answer_is_told_and_its_repetition_writes_once(after: bool) -> None:
    cluster = Cluster()
    log = cluster.log()
    for number in (1, 2, 3):
        cluster.faulty.strike_at(1, interruption(after=after, crash=False))
        with pytest.raises(Unavailable, match=r"^no answer$"):
            remember(log, entry(number))
        assert f"uid-{number}" not in log.index.closed, "it is not known to be durable"
        remember(log, entry(number))

    assert cluster.stored() == {1: [entry(1), entry(2), entry(3)]}
    assert log.index.closed == {"uid-1", "uid-2", "uid-3"}


def test_what_failed_is_not_written_by_the_next_one() -> None:
    cluster = Cluster()
    log = cluster.log()
    cluster.faulty.strike_at(1, interruption(after=False, crash=False))
    with pytest.raises(Unavailable):
        remember(log, entry(1))
    remember(log, entry(2))

    assert cluster.stored() == {1: [entry(2)]}


def _stale(request: KubeRequest) -> Fault | None:
    return Fault(Stale("changed")) if request.verb is KubeVerb.UPDATE else None


def test_a_log_that_others_write_all_the_time_is_tried_four_times() -> None:
    cluster = Cluster()
    log = cluster.log()
    remember(log, entry(1))
    cluster.faulty.schedule, cluster.faulty.count = _stale, 0
    why = "^the tombstones are being written by somebody else too: is a second operator at work\\?$"
    with pytest.raises(Unavailable, match=why):
        remember(log, entry(2))

    assert cluster.faulty.count == 4 + 3, "an update each, and a read before each but the first"
    cluster.faulty.schedule = calm
    remember(log, entry(2))
    assert cluster.stored() == {1: [entry(1), entry(2)]}


# --- what others do ---------------------------------------------------------------------------------------------------


def test_what_another_writer_added_is_kept_and_known() -> None:
    cluster = Cluster()
    one, two = cluster.log(), cluster.log()
    remember(one, entry(1))
    remember(two, entry(2))
    assert two.index.closed == {"uid-1", "uid-2"}, "the first segment was there"
    remember(one, entry(3))

    assert cluster.stored() == {1: [entry(1), entry(2), entry(3)]}
    assert one.index.closed == {"uid-1", "uid-2", "uid-3"}
    assert cluster.reports == []


def test_a_segment_that_somebody_deleted_is_made_again_with_all_that_it_had() -> None:
    cluster = Cluster()
    log = cluster.log()
    remember(log, entry(1))
    cluster.delete(1)
    remember(log, entry(2))
    remember(log, entry(3))

    assert cluster.stored() == {1: [entry(1), entry(2), entry(3)]}


def test_every_write_of_a_segment_is_the_operators() -> None:
    """Who made it, extended it or made it again is seen in its managed fields."""
    cluster = Cluster()
    log = cluster.log()
    found = []
    for number in range(1, 4):
        remember(log, entry(number))
        if number == 2:
            cluster.delete(1)
            remember(log, entry(9))
        secret = run_sync(cluster.kube.get(ObjectRef(SECRET, NS, segment_name(1))))
        found.append({each["manager"] for each in secret["metadata"]["managedFields"]})

    assert found == [{FIELD_MANAGER}] * 3


@pytest.mark.parametrize("deletes", [False, True])
def test_a_segment_is_only_written_over_what_was_read_of_it(deletes: bool) -> None:
    """After it was read again because an answer was lost, or made again because it was deleted."""
    cluster = Cluster()
    log = cluster.log()
    remember(log, entry(1))
    cluster.faulty.strike_at(1, interruption(after=False, crash=False))
    with pytest.raises(Unavailable):
        remember(log, entry(2))
    if deletes:
        cluster.delete(1)
    other = cluster.log()
    interfered: list[KubeRequest] = []

    def interfere(request: KubeRequest) -> Fault | None:
        if request.verb is KubeVerb.UPDATE and not interfered:
            interfered.append(request)
            cluster.faulty.schedule = calm
            remember(other, entry(9))
            cluster.faulty.schedule = interfere
        return None

    cluster.faulty.schedule = interfere
    remember(log, entry(3))

    assert cluster.stored() == {1: [entry(1), entry(9), entry(3)]}


def test_a_segment_that_another_process_makes_again_first_is_read() -> None:
    cluster = Cluster()
    log = cluster.log()
    remember(log, entry(1))
    cluster.faulty.strike_at(1, interruption(after=False, crash=False))
    with pytest.raises(Unavailable):
        remember(log, entry(2))
    cluster.delete(1)

    def away(request: KubeRequest) -> Fault | None:
        cluster.faulty.schedule = calm
        remember(cluster.log(), entry(9))
        return Fault(NotFound("gone"))

    cluster.faulty.schedule = away
    remember(log, entry(3))

    assert cluster.stored() == {1: [entry(1), entry(9), entry(3)]}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"v":2}', "it has format 2, this version reads 1"),
        (b'{"v":0}', "it does not say in which format it is"),
    ],
)
def test_a_segment_that_holds_something_else_is_left_and_the_next_one_begins(value: bytes, why: str) -> None:
    cluster = Cluster()
    log = cluster.log()
    remember(log, entry(1))
    update = segment_manifest(NS, 1, value)
    run_sync(cluster.kube.update(update, kind=SECRET, field_manager="somebody"))
    remember(log, entry(2))

    assert cluster.stored() == {2: [entry(2)]}
    assert cluster.reports == [f"Secret {NS}/{segment_name(1)} is not used any more: {why}"]
    assert log.index.closed == {"uid-1", "uid-2"}


@pytest.mark.parametrize(
    "manifest",
    [
        {**SECRET.manifest(segment_name(1), NS), "data": {"a": "Yg=="}},
        segment_manifest(NS, 1, b"{}"),
        segment_manifest(NS, 1, b'{"v":2}'),
        {**segment_manifest(NS, 1, encoded([])), "type": "Opaque"},
        secret_manifest(NS, segment_name(1), "part", b""),
    ],
)
def test_a_secret_in_the_place_of_a_segment_is_reported_and_passed_over(manifest: Manifest) -> None:
    cluster = Cluster()
    cluster.create(manifest)
    remember(cluster.log(), entry(1))

    assert cluster.stored() == {2: [entry(1)]}
    where = f"Secret {NS}/{segment_name(1)}"
    assert cluster.reports == [f"{where} is not used: it is in the way of the tombstones"]


def test_a_segment_that_goes_while_it_is_looked_at_is_created() -> None:
    cluster = Cluster()
    cluster.create(segment_manifest(NS, 1, encoded([entry(9)])))

    def away(request: KubeRequest) -> Fault | None:
        if request.verb is not KubeVerb.GET:
            return None
        cluster.delete(1)
        return Fault(NotFound("gone"))

    cluster.faulty.schedule = away
    remember(log := cluster.log(), entry(1))

    assert cluster.stored() == {1: [entry(1)]}
    assert log.index.closed == {"uid-1"}


# --- what is read and what is forgotten -------------------------------------------------------------------------------


def test_a_log_that_is_read_is_in_the_order_of_its_numbers_and_goes_on_after_the_last() -> None:
    cluster = Cluster()
    remember(cluster.log(size=1), entry(1), entry(1, "r2", outcome="noop"))
    found = [read_segment(secret) for secret in run_sync(cluster.kube.list(SECRET, namespace=NS)).items]
    log = cluster.log(size=1)
    remember(log, entry(7, "another"))
    log.take([ForeignSecret("f", "why"), *reversed(found), CorruptSecret("c", "because")])

    assert cluster.reports == [f"Secret {NS}/f is not used: why", f"Secret {NS}/c is not used: because"]
    assert log.index.by_key == {"A/ns/a@1": entry(1, outcome="noop").tombstone}, "the last one, and none of before"
    assert log.index.closed == {"uid-1", "r2"}
    cluster.delete(3)
    cluster.faulty.count = 0
    remember(log, entry(8))
    assert (list(cluster.stored()), cluster.faulty.count) == ([1, 2, 3], 1)
    log.take([])
    assert (log.index.by_key, log.index.closed) == ({}, set())


def test_a_segment_goes_31_days_after_the_next_one_began() -> None:
    cluster = Cluster()
    log = cluster.log(size=1)
    for number, days in ((1, 0), (2, 1), (3, 30), (4, 1)):
        cluster.clock.advance(days * 86_400)
        remember(log, entry(number))

    assert list(cluster.stored()) == [2, 3, 4]
    assert log.index.closed == {"uid-2", "uid-3", "uid-4"}
    assert log.index.by_key.keys() == {"A/ns/a@2", "A/ns/a@3", "A/ns/a@4"}
    assert cluster.reports == []


def test_too_many_tombstones_are_forgotten_early_and_their_number_is_told() -> None:
    cluster = Cluster()
    log = cluster.log(size=1, remembered=2)
    remember(log, entry(1), entry(2))
    assert cluster.reports == []
    remember(log, entry(3))

    assert list(cluster.stored()) == [2, 3]
    told = "1 tombstones are forgotten early: there are more than 2 of a month"
    assert cluster.reports == [told]
    remember(log, entry(4))
    assert list(cluster.stored()) == [3, 4]
    assert cluster.reports == [told, told]


def test_a_segment_that_cannot_be_deleted_is_told_and_tried_again_and_one_that_is_gone_is_not() -> None:
    cluster = Cluster()
    log = cluster.log(size=1, remembered=1)
    refused = Fault(Forbidden("may not"))
    cluster.faulty.schedule = lambda request: refused if request.verb is KubeVerb.DELETE else None
    remember(log, entry(1), entry(2))

    early = "{} tombstones are forgotten early: there are more than 1 of a month".format
    kept = f"Secret {NS}/{segment_name(1)} cannot be removed yet: may not"
    assert cluster.reports == [early(1), kept]
    remember(log, entry(3))
    assert cluster.reports == [early(1), kept, early(2), kept], "the first one only, each time"
    assert log.index.closed == {"uid-1", "uid-2", "uid-3"}, "they are still there"
    cluster.faulty.schedule = calm
    cluster.delete(1)
    remember(log, entry(4))
    assert list(cluster.stored()) == [4]
    assert log.index.closed == {"uid-4"}
    assert cluster.reports[4:] == [early(3)]

"""PULL-4: the records of open jobs in Secrets, request by request."""

import base64
import json
from typing import Any

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Permanent
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.faults import Fault, calm
from tests.unit.jobs.test_tombstone_log import NS, Cluster
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.jobs.store.codec import head_manifest, head_name, payload_of

SMALL = 40
"""Room for fewer bytes than a record of these tests has."""


class Stores(Cluster):
    """An API server, and stores on it whose requests are written down."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.faulty.schedule = self._noted

    def _noted(self, request: KubeRequest) -> Fault | None:
        self.asked.append(f"{request.verb} {request.name or (request.body or {}).get('metadata', {}).get('name', '')}")
        return None

    def store(self, room: int = 1_000_000) -> KubeJobStore:
        """A new process, which has read what there is."""
        store = KubeJobStore(self.faulty, NS, report=self.reports.append, room=room)
        run_sync(store.load())
        self.asked.clear()
        return store

    def put(self, store: KubeJobStore, record: JobRecord) -> list[str]:
        self.asked.clear()
        run_sync(store.put(record))
        return self.asked

    def heads(self) -> dict[str, dict[str, Any]]:
        secrets = run_sync(self.kube.list(SECRET, namespace=NS)).items
        values = {one["metadata"]["name"]: one["data"].get("record") for one in secrets}
        return {name: json.loads(base64.b64decode(value)) for name, value in values.items() if value}

    def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in run_sync(self.kube.list(SECRET, namespace=NS)).items]


def record(number: int = 1, text: str = "", **state: Any) -> JobRecord:
    return JobRecord(f"job-{number}", {"id": f"job-{number}", "text": text}, state)


ONE = head_name("job-1")


def test_records_are_numbered_in_the_order_of_their_arrival_also_by_the_next_process() -> None:
    cluster = Stores()
    first = cluster.store()
    for number in (2, 1):
        run_sync(first.put(record(number)))
    run_sync(first.put(record(2, a=1)))
    second = cluster.store()
    run_sync(second.put(record(3)))

    orders = {name: head["order"] for name, head in cluster.heads().items()}
    assert orders == {head_name("job-2"): 1, ONE: 2, head_name("job-3"): 3}
    assert [one.job_id for one in run_sync(cluster.store().load())] == ["job-2", "job-1", "job-3"]


def test_only_what_has_changed_is_written() -> None:
    cluster = Stores()
    store = cluster.store()

    assert cluster.put(store, record()) == [f"create {ONE}"]
    assert cluster.put(store, record()) == []
    assert cluster.put(store, record(a=1)) == [f"update {ONE}"]
    assert cluster.put(store, record(a=1)) == []
    assert cluster.put(store, record(text="x", a=1)) == [f"update {ONE}"]
    assert cluster.heads()[ONE]["raw"] == record(text="x").raw
    assert cluster.put(cluster.store(), record(text="x", a=1)) == [], "the next process knows it too"


def test_a_record_in_parts_becomes_whole_where_there_is_room_and_its_parts_go() -> None:
    cluster = Stores()
    long = record(text="x" * 50)
    asked = cluster.put(cluster.store(room=SMALL), long)
    parts = [name for name in cluster.names() if name != ONE]
    assert asked == [f"create {ONE}", *(f"create {name}" for name in sorted(parts)), f"update {ONE}"]
    assert (len(parts), cluster.heads()[ONE]["parts"]) == (2, sorted(parts))

    asked = cluster.put(cluster.store(), long)
    assert asked[0] == f"update {ONE}"
    assert sorted(asked[1:]) == sorted(f"delete {name}" for name in parts)
    assert cluster.names() == [ONE]
    assert cluster.heads()[ONE]["raw"] == long.raw
    cluster.put(cluster.store(room=SMALL), long)
    assert len(cluster.names()) == 3


def test_a_head_that_was_never_completed_is_completed_by_whoever_finds_it() -> None:
    cluster = Stores()
    store, one = cluster.store(), record(text="x" * 50)
    cluster.create(head_manifest(NS, one, payload_of(one, room=SMALL), 7, whole=False))

    assert cluster.put(store, one) == [f"create {ONE}", f"get {ONE}", f"update {ONE}"]
    head = cluster.heads()[ONE]
    assert (head["order"], head["raw"], "whole" in head) == (7, one.raw, False)


def test_a_store_that_is_loaded_again_forgets_what_is_gone() -> None:
    cluster = Stores()
    store = cluster.store()
    run_sync(store.put(record()))
    run_sync(cluster.kube.delete(ObjectRef(SECRET, NS, ONE)))

    assert list(run_sync(store.load())) == []
    assert cluster.put(store, record()) == [f"create {ONE}"]


def test_a_record_that_another_process_wrote_anew_is_not_deleted_with_the_former_one() -> None:
    cluster = Stores()
    store = cluster.store()
    run_sync(store.put(record()))
    run_sync(cluster.kube.delete(ObjectRef(SECRET, NS, ONE)))
    run_sync(cluster.store().put(record(text="new")))
    run_sync(store.close("job-1", None))

    assert cluster.heads()[ONE]["raw"] == record(text="new").raw


def test_a_secret_in_the_place_of_a_part_is_named_unless_it_holds_that_part() -> None:
    cluster = Stores()
    store, long = cluster.store(room=SMALL), record(text="x" * 50)
    in_the_way: list[str] = []

    def stranger(request: KubeRequest) -> Fault | None:
        body: Any = request.body
        if request.verb is KubeVerb.CREATE and "part" in body["data"]:
            cluster.faulty.schedule = calm
            in_the_way.append(body["metadata"]["name"])
            cluster.create({**body, "data": {"part": "eA=="}})
        return None

    cluster.faulty.schedule = stranger
    with pytest.raises(Permanent) as refused:
        run_sync(store.put(long))
    assert refused.value.message == f"Secret {NS}/{in_the_way[0]} is in the way and is no part of a job"

    run_sync(cluster.kube.delete(ObjectRef(SECRET, NS, in_the_way[0])))
    run_sync(store.put(long))
    assert list(run_sync(cluster.store(room=SMALL).load())) == [long]


def test_a_store_that_has_read_nothing_yet_reads_before_it_closes_a_job() -> None:
    """It then knows which jobs are closed already, and closes none twice."""
    cluster = Stores()
    first = cluster.store()
    run_sync(first.put(record(1)))
    run_sync(first.put(record(2)))
    run_sync(first.close("job-1", Tombstone("key-1", "Succeeded")))
    unread = KubeJobStore(cluster.faulty, NS, report=cluster.reports.append)
    cluster.asked.clear()
    run_sync(unread.close("job-1", Tombstone("key-1", "Succeeded")))
    assert not [asked for asked in cluster.asked if asked.split()[0] not in ("get", "list")]
    run_sync(unread.close("job-2", Tombstone("key-2", "Succeeded")))

    third = cluster.store()
    found = [run_sync(third.tombstone(f"key-{number}")) for number in (1, 2)]
    assert [None if one is None else one.outcome for one in found] == ["Succeeded", "Succeeded"]
    assert run_sync(third.load()) == []

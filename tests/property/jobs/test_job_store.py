"""The job store in Secrets: atomic under crashes at every call, bounded, and deaf to strangers (PULL-4)."""

import base64
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubelab.clock import ManualClock
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import OperatorError, Permanent, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube_run.simulation.faults import Crash, Fault, calm, interruption
from tests.support.faulty_kube import FaultyKube
from tests.support.memory_job_store import MemoryJobStore
from vworkspace_core.api import labels
from vworkspace_core.jobs.job_store import JobRecord, JobStore, Tombstone
from vworkspace_core.jobs.result import JobOutcome
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.jobs.store.codec import SECRET_TYPE, head_name
from vworkspace_core.jobs.store.tombstones import segment_name

NS = "vworkspace-system"
KEY = "ApplicationInstance/org-myteam/nextcloud"
ROOM = 300
LARGE = "0123456789" * 80
"""More than two of these stores' Secrets hold; the conformance suite stores what real ones do not hold."""


class Cluster:
    """An API server with the operator's namespace, and stores on it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = InProcessKube(ApiServer(now=self.clock.now, collects=True))
        self.faulty = FaultyKube(self.kube)
        self.reports: list[str] = []
        run_sync(self.kube.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup"))

    def store(self, **options: Any) -> KubeJobStore:
        """A new process."""
        return KubeJobStore(self.faulty, NS, report=self.reports.append, room=ROOM, **options)

    def secrets(self) -> list[Manifest]:
        return list(run_sync(self.kube.list(SECRET, namespace=NS)).items)

    def create(self, name: str, data: dict[str, bytes], **fields: Any) -> None:
        """A Secret of somebody's."""
        made = {**SECRET.manifest(name, NS), "data": {k: base64.b64encode(v).decode() for k, v in data.items()}}
        run_sync(self.kube.create({**made, **fields}, kind=SECRET, field_manager="somebody"))

    def delete(self, name: str) -> None:
        run_sync(self.kube.delete(ObjectRef(SECRET, NS, name)))


def record(number: int = 1, text: str = "", intent: str | None = None) -> JobRecord:
    state = {} if intent is None else {"intent": {"uid": intent}}
    return JobRecord(f"job-{number}", {"id": f"job-{number}", "payload": {"text": text}}, state)


def tombstone(generation: int = 1, uid: str = "uid", key: str = KEY) -> Tombstone:
    return Tombstone(f"{key}@{generation}", "succeeded", uid, generation, "2026-01-01T00:00:00Z")


@attrs.frozen
class Kept:
    """All that a store promises to keep."""

    records: tuple[JobRecord, ...]
    tombstones: tuple[Tombstone | None, ...]


KEYS = [f"{KEY}@{generation}" for generation in range(1, 7)]


def kept(store: JobStore) -> Kept:
    records = tuple(run_sync(_load(store)))
    tombstones = [run_sync(store.tombstone(key)) for key in KEYS]
    bare = [found and attrs.evolve(found, closed_at="") for found in tombstones]
    return Kept(tuple(sorted(records, key=lambda found: found.job_id)), tuple(bare))


async def _load(store: JobStore) -> list[JobRecord]:
    return list(await store.load())


Step = Callable[[JobStore], Awaitable[None]]

STORIES: dict[str, list[Step]] = {
    "a job": [
        lambda s: s.put(record()),
        lambda s: s.put(record(intent="u")),
        lambda s: s.close("job-1", tombstone()),
    ],
    "a large job": [
        lambda s: s.put(record(text=LARGE)),
        lambda s: s.put(record(text=LARGE, intent="u")),
        lambda s: s.close("job-1", tombstone()),
    ],
    "a large job that becomes small": [
        lambda s: s.put(record(text=LARGE)),
        lambda s: s.put(record(text="small")),
        lambda s: s.put(record(text=LARGE[:-1])),
        lambda s: s.close("job-1", None),
    ],
    "a job again after its end": [
        lambda s: s.put(record()),
        lambda s: s.close("job-1", tombstone()),
        lambda s: s.put(record(text="again")),
        lambda s: s.close("job-1", tombstone(uid="other")),
    ],
}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("crash", [True, False], ids=["crash", "no answer"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_cut_at_any_call_leaves_what_was_or_what_was_to_be_PULL_4(name: str, after: bool, crash: bool) -> None:
    """The law of every write: all or nothing, seen by the process that comes after it and by the one that goes on."""
    story = STORIES[name]
    model = MemoryJobStore(longest=4_000_000)
    states = [kept(model)]
    for step in story:
        run_sync(_done(step(model)))
        states.append(kept(model))
    cluster = Cluster()
    undisturbed = cluster.store()
    run_sync(_done(undisturbed.load()))
    cluster.faulty.count = 0
    for step in story:
        run_sync(_done(step(undisturbed)))
    trace = cluster.faulty.count
    assert trace >= len(story)

    for number in range(1, trace + 1):
        cluster = Cluster()
        store = cluster.store()
        run_sync(_done(store.load()))
        cluster.faulty.strike_at(number, interruption(after=after, crash=crash))
        done = 0
        with suppress(Crash, Unavailable):
            for step in story:
                run_sync(_done(step(store)))
                done += 1
        cluster.faulty.schedule = calm
        # A cut in the work after the commit may be swallowed: then the story went on to its end.
        assert kept(cluster.store()) in states[done : done + 2], f"call {number} of {trace}, step {done + 1}"
        survivor = cluster.store() if crash else store
        for step in story[min(done, len(story) - 1) :]:
            run_sync(_done(step(survivor)))
        assert kept(cluster.store()) == states[-1], f"call {number} of {trace}"
        left = [manifest["metadata"]["name"] for manifest in cluster.secrets()]
        assert all(name.startswith("vworkspace-job-tombstones-") for name in left), "nothing is left behind"


async def _done(call: Awaitable[Any]) -> None:
    await call


@pytest.mark.parametrize("jobs", [49, 50, 51, 101])
def test_a_store_of_several_pages_is_loaded_whole_and_in_order_PULL_4(jobs: int) -> None:
    cluster = Cluster()
    first = cluster.store()
    for number in range(jobs):
        run_sync(first.put(record(number)))

    assert [found.job_id for found in run_sync(_load(cluster.store()))] == [f"job-{n}" for n in range(jobs)]
    assert cluster.reports == []


def test_tombstones_are_kept_for_a_month_and_then_go_by_the_segment_PULL_4() -> None:
    cluster = Cluster()
    store = cluster.store(segment=4)
    gone = []
    for day in range(80):
        run_sync(store.close(f"job-{day}", tombstone(day + 1)))
        there = [d for d in range(day + 1) if run_sync(store.tombstone(f"{KEY}@{d + 1}"))]
        assert set(range(max(0, day - 29), day + 1)) <= set(there), "thirty days at least"
        assert len(there) <= 45, "and not for ever"
        gone.append(len(there) <= day)
        cluster.clock.advance(86_400)
    assert any(gone)
    assert kept(cluster.store()) == kept(store)
    assert run_sync(store.newest(KEY)) == tombstone(80)


def test_a_store_that_remembers_too_much_forgets_the_oldest_and_says_so_PULL_4() -> None:
    cluster = Cluster()
    store = cluster.store(segment=4, remembered=12)
    for number in range(40):
        run_sync(store.close(f"job-{number}", tombstone(number + 1)))
    there = [n for n in range(40) if run_sync(store.tombstone(f"{KEY}@{n + 1}"))]
    assert there == list(range(40 - len(there), 40))
    assert 12 <= len(there) <= 16
    assert any("tombstones are forgotten early" in report for report in cluster.reports)
    assert len(cluster.secrets()) <= 4


def test_the_newest_of_an_object_is_right_also_after_older_ones_were_forgotten() -> None:
    cluster = Cluster()
    store = cluster.store(segment=1, remembered=2)
    for generation in (9, 3, 4):
        run_sync(store.close(f"job-{generation}", tombstone(generation)))
    newest = run_sync(store.newest(KEY))
    assert newest is not None
    assert newest.generation == 4


def test_two_writers_are_noticed_and_neither_loses_a_tombstone() -> None:
    cluster = Cluster()
    one, two = cluster.store(), cluster.store()
    for store in (one, two):
        run_sync(_done(store.load()))
    for generation in range(1, 7):
        store = one if generation % 2 else two
        run_sync(store.close(f"job-{generation}", tombstone(generation)))
    assert all(run_sync(cluster.store().tombstone(key)) for key in KEYS)


def test_a_second_writer_of_a_record_is_noticed_and_named_and_then_the_record_is_read_again() -> None:
    cluster = Cluster()
    one, two = cluster.store(), cluster.store()
    run_sync(one.put(record()))
    run_sync(_done(two.load()))
    run_sync(two.put(record(intent="by two")))
    with pytest.raises(Unavailable, match="was changed by another writer: is a second operator at work"):
        run_sync(one.put(record(intent="by one")))
    run_sync(one.put(record(intent="by one")))
    assert kept(cluster.store()).records == (record(intent="by one"),)


def test_what_somebody_deletes_is_written_again() -> None:
    cluster = Cluster()
    store = cluster.store()
    run_sync(store.put(record()))
    run_sync(store.close("job-2", tombstone(1)))
    cluster.delete(head_name("job-1"))
    cluster.delete(segment_name(1))

    with pytest.raises(Unavailable, match="was deleted by somebody"):
        run_sync(store.put(record(intent="u")))
    run_sync(store.put(record(intent="u")))
    run_sync(store.close("job-3", tombstone(2)))

    found = kept(cluster.store())
    assert found.records == (record(intent="u"),)
    assert [t and t.generation for t in found.tombstones[:2]] == [1, 2]


BAD: list[dict[str, Any]] = [
    {},
    {"record": b""},
    {"record": b"\xff"},
    {"record": b"[]"},
    {"record": b'{"v":1}'},
    {"record": b'{"v":1,"order":"a","state":{},"digest":""}'},
    {"record": b'{"v":1,"order":1,"state":[],"digest":"","raw":{}}'},
    {"record": b'{"v":1,"order":1,"state":{},"digest":"","raw":[]}'},
    {"record": b'{"v":1,"order":1,"state":{},"digest":"x","parts":["gone"],"whole":true}'},
    {"record": b'{"v":1,"order":1,"state":{},"digest":"x","parts":[7],"whole":true}'},
    {"record": b'{"v":1,"order":1,"state":{},"digest":"x","parts":[],"whole":true}'},
]


@pytest.mark.parametrize("data", BAD, ids=str)
def test_an_open_job_whose_record_is_damaged_is_answered_and_hides_no_other_PULL_4(data: dict[str, bytes]) -> None:
    cluster = Cluster()
    run_sync(cluster.store().put(record(2)))
    name = head_name("job-1")
    meta = {"labels": {labels.JOB_STORE: "record"}, "annotations": {labels.JOB_ID: "job-1"}}
    cluster.create(name, data, type=SECRET_TYPE, metadata={"name": name, "namespace": NS, **meta})

    good, bad = run_sync(_load(store := cluster.store()))

    assert good == record(2)
    assert (bad.job_id, bad.state["verdict"]["outcome"]) == ("job-1", JobOutcome.FAILED.value)
    assert bad.state["verdict"]["error"].startswith(f"RecordDamaged: Secret {name} cannot be read (")
    assert any(f"Secret {NS}/{name} is not used" in report for report in cluster.reports)
    run_sync(store.close("job-1", None))
    assert kept(cluster.store()).records == (record(2),)


STRANGERS: list[tuple[str, dict[str, Any], dict[str, bytes]]] = [
    ("somebodys", {"labels": {labels.JOB_STORE: "record"}}, {"type": b"Opaque"}),
    ("no-name-of-ours", {"labels": {labels.JOB_STORE: "record"}}, {"record": b"{}"}),
    ("vworkspace-job-" + "a" * 40, {"labels": {labels.JOB_STORE: "record"}}, {"record": b'{"v":2}'}),
    ("part-of-nothing", {"labels": {labels.JOB_STORE: "part"}}, {}),
    ("another-role", {"labels": {labels.JOB_STORE: "lease"}}, {"lease": b"x"}),
    ("not-a-segment", {"labels": {labels.JOB_STORE: "tombstones"}}, {"tombstones": b"{}"}),
    (segment_name(7), {"labels": {labels.JOB_STORE: "tombstones"}}, {"tombstones": b'{"v":1,"entries":[[1]]}'}),
    (segment_name(1), {"labels": {labels.JOB_STORE: "tombstones"}}, {"tombstones": b'{"v":9,"entries":[]}'}),
    (segment_name(1), {}, {"password": b"hunter2"}),
]


@pytest.mark.parametrize(
    ("name", "meta", "data"), STRANGERS, ids=[f"{s[0][-24:]}-{n}" for n, s in enumerate(STRANGERS)]
)
def test_bad_and_foreign_secrets_are_left_alone_and_named_and_stop_nothing_PULL_4(
    name: str, meta: dict[str, Any], data: dict[str, bytes]
) -> None:
    cluster = Cluster()
    kind = "Opaque" if "type" in data or "password" in data else SECRET_TYPE
    cluster.create(name, data, type=kind, metadata={"name": name, "namespace": NS, **meta})
    before = [manifest for manifest in cluster.secrets() if manifest["metadata"]["name"] == name]

    store = cluster.store()
    run_sync(store.put(record()))
    run_sync(store.close("job-2", tombstone()))

    assert kept(cluster.store()) == Kept((record(),), (tombstone_bare(), *[None] * 5))
    assert [manifest for manifest in cluster.secrets() if manifest["metadata"]["name"] == name] == before
    assert any(f"Secret {NS}/{name} is not used: " in report for report in cluster.reports)
    assert not any("hunter2" in report for report in cluster.reports)


def tombstone_bare() -> Tombstone:
    return attrs.evolve(tombstone(), closed_at="")


def test_a_stranger_in_the_place_of_a_record_is_named_with_what_to_do() -> None:
    cluster = Cluster()
    cluster.create(head_name("job-1"), {"password": b"hunter2"}, type="Opaque")
    store = cluster.store()
    with pytest.raises(Permanent, match=f"Secret {NS}/{head_name('job-1')} is in the way of job job-1.*: delete it"):
        run_sync(store.put(record()))
    run_sync(store.put(record(2)))
    cluster.delete(head_name("job-1"))
    run_sync(store.put(record()))
    assert kept(cluster.store()).records == (record(), record(2))


def test_payloads_show_in_no_repr_and_no_report() -> None:
    cluster = Cluster()
    store = cluster.store()
    run_sync(store.put(record(text="hunter2")))
    run_sync(_done(store.load()))
    assert "hunter2" not in repr(store._heads)
    assert "hunter2" not in repr(store._tombstones)
    assert not cluster.reports


def test_a_record_is_readable_with_kubectl() -> None:
    cluster = Cluster()
    run_sync(cluster.store().put(record(intent="u")))
    (secret,) = cluster.secrets()
    assert (secret["type"], secret["metadata"]["annotations"][labels.JOB_ID]) == (SECRET_TYPE, "job-1")
    shown = json.loads(base64.b64decode(secret["data"]["record"]))
    assert (shown["raw"], shown["state"]) == (record().raw, {"intent": {"uid": "u"}})


def test_a_tombstone_that_comes_again_after_another_of_its_key_counts_again() -> None:
    cluster = Cluster()
    store = cluster.store()
    for uid in "bab":
        run_sync(store.close("job-1", tombstone(uid=uid)))
    for one in (store, cluster.store()):
        found = run_sync(one.tombstone(f"{KEY}@1"))
        assert found is not None
        assert found.object_uid == "b"


CUTS = st.none() | st.builds(interruption, after=st.booleans(), crash=st.booleans())


class AgainstMemory(RuleBasedStateMachine):
    """The store in Secrets under faults keeps what the store in memory keeps without any."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.store = self.cluster.store(segment=3)
        self.model = MemoryJobStore(longest=4_000_000)

    def _both(self, step: Step, cut: Fault | None, number: int) -> None:
        before = kept(self.model)
        run_sync(_done(step(self.model)))
        if cut is not None:
            self.cluster.faulty.strike_at(number, cut)
        for _ in range(3):
            try:
                run_sync(_done(step(self.store)))
            except Crash:
                self.cluster.faulty.schedule = calm
                self.store = self.cluster.store(segment=3)
                assert kept(self.store) in (before, kept(self.model))
            except OperatorError:
                continue
            else:
                break
        else:
            raise AssertionError("the store does not recover")
        self.cluster.faulty.schedule = calm

    @rule(
        number=st.integers(1, 3),
        large=st.booleans(),
        intent=st.sampled_from([None, "u", "v"]),
        cut=CUTS,
        at=st.integers(1, 6),
    )
    def put(self, number: int, large: bool, intent: str | None, cut: Fault | None, at: int) -> None:
        desired = record(number, LARGE if large else "", intent)
        self._both(lambda store: store.put(desired), cut, at)

    @rule(
        number=st.integers(1, 3),
        generation=st.integers(0, 6),
        uid=st.sampled_from("ab"),
        cut=CUTS,
        at=st.integers(1, 4),
    )
    def close(self, number: int, generation: int, uid: str, cut: Fault | None, at: int) -> None:
        left = tombstone(generation, uid) if generation else None
        self._both(lambda store: store.close(f"job-{number}", left), cut, at)

    @rule()
    def crash(self) -> None:
        self.store = self.cluster.store(segment=3)

    @rule()
    def load(self) -> None:
        assert kept(self.store) == kept(self.model)

    @invariant()
    def a_new_process_finds_what_the_model_has(self) -> None:
        assert kept(self.cluster.store()) == kept(self.model)


TestAgainstMemory = AgainstMemory.TestCase
TestAgainstMemory.settings = settings(max_examples=settings().max_examples, stateful_step_count=12, deadline=None)

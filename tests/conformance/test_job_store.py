"""What the `JobStore` port promises, on every implementation of it: in memory, and in Secrets in process and over HTTP.

`on.open()` is a new process on the same ground: it knows what is durable and nothing else (PULL-4).
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Invalid
from tests.support.kube_ports import FACES, Examined, Open, examine
from tests.support.memory_job_store import MemoryJobStore
from vworkspace_core.jobs.job_store import JobRecord, JobStore, Tombstone
from vworkspace_core.jobs.store import KubeJobStore

KEY = "ApplicationInstance/org-myteam/nextcloud"
LONGEST = 1_500_000
"""Bytes of the longest record that these stores take: more than one Secret holds."""


@attrs.frozen
class Ground:
    """Where a store keeps what it keeps."""

    open: Callable[[], JobStore]


Check = Callable[[Ground], Awaitable[None]]


def record(number: int, **fields: Any) -> JobRecord:
    return JobRecord(f"job-{number}", {"id": f"job-{number}", "kind": "apply", "payload": {"n": number, **fields}})


def tombstone(generation: int = 1, outcome: str = "succeeded", uid: str = "uid-1") -> Tombstone:
    return Tombstone(f"{KEY}@{generation}", outcome, uid, generation, "2026-01-01T00:00:00Z")


async def records_come_back_as_they_were_oldest_first(on: Ground) -> None:
    store = on.open()
    for number in (3, 1, 2):
        await store.put(record(number, text="ü 😀 \n", deep=[{"a": [1, 2.5, None, True]}], big=2**63))
    found = await on.open().load()
    assert [one.job_id for one in found] == ["job-3", "job-1", "job-2"]
    assert found[0] == record(3, text="ü 😀 \n", deep=[{"a": [1, 2.5, None, True]}], big=2**63)


async def a_record_is_replaced_and_keeps_its_place(on: Ground) -> None:
    store = on.open()
    for number in (1, 2):
        await store.put(record(number))
    changed = attrs.evolve(record(1), state={"intent": {"uid": "u"}})
    await store.put(changed)
    assert list(await on.open().load()) == [changed, record(2)]


async def a_job_may_have_any_id(on: Ground) -> None:
    ids = ["ns/job 1?#%", "A", "a", "x" * 512, "наряд-7", "..-"]
    store = on.open()
    for name in ids:
        await store.put(JobRecord(name, {"id": name}))
    assert [one.job_id for one in await on.open().load()] == ids


async def a_large_record_comes_back_whole_and_can_change(on: Ground) -> None:
    store = on.open()
    large = record(1, text="0123456789" * 120_000)
    await store.put(large)
    assert list(await on.open().load()) == [large]
    intended = attrs.evolve(large, state={"intent": {"uid": "u"}})
    await store.put(intended)
    assert list(await on.open().load()) == [intended]
    await store.put(record(1))
    assert list(await on.open().load()) == [record(1)]
    await store.close("job-1", None)
    assert list(await on.open().load()) == []


async def a_record_that_is_too_large_is_refused_with_its_size(on: Ground) -> None:
    store = on.open()
    with pytest.raises(Invalid) as refused:
        await store.put(record(1, text="x" * LONGEST))
    assert "job-1" in str(refused.value)
    assert str(LONGEST) in str(refused.value)
    assert list(await on.open().load()) == []


async def a_tombstone_outlives_the_record(on: Ground) -> None:
    store = on.open()
    await store.put(record(1))
    await store.close("job-1", tombstone())
    for one in (store, on.open()):
        assert await one.tombstone(f"{KEY}@1") == tombstone()
        assert await one.newest(KEY) == tombstone()
        assert await one.tombstone(f"{KEY}@2") is None
        assert await one.newest("ApplicationInstance/org-myteam/other") is None
    assert list(await on.open().load()) == []


async def a_record_without_an_effect_leaves_nothing(on: Ground) -> None:
    store = on.open()
    await store.put(record(1))
    await store.close("job-1", None)
    assert list(await on.open().load()) == []
    assert await on.open().tombstone(f"{KEY}@1") is None


async def closing_again_changes_nothing(on: Ground) -> None:
    store = on.open()
    await store.put(record(1))
    for one in (store, store, on.open()):
        await one.close("job-1", tombstone())
    assert list(await on.open().load()) == []
    assert await on.open().newest(KEY) == tombstone()


async def the_highest_generation_is_the_newest_whatever_came_last(on: Ground) -> None:
    store = on.open()
    for generation in (2, 10, 9):
        await store.close(f"job-{generation}", tombstone(generation))
    await store.close("job-hash", Tombstone("a-stable-hash", "succeeded"))
    for one in (store, on.open()):
        newest = await one.newest(KEY.upper())
        assert newest is not None
        assert newest.generation == 10


async def the_last_tombstone_of_a_key_counts(on: Ground) -> None:
    store = on.open()
    await store.put(record(1))
    await store.close("job-1", tombstone(uid="old"))
    await store.put(record(2))
    await store.close("job-2", tombstone(uid="new"))
    for one in (store, on.open()):
        found = await one.tombstone(f"{KEY}@1")
        assert found is not None
        assert found.object_uid == "new"


async def a_job_that_comes_again_after_its_end_has_a_record_again(on: Ground) -> None:
    store = on.open()
    await store.put(record(1))
    await store.close("job-1", tombstone())
    await store.put(record(1))
    assert list(await on.open().load()) == [record(1)]


async def a_new_process_goes_on_where_the_old_one_stopped(on: Ground) -> None:
    await on.open().put(record(1))
    store = on.open()
    await store.load()
    changed = attrs.evolve(record(1), state={"intent": {"uid": ""}})
    await store.put(changed)
    await store.put(record(2))
    assert list(await on.open().load()) == [changed, record(2)]
    await on.open().close("job-1", tombstone())
    assert list(await on.open().load()) == [record(2)]


CHECKS: list[Check] = [
    records_come_back_as_they_were_oldest_first,
    a_record_is_replaced_and_keeps_its_place,
    a_job_may_have_any_id,
    a_large_record_comes_back_whole_and_can_change,
    a_record_that_is_too_large_is_refused_with_its_size,
    a_tombstone_outlives_the_record,
    a_record_without_an_effect_leaves_nothing,
    closing_again_changes_nothing,
    the_highest_generation_is_the_newest_whatever_came_last,
    the_last_tombstone_of_a_key_counts,
    a_job_that_comes_again_after_its_end_has_a_record_again,
    a_new_process_goes_on_where_the_old_one_stopped,
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_store_in_secrets_keeps_its_promise_about(face: Open, check: Check) -> None:
    async def on(examined: Examined) -> None:
        await check(Ground(lambda: KubeJobStore(examined.api, examined.namespace, longest=LONGEST)))

    examine(face, on)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_store_in_memory_keeps_its_promise_about(check: Check) -> None:
    async def main() -> None:
        memory_job_store = MemoryJobStore(longest=LONGEST)
        await check(Ground(lambda: memory_job_store))

    run_sync(main())


def test_every_check_is_run() -> None:
    own = {function for function in globals().values() if inspect.iscoroutinefunction(function)}
    assert own == set(CHECKS)

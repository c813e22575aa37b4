"""The job store's tombstones when many jobs close at once (PULL-4)."""

import base64

import anyio
import pytest

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import NAMESPACE, SECRET
from purekube.ports import KubeApi, KubeRequest, Send
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.store import KubeJobStore

NS = "vworkspace-system"
AT_ONCE = 50
LIFE = 10_000


class Distant(KubeApi):
    """An API server some way off: every call takes a moment, and is counted."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api.through(self._travel).transport)
        self.calls: list[str] = []

    async def _travel(self, request: KubeRequest, proceed: Send) -> Manifest:
        self.calls.append(request.verb)
        await anyio.sleep(0.005)
        return await proceed(request)


def tombstone(number: int) -> Tombstone:
    key = f"ApplicationInstance/org-{number % 100}/application-{number // 100}@1"
    return Tombstone(key, "succeeded", f"a2b1b1a2-0000-4000-8000-{number:012}", 1, "2026-01-01T00:00:00Z")


@pytest.mark.slow
@run_by(run)
async def test_jobs_that_close_together_share_a_write_and_ten_thousand_tombstones_fit_PULL_4() -> None:
    kube = InProcessKube(ApiServer(now=VirtualClock().now))
    await kube.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup")
    distant = Distant(kube)
    store = KubeJobStore(distant, NS, lock=anyio.Lock())
    for start in range(0, LIFE, AT_ONCE):
        async with anyio.create_task_group() as group:
            for number in range(start, start + AT_ONCE):
                group.start_soon(store.close, f"job-{number}", tombstone(number))
    writes = sum(call in ("create", "update") for call in distant.calls)
    assert writes <= 2 * LIFE / AT_ONCE, "one write for the first, one for all that came meanwhile"

    secrets = (await kube.list(SECRET, namespace=NS)).items
    assert 40 <= len(secrets) <= 50
    assert max(len(base64.b64decode(secret["data"]["tombstones"])) for secret in secrets) < 100_000
    again = KubeJobStore(distant, NS)
    assert list(await again.load()) == []
    distant.calls.clear()
    for number in range(LIFE):
        desired = tombstone(number)
        assert await again.tombstone(desired.idempotency_key) == desired
        assert await again.newest(desired.idempotency_key.partition("@")[0]) == desired
    assert distant.calls == [], "what is remembered is asked of memory"


@run_by(run)
async def test_one_who_closes_while_a_write_fails_is_told_and_the_others_get_through() -> None:
    kube = InProcessKube(ApiServer(now=VirtualClock().now))
    await kube.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup")
    store = KubeJobStore(Distant(kube), NS, lock=anyio.Lock())
    await store.put(JobRecord("job-0", {"id": "job-0"}))
    with anyio.move_on_after(0.002):
        await store.close("job-0", tombstone(0))
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(store.close, f"job-{number}", tombstone(number))
    again = KubeJobStore(kube, NS)
    assert list(await again.load()) == []
    assert all([await again.tombstone(tombstone(number).idempotency_key) for number in range(5)])

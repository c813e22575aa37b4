"""RUN-4: a write leaves only while the lease is held, asked at the last moment at which anybody can ask."""

import asyncio
from collections.abc import Callable

import anyio
import pytest

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.resources import HELM_RELEASE
from purekube_http import KubeApiClient
from purekube_run.controller.election import Fence
from tests.e2e.test_kube_adapter_edges import MANIFEST, RELEASE, config_of
from tests.support.scripted_server import Request, reply, wire

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def opened(until: float, now: Callable[[], float]) -> Fence:
    fence = Fence(now)
    fence.until = until
    return fence


def test_the_fence_closes_by_itself_when_its_time_is_over() -> None:
    now = 5.0
    fence = opened(10.0, lambda: now)
    fence.check()

    now = 10.0

    with pytest.raises(Unavailable, match="the lease is not held") as caught:
        fence.check()
    assert not caught.value.may_have_happened


async def test_a_write_that_waited_for_a_connection_does_not_leave_once_the_lease_is_over() -> None:
    gate, now = asyncio.Event(), 0.0

    async def slowly(request: Request, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await reply(MANIFEST)(request, writer)

    fence = opened(10.0, lambda: now)
    async with wire() as peer:
        peer.scripts.append(slowly)
        async with KubeApiClient(config_of(peer.url), connections=1, before_write=fence.check) as api:
            refused = list[Unavailable]()

            async def write() -> None:
                try:
                    await api.delete(RELEASE)
                except Unavailable as error:
                    refused.append(error)

            async with anyio.create_task_group() as group:
                group.start_soon(api.get, RELEASE)
                while not peer.requests:
                    await anyio.sleep(0.005)
                group.start_soon(write)
                await anyio.wait_all_tasks_blocked()
                now = 11.0  # the lease runs out while the write stands in the queue of the pool
                gate.set()

    assert [request.method for request in peer.requests] == ["GET"]
    assert [error.may_have_happened for error in refused] == [False]


async def test_a_request_that_has_a_connection_does_not_leave_once_the_lease_is_over() -> None:
    """The pause of a process can fall anywhere; head and body leave together, and the fence is asked right before."""
    looks = 0

    def fence() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:  # first of all, and when the bytes are to leave
            raise Unavailable("the lease is not held", may_have_happened=False)

    async with wire() as peer:
        peer.scripts.append(reply(MANIFEST))
        async with KubeApiClient(config_of(peer.url), before_write=fence) as api:
            with pytest.raises(Unavailable, match="lease") as caught:
                await api.create(MANIFEST, kind=HELM_RELEASE, field_manager="m")
            assert not peer.requests, "half a request is no request"
            await api.get(RELEASE)

    assert looks == 2
    assert not caught.value.may_have_happened
    assert [request.method for request in peer.requests] == ["GET"], "the connection with half a request is not used"


async def test_reads_pass_a_closed_fence() -> None:
    async with wire(reply(MANIFEST)) as peer, KubeApiClient(config_of(peer.url), before_write=Fence().check) as api:
        assert await api.get(RELEASE) == MANIFEST

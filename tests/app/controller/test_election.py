"""RUN-4: the election as it runs, against the embedded API server in process and under virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import attrs
import pytest
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Forbidden, OperatorError, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import LEASE, NAMESPACE
from purekube.ports import KubeApi, KubeRequest, Send
from purekube_run.controller.election import Elector, Fence, LeaseLost
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_core.api.labels import FIELD_MANAGER

REF = ObjectRef(LEASE, "default", "vworkspace-operator")


class Troubled(KubeApi):
    """The embedded server behind a connection that can be cut or hang."""

    def __init__(self, inner: InProcessKube) -> None:
        super().__init__(inner.through(self._pass).transport)
        self.inner = inner
        self.error: OperatorError | None = None
        self.hangs = False

    async def _pass(self, request: KubeRequest, proceed: Send) -> Manifest:
        if self.hangs:
            await anyio.sleep_forever()
        if self.error is not None:
            raise self.error
        return await proceed(request)


@attrs.define
class Replica:
    """A candidate with its connection."""

    wire: Troubled
    elector: Elector
    fence: Fence
    lost: str = ""

    async def run(self) -> None:
        try:
            await self.elector.run()
        except LeaseLost as error:
            self.lost = error.message


def replica(server: ApiServer, name: str, namespace: str = "default") -> Replica:
    clock = VirtualClock()
    wire, fence = Troubled(InProcessKube(server)), Fence(clock.monotonic)
    api: Any = wire
    elector = Elector(
        api,
        fence,
        namespace=namespace,
        name=REF.name,
        identity=name,
        field_manager=FIELD_MANAGER,
        wall=clock.now,
        random=lambda: 0.5,
    )
    return Replica(wire, elector, fence)


def story(tell: Callable[[ApiServer, Replica, Replica], Awaitable[None]]) -> None:
    """Two replicas; the first one leads, the second stands by."""

    async def main() -> None:
        server = ApiServer(now=VirtualClock().now)
        first, second = replica(server, "first"), replica(server, "second")
        async with anyio.create_task_group() as group:
            group.start_soon(first.run)
            await first.elector.wait_leading()
            group.start_soon(second.run)
            await anyio.sleep(5)
            await tell(server, first, second)
            group.cancel_scope.cancel()

    run(main)


@pytest.mark.slow
@run_by(story)
async def test_one_leads_and_the_other_stands_by(server: ApiServer, first: Replica, second: Replica) -> None:
    await anyio.sleep(300)
    assert first.elector.is_leader
    first.fence.check()
    assert not second.elector.is_leader
    assert second.elector.holder == "first"
    with pytest.raises(Unavailable, match="lease"):
        second.fence.check()
    lease = await InProcessKube(server).get(REF)
    assert lease["spec"]["leaseTransitions"] == 0


@run_by(story)
async def test_a_leader_that_is_cut_off_ends_before_the_other_begins(
    server: ApiServer, first: Replica, second: Replica
) -> None:
    first.wire.hangs = True
    await anyio.sleep(10.1)
    assert "could not be renewed within 10 s" in first.lost
    assert not first.fence.is_open
    assert not second.elector.is_leader
    with anyio.fail_after(10):
        await second.elector.wait_leading()
    assert second.elector.is_leader


@run_by(story)
async def test_a_release_hands_over_at_the_next_look(server: ApiServer, first: Replica, second: Replica) -> None:
    await first.elector.release()
    assert not first.fence.is_open
    assert (await InProcessKube(server).get(REF))["spec"]["holderIdentity"] == ""
    with anyio.fail_after(4.5):
        await second.elector.wait_leading()
    assert (await InProcessKube(server).get(REF))["spec"]["holderIdentity"] == "second"


@run_by(story)
async def test_a_release_that_cannot_be_written_ends_all_the_same(
    server: ApiServer, first: Replica, second: Replica
) -> None:
    first.wire.hangs = True
    with anyio.fail_after(6):
        await first.elector.release()
    assert not first.fence.is_open
    with anyio.fail_after(16 + 5):
        await second.elector.wait_leading()


def test_a_standby_that_may_not_read_the_lease_says_so_once_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    async def tell(server: ApiServer, first: Replica, second: Replica) -> None:
        second.wire.error = Forbidden("leases is forbidden")
        await anyio.sleep(60)
        second.wire.error = None
        await first.elector.release()
        with anyio.fail_after(5):
            await second.elector.wait_leading()

    story(tell)

    assert capsys.readouterr().out.count("leases is forbidden") == 1


def test_a_namespace_that_is_not_there_is_told_once_and_waited_for_RUN_4() -> None:
    async def main() -> None:
        server = ApiServer(now=VirtualClock().now)
        nowhere = replica(server, "first", "nowhere")
        async with anyio.create_task_group() as group:
            group.start_soon(nowhere.run)
            await anyio.sleep(60)
            manifest = NAMESPACE.manifest("nowhere")
            await InProcessKube(server).create(manifest, kind=NAMESPACE, field_manager="admin")
            with anyio.fail_after(10):
                await nowhere.elector.wait_leading()
            group.cancel_scope.cancel()

    with capture_logs() as lines:
        run(main)
    told = [line["error"] for line in lines if line["event"] == "the lease cannot be read or written"]
    assert len(told) == 1
    assert 'namespaces "nowhere" not found' in told[0]

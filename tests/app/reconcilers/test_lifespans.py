"""The lifespans of controllers: what is opened before the first call is closed after the last one (PH-7)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import attrs
import pytest
from structlog.testing import capture_logs

from purekube.apimachinery.errors import unwrap_group
from purekube.controller.lease.record import LeasePolicy
from purekube.reconcilers import Feature, Object, Reconciler, Request, Result
from purekube_kit import FakeCluster
from purekube_run.controller.candidacy import Candidacy
from purekube_run.controller.election import LeaseLost
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.extensions.extension_replica import Extending, ExtensionReplica
from purekube_run.simulation.replica import Replica
from purekube_run.simulation.world import World
from tests.support.controller_site import SHOP, ControllerSite, ShopSpec, ShopStatus, play

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, None]):
    """Takes its seconds to start, to reconcile and to clean up, and writes all of it down."""

    kind = SHOP
    timeout = 30.0
    seen: list[str] = attrs.field(factory=list)
    takes: float = 0.0
    start: float | Exception = 0.0
    end: float | Exception = 0.0

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        await self._do(self.start)
        self.seen.append(f"open {self.name}".strip())
        yield
        await self._do(self.end)
        self.seen.append(f"closed {self.name}".strip())

    async def _do(self, what: float | Exception) -> None:
        if isinstance(what, Exception):
            raise what
        await anyio.sleep(what)

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        self.seen.append("call")
        try:
            await anyio.sleep(self.takes)
        finally:
            self.seen.append("called")
        return Result()


class Others(Shops):
    """The same for a second controller."""

    name = "others"
    plain = (Feature.CONDITIONS, Feature.STATUS)


CALLED: Final = ["open", "call", "called", "closed"]


def run_a_minute(*controllers: Shops) -> None:
    with FakeCluster() as cluster:
        cluster.run(*controllers)
        cluster.create(SHOP, "shop")
        cluster.after(60)


def test_cleanup_runs_after_the_last_pass_of_every_controller_and_in_reverse_order() -> None:
    seen: list[str] = []

    async def story(site: ControllerSite) -> None:
        async with site.running(Shops(seen, takes=20.0, start=5.0), Others(seen, end=3.0)) as manager:
            await site.create()
            await site.clock.sleep(6)
            await manager.finish()

    play(story)
    assert seen[:2] == ["open", "open others"]
    assert seen[-2:] == ["closed others", "closed"]
    assert sorted(seen[2:-2]) == ["call", "call", "called", "called"]


def test_a_cancelled_process_cleans_up_too_and_not_for_ever() -> None:
    quick, slow = Shops(end=9.0), Others(end=11.0)

    async def story(site: ControllerSite) -> None:
        async with site.running(slow, quick):
            await site.create()
            await site.clock.sleep(1)
        assert 19.0 <= site.clock.monotonic() <= 22.0

    play(story)
    assert quick.seen == CALLED
    assert slow.seen == ["open others", "call", "called"], "its end was cancelled after ten seconds"


def test_a_cleanup_that_raises_is_logged_and_the_others_run() -> None:
    shops = Shops()
    with capture_logs() as logs, FakeCluster() as cluster:
        cluster.run(shops, Others(end=ConnectionError("gone")))
        cluster.until(cluster.create(SHOP, "shop"))
    assert shops.seen == CALLED
    assert [line["controller"] for line in logs if line["event"] == "the lifespan failed"] == ["others"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "told"),
    [
        (ConnectionError("no route"), "its start failed: ConnectionError: no route"),
        (31.0, "its start took longer than 30 s"),
    ],
)
def test_a_start_that_fails_names_the_controller_and_ends_the_process(start: Any, told: str) -> None:
    shops, others = Shops(), Others(start=start)
    with pytest.raises(CommandError) as raised:
        run_a_minute(shops, others)
    assert raised.value.message == f"controller others: {told}"
    assert (shops.seen, others.seen) == (["open", "closed"], [])


class Broken(Shops):
    """Its task in the background fails after a while."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._break)
            yield

    async def _break(self) -> None:
        await anyio.sleep(10)
        raise ValueError("lost")


@pytest.mark.slow
def test_what_fails_in_the_middle_of_a_lifespan_ends_the_process() -> None:
    broken = Broken()
    with pytest.raises(CommandError, match=r"controller broken: its lifespan failed: .*lost"):
        run_a_minute(broken)
    assert broken.seen == ["call", "called"]


def test_a_restart_opens_the_lifespan_again() -> None:
    shops = Shops()
    with FakeCluster() as cluster:
        cluster.run(shops)
        cluster.until(cluster.create(SHOP, "shop"))
        cluster.restart()
        cluster.after(5)
    assert shops.seen == [*CALLED, *CALLED]


def test_a_lost_lease_ends_the_running_call_and_then_cleans_up() -> None:
    shops, ended = Shops(takes=1000.0, end=2.0), list[tuple[list[str], BaseException | None]]()
    with World() as world:
        world.have_namespace("system")
        world.have_namespace("default")
        world.install([SHOP.crd()])
        world.on_end.append(lambda replica, error: ended.append(([*shops.seen], error)))
        candidacy = Candidacy("system", "lease", "controllers", LeasePolicy(60.0, 40.0, 8.0))
        extending = Extending(controllers=[shops], candidacy=candidacy)
        replica: Replica = ExtensionReplica(world, "one", extending, user="system:admin")
        world.add(replica)
        world.create(SHOP.kind.manifest("shop", "default") | {"spec": {}}, SHOP.kind)
        world.run(30)
        replica.link.partition(600)
        assert world.until(lambda: bool(ended), 120)
    ((seen, error),) = ended
    assert error is not None
    assert isinstance(unwrap_group(error), LeaseLost)
    assert (seen[0], seen[-2:]) == ("open", ["called", "closed"])

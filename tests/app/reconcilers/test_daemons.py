"""Daemons: a task for each object while this process leads (PH-7)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, cast

import anyio
import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.controller.lease.record import LeasePolicy
from purekube.reconcilers import (
    METADATA_ONLY,
    Backoff,
    Constant,
    Event,
    Object,
    Reconciler,
    Request,
    Result,
    RetryPolicy,
    Terminal,
    Watch,
    Watcher,
)
from purekube_kit import FakeCluster
from purekube_run.controller.candidacy import Candidacy
from purekube_run.controller.controller import Work
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.process.signals import run_in_background
from purekube_run.reconcilers.daemons import Daemons
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.extensions.extension_replica import Extending, ExtensionReplica
from purekube_run.simulation.world import World
from tests.support.attack import attack, in_chunks
from tests.support.controller_site import SHOP, ControllerSite, ShopSpec, ShopStatus, play
from tests.support.virtual_time import run

Shop = Object[ShopSpec, ShopStatus]


@attrs.define
class Shops(Reconciler[Shop, None]):
    """Its daemons write down what they do; `fails` are raised one after the other, each after a second."""

    kind = SHOP
    retry: ClassVar[RetryPolicy] = Constant(10.0)
    seen: list[str] = attrs.field(factory=list)
    fails: list[BaseException | None] = attrs.field(factory=list)
    ends: float = 0.0
    at: list[float] = attrs.field(factory=list)

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        self.seen.append("deleted" if request.deleting else "reconciled")
        return Result()

    async def daemon(self, object: Shop) -> None:
        self.seen.append(f"on {object.spec.replicas}")
        self.at.append(asyncio.get_running_loop().time())
        try:
            if self.fails:
                await anyio.sleep(1)
                if error := self.fails.pop(0):
                    raise error
                return
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            await self._clean_up()
            raise

    async def _clean_up(self) -> None:
        await asyncio.sleep(self.ends)
        self.seen.append("off")


def test_a_daemon_lives_as_long_as_its_object_and_starts_again_for_a_new_spec() -> None:
    shops = Shops(ends=5.0)
    with FakeCluster() as cluster:
        cluster.run(shops)
        shop = cluster.until(cluster.create(SHOP, "shop"))
        cluster.after(3600)
        shop = cluster.change(shop, {"metadata": {"labels": {"other": "label"}}})
        cluster.after(10)
        cluster.until(cluster.change(shop, replicas=2), within=10)
        cluster.delete(shop)
        cluster.after(4)
        assert cluster.exists(shop), "its daemon still cleans up"
        cluster.until_gone(shop, within=5)
        cluster.after(60)
        assert shops.seen == [
            *("on 1", "reconciled", "reconciled", "off", "on 2", "reconciled"),
            *("off", "deleted"),
        ]


def test_a_daemon_ends_with_the_process_and_starts_with_the_next_one() -> None:
    shops = Shops(ends=9.0)
    with FakeCluster() as cluster:
        cluster.run(shops)
        cluster.until(cluster.create(SHOP, "shop"))
        cluster.restart()
        cluster.after(5)
    assert shops.seen == ["on 1", "reconciled", "off"] * 2


def test_a_standby_has_no_daemons_and_sigterm_ends_them_after_the_last_pass() -> None:
    shops = Shops()

    async def story(site: ControllerSite) -> None:
        async with site.running(shops, elected_after=60.0) as manager:
            await site.create()
            await site.clock.sleep(59)
            assert not shops.seen
            await site.clock.sleep(2)
            await manager.finish()
            assert shops.seen == ["on 1", "reconciled"]

    play(story)
    assert shops.seen == ["on 1", "reconciled", "off"]


def test_a_daemon_that_raises_starts_again_with_one_event_and_a_log_line_each_time() -> None:
    shops = Shops(fails=[ValueError("lost"), ValueError("lost"), asyncio.CancelledError(), SystemExit(1)])
    with capture_logs() as logs, FakeCluster() as cluster:
        cluster.run(shops)
        shop = cluster.until(cluster.create(SHOP, "shop"))
        cluster.after(100)
        assert cluster.until(shop, "Ready", within=1), "the calls are not concerned"
        notes = [event.note for event in cluster.events if event.reason == "DaemonFailed"]
    assert [round(after - before) for before, after in zip(shops.at, shops.at[1:], strict=False)] == [11] * 4
    assert sorted(notes) == [f"shops: {text}" for text in ("CancelledError", "SystemExit: 1", "ValueError: lost")]
    told = [line["error"] for line in logs if line["event"] == "the daemon failed"]
    assert told == ["ValueError: lost", "ValueError: lost", "CancelledError", "SystemExit: 1"]


def test_the_backoff_grows_and_starts_over_after_a_long_run() -> None:
    class Impatient(Shops):
        retry = Backoff(10.0, 1000.0)

        async def daemon(self, object: Shop) -> None:
            self.at.append(asyncio.get_running_loop().time())
            await anyio.sleep(1000.0 if len(self.at) == 4 else 0.1)
            raise ValueError("lost")

    shops = Impatient()
    with FakeCluster() as cluster:
        cluster.run(shops)
        cluster.create(SHOP, "shop")
        cluster.after(2000)
    first, second, third, again = [after - before for before, after in zip(shops.at[:4], shops.at[1:5], strict=True)]
    assert first < second < third
    assert again < 1000.0 + second


def test_what_ended_for_good_starts_again_only_with_a_new_spec() -> None:
    shops = Shops(fails=[Terminal("NoSuchChannel", "seven"), None])
    with FakeCluster() as cluster:
        cluster.run(shops)
        shop = cluster.until(cluster.create(SHOP, "shop"))
        cluster.after(3600)
        assert shops.seen.count("on 1") == 1
        assert [event.note for event in cluster.events if event.reason == "NoSuchChannel"] == ["shops: seven"]
        shop = cluster.change(shop, replicas=2)
        cluster.after(3600)
        shop = cluster.change(shop, replicas=3)
        cluster.after(10)
    assert [step for step in shops.seen if step != "reconciled"] == ["on 1", "on 2", "on 3", "off"]


def test_an_object_stays_until_a_daemon_that_ignores_its_cancellation_ends() -> None:
    class Deaf(Shops):
        async def daemon(self, object: Shop) -> None:
            self.seen.append("on")
            for _ in range(3):
                try:
                    await anyio.sleep_forever()
                except asyncio.CancelledError:
                    self.seen.append("ignored")
            self.seen.append("off")

    shops = Deaf()
    with FakeCluster() as cluster:
        cluster.run(shops)
        shop = cluster.until(cluster.create(SHOP, "shop"))
        cluster.delete(shop)
        cluster.after(9)
        assert shops.seen == ["on", "reconciled", "ignored"]
        cluster.until_gone(shop, within=300)
    assert shops.seen == ["on", "reconciled", *["ignored"] * 3, "off", "deleted"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_daemon_ends_with_an_object_that_vanishes_during_its_first_call(replaced: bool) -> None:
    class Slow(Shops):
        async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
            await asyncio.sleep(20)
            return Result()

    shops = Slow()
    with FakeCluster() as cluster:
        cluster.run(shops)
        shop = cluster.create(SHOP, "shop")
        cluster.after(5)
        cluster.change(shop, {"metadata": {"finalizers": None}})
        cluster.delete(shop)
        if replaced:
            cluster.create(SHOP, "shop")
        cluster.after(50)  # the call for the deletion comes first
        assert shops.seen == ["on 1", "off", *(["on 1"] if replaced else [])]


def test_no_daemon_starts_once_the_process_ends() -> None:
    shops = Shops()

    async def main() -> None:
        clock = VirtualClock()
        events = BackgroundEvents(InProcessKube(ApiServer(now=clock.now)), clock, instance="test", field_manager="test")
        daemons = Daemons(shops, clock, events)
        async with run_in_background(partial(daemons.run, cast("Work", None))):
            await keep(daemons, "shop", replicas=1)
        await keep(daemons, "other", replicas=2)

    async def keep(daemons: Daemons, name: str, replicas: int) -> None:
        manifest = {**SHOP.kind.manifest(name, "default"), "spec": {"image": "web:1", "replicas": replicas}}
        await daemons.keep(ObjectRef(SHOP.kind, "default", name), manifest)
        await anyio.sleep(1)

    run(main)
    assert shops.seen == ["on 1", "off"]


CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")


class Maps(Watcher[dict[str, Any]]):
    """Daemons of built-in objects, which have neither a finalizer nor a generation."""

    kind = CONFIG_MAP
    watch = Watch(label_selector="mine=yes")

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def daemon(self, object: dict[str, Any]) -> None:
        self.seen.append(object["data"]["a"])
        try:
            await anyio.sleep_forever()
        finally:
            self.seen.append("off")


def test_a_watcher_has_daemons_too_which_end_when_the_object_is_no_longer_selected() -> None:
    maps = Maps()
    with FakeCluster() as cluster:
        cluster.run(maps)
        meta = {"name": "map", "namespace": "default", "labels": {"mine": "yes"}}
        given = cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}})
        steps: Sequence[dict[str, Any]] = (
            {"data": {"a": "2"}},
            {"metadata": {"labels": {"mine": "no"}}},
            {"metadata": {"labels": {"mine": "yes"}}},
        )
        for step in steps:
            cluster.after(5)
            cluster.change(given, step)
        cluster.after(5)
        cluster.delete(given)
        cluster.after(5)
        assert maps.seen == ["1", "off", "2", "off", "2", "off"]


@pytest.mark.parametrize("fields", [None, METADATA_ONLY])
def test_the_daemon_of_a_watcher_is_back_after_its_version_was_not_served_for_a_while(fields: Any) -> None:
    class Watched(Watcher[Shop]):
        kind = SHOP
        watch = Watch(fields=fields)
        seen: ClassVar[list[str]] = []

        async def daemon(self, object: Shop) -> None:
            self.seen.append(f"on {object.spec.replicas}")
            try:
                await anyio.sleep_forever()
            finally:
                self.seen.append("off")

    async def story(site: ControllerSite) -> None:
        async with site.running(Watched()):
            await site.create(spec={"replicas": 2})
            await site.clock.sleep(5)
            definition = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, SHOP.kind.crd_name)
            (version,) = (await site.admin.get(definition))["spec"]["versions"]
            for served in (False, True):
                await site.edit(definition, {"spec": {"versions": [{**version, "served": served}]}})
                await site.clock.sleep(600)
            assert Watched.seen == ["on 2", "off", "on 2"]

    play(story)


# --- laws -----------------------------------------------------------------------------------------------------------

NAMES = ("alpha", "beta")
PEACE = 600.0
FINALIZER = "example.com/watched"


@attrs.define
class Tasks:
    """Every daemon of every process, by uid with the replicas of the spec. `freed` were deleted by force."""

    running: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    wrongs: list[str] = attrs.field(factory=list)
    freed: set[str] = attrs.field(factory=set)
    fails: list[BaseException | None] = attrs.field(factory=list)
    lingering: float = 0.0
    slow: float = 0.01
    """Seconds that a call takes."""

    @property
    def present(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for (uid, _), number in self.running.items():
            counted[uid] += number
        return +counted


@attrs.define
class Watched(Reconciler[Shop, None]):
    kind = SHOP
    name = "watched"
    watch = Watch(label_selector="mine=yes")
    retry = Backoff(1.0, 30.0)
    tasks: Tasks

    async def reconcile(self, request: Request[Shop, None]) -> Result[None]:
        if request.deleting and self.tasks.present[request.object.metadata.uid]:
            self.tasks.wrongs.append("a call for the deletion next to the daemon")
        await asyncio.sleep(self.tasks.slow)
        return Result(events=[Event("Looked", "once more")])

    async def daemon(self, object: Shop) -> None:
        tasks, key = self.tasks, (object.metadata.uid, object.spec.replicas)
        if tasks.present[object.metadata.uid]:
            tasks.wrongs.append(f"two daemons of {object.metadata.name}")
        tasks.running[key] += 1
        try:
            await asyncio.sleep(0.5)
            if tasks.fails:
                error = tasks.fails.pop(0)
                if error is not None:
                    raise error
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            await asyncio.sleep(tasks.lingering)
            raise
        finally:
            tasks.running[key] -= 1


class Chaos(RuleBasedStateMachine):
    """Two replicas, of which one leads: safety at every step, a task for each object at the end."""

    @initialize()
    def begin(self) -> None:
        self.tasks = Tasks()
        self.world = World(restarts=(1.0, 12.0))
        self.world.__enter__()
        for namespace in ("system", "default"):
            self.world.have_namespace(namespace)
        self.world.install([SHOP.crd()])
        self.world.on_end.append(lambda replica, error: None)
        self.world.on_write.append(self._no_task_outlives_its_finalizer)
        candidacy = Candidacy("system", "lease", "controllers", LeasePolicy(60.0, 40.0, 8.0))
        extending = Extending(controllers=[Watched(self.tasks)], candidacy=candidacy)
        for name in ("one", "two"):
            self.world.add(ExtensionReplica(self.world, name, extending, user="system:admin", latency=(0.001, 0.008)))
        self.world.run(5)

    def _no_task_outlives_its_finalizer(self, write: ObservedWrite) -> None:
        held = {
            uid
            for name in NAMES
            if (live := self.find(name)) and FINALIZER in finalizers(live)
            for uid in [uid_of(live)]
        }
        for uid in self.tasks.present:
            if uid not in held | self.tasks.freed:
                self.tasks.wrongs.append(f"a daemon without the finalizer of its object, after {write.request}")

    def ref(self, name: str) -> ObjectRef:
        return ObjectRef(SHOP.kind, "default", name)

    def find(self, name: str) -> Manifest | None:
        return self.world.get(self.ref(name))

    @rule(name=st.sampled_from(NAMES), mine=st.sampled_from(("yes", "yes", "no")))
    def create(self, name: str, mine: str) -> None:
        if self.find(name) is None:
            meta = {"name": name, "namespace": "default", "labels": {"mine": mine}}
            made = {**SHOP.kind.manifest(name, "default"), "metadata": meta, "spec": {}}
            self.world.create(made, SHOP.kind)

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(1, 3))
    def edit(self, name: str, replicas: int) -> None:
        if self.find(name) is not None:
            self.world.change(self.ref(name), {"spec": {"replicas": replicas}})

    @rule(name=st.sampled_from(NAMES), mine=st.sampled_from(("yes", "no")))
    def select(self, name: str, mine: str) -> None:
        if self.find(name) is not None:
            self.world.change(self.ref(name), {"metadata": {"labels": {"mine": mine}}})

    @rule(name=st.sampled_from(NAMES), by_force=st.booleans())
    def delete(self, name: str, by_force: bool) -> None:
        live = self.find(name)
        if live is None:
            return
        if by_force:
            self.tasks.freed.add(uid_of(live))
            self.world.change(self.ref(name), {"metadata": {"finalizers": None}})
        try:
            self.world.delete(self.ref(name))
        except NotFound:
            assert by_force

    @rule(name=st.sampled_from(NAMES))
    def replace(self, name: str) -> None:
        self.delete(name, by_force=True)
        self.create(name, "yes")

    @rule(seconds=st.sampled_from((0.001, 0.01, 0.1, 1.0, 7.0, 60.0, 400.0)))
    def pass_time(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule(replica=st.integers(0, 1))
    def kill(self, replica: int) -> None:
        self.world.replicas[replica].kill("SIGKILL")

    @rule(replica=st.integers(0, 1), seconds=st.sampled_from((5.0, 90.0)))
    def lose_the_lease(self, replica: int, seconds: float) -> None:
        self.world.replicas[replica].link.partition(seconds)

    @rule()
    def lose_the_history(self) -> None:
        """Watches end and have to list again: an object that is replaced meanwhile looks like one that changed."""
        self.world.server.streams.end()
        self.world.server.store.compact()

    @rule(errors=st.lists(st.sampled_from((ValueError("no"), asyncio.CancelledError(), None)), max_size=4))
    def fail(self, errors: list[BaseException | None]) -> None:
        self.tasks.fails += errors

    @rule(seconds=st.sampled_from((0.0, 3.0)))
    def linger(self, seconds: float) -> None:
        self.tasks.lingering = seconds

    @rule(seconds=st.sampled_from((0.01, 5.0)))
    def be_slow(self, seconds: float) -> None:
        self.tasks.slow = seconds

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "tasks"):
            assert not self.tasks.wrongs

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self._peace()
            finally:
                self.world.__exit__(None, None, None)

    def _peace(self) -> None:
        self.tasks.fails.clear()
        self.world.heal()
        self.world.run(PEACE)
        assert not self.tasks.wrongs
        selected = [live for name in NAMES if (live := self.find(name)) and live["metadata"]["labels"]["mine"] == "yes"]
        assert not any("deletionTimestamp" in live["metadata"] for live in selected), "what is deleted goes"
        assert +self.tasks.running == Counter((uid_of(live), live["spec"]["replicas"]) for live in selected)


def uid_of(manifest: Manifest) -> str:
    return str(metadata(manifest)["uid"])


def finalizers(manifest: Manifest) -> Sequence[str]:
    return metadata(manifest).get("finalizers") or ()


@pytest.mark.slow
@in_chunks(6)
def test_each_object_of_the_leader_has_one_daemon_which_its_finalizer_outlives(chunk: int, runs: int) -> None:
    attack(Chaos, chunk, runs)

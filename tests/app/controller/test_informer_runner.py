"""RUN-1: the informer's driver, against the in-memory API server under virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import attrs
import pytest
from structlog.testing import capture_logs

from kubelab.clock import ManualClock, VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, NAMESPACE, SECRET
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.messages import DEFAULT_POLICY
from purekube.controller.queue.event_handlers import same_object
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send, Watch, WatchEvent, WatchEventType
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.worker_pool import WorkerPool
from tests.support.run_by import run_by
from tests.support.virtual_time import run

CLOCK = VirtualClock()
T = TypeVar("T")


class Faulty(KubeApi):
    """A `KubeApi` for reading whose lists and watches can be made to go wrong, before the in-memory server."""

    def __init__(self, inner: InProcessKube) -> None:
        super().__init__(inner.through(self._send, self._watch).transport)
        self.inner = inner
        self.lists: list[Exception] = []
        self.watches: list[Exception | str] = []
        self.calls: list[tuple[float, str]] = []
        self.open = 0
        self.most_open = 0

    async def _send(self, request: KubeRequest, proceed: Send) -> Manifest:
        if request.verb is KubeVerb.LIST:
            self.calls.append((CLOCK.monotonic(), "list"))
            if self.lists:
                raise self.lists.pop(0)
        return await proceed(request)

    async def _watch(self, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        self.calls.append((CLOCK.monotonic(), "watch"))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            fault = self.watches.pop(0) if self.watches else None
            if isinstance(fault, Exception):
                raise fault
            if fault == "half-open":
                await anyio.sleep_forever()
            if fault == "backwards":
                yield WatchEvent(WatchEventType.BOOKMARK, {"metadata": {"resourceVersion": "1"}})
            async for event in proceed(request):
                yield event
        finally:
            self.open -= 1


@attrs.define
class Scene:
    """An API server, a way to make it look faulty, and an informer of ConfigMaps in `default`."""

    api: Faulty
    informer: InformerRunner
    changes: list[CacheChange] = attrs.field(factory=list)

    async def write(self, name: str, value: str = "1", namespace: str = "default") -> Manifest:
        manifest = {**CONFIG_MAP.manifest(name, namespace), "data": {"value": value}}
        return await self.api.inner.apply(manifest, kind=CONFIG_MAP, field_manager="test")

    async def delete(self, name: str) -> None:
        await self.api.inner.delete(ObjectRef(CONFIG_MAP, "default", name))

    def told(self) -> list[tuple[str, str]]:
        return [(change.type.value, change.ref.name) for change in self.changes]


def play(story: Callable[[Scene], Awaitable[T]], kind: Kind = CONFIG_MAP, **settings: Any) -> T:
    """Run a story with an informer running beside it."""

    async def main() -> T:
        api = Faulty(InProcessKube(ApiServer(now=CLOCK.now, window=20)))
        options = {"namespace": "default", "page_size": 2, **settings}
        informer = InformerRunner(api, kind, clock=CLOCK, random=lambda: 0.5, **options)
        scene = Scene(api, informer)
        informer.subscribe(scene.changes.append)
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            result = await story(scene)
            group.cancel_scope.cancel()
        assert api.open == 0, "every stream was given back"
        return result

    return run(main)


@run_by(play)
async def test_what_is_there_is_listed_and_what_changes_is_told(scene: Scene) -> None:
    for name in "abc":
        await scene.write(name)
    await scene.informer.wait_for_sync()
    await scene.write("a", "2")
    await scene.delete("b")
    await scene.write("d")
    await anyio.sleep(1)

    assert scene.told() == [
        ("added", "a"),
        ("added", "b"),
        ("added", "c"),
        ("updated", "a"),
        ("deleted", "b"),
        ("added", "d"),
    ]
    held = scene.informer.store.get("default", "a")
    assert held is not None
    assert held["data"] == {"value": "2"}
    assert "managedFields" not in held["metadata"]
    changed = scene.changes[3]
    assert changed.old_object is not None
    assert changed.old_object["data"] == {"value": "1"}


@run_by(play, field_selector="metadata.name=a")
async def test_selectors_narrow_what_is_cached(scene: Scene) -> None:
    await scene.informer.wait_for_sync()
    for name in ("a", "b"):
        await scene.write(name)
    await scene.informer.refresh(ObjectRef(CONFIG_MAP, "default", "b"))
    await anyio.sleep(1)

    assert scene.told() == [("added", "a")]


@run_by(play)
async def test_a_half_open_connection_is_noticed_and_what_was_missed_is_told(scene: Scene) -> None:
    """Nothing arrives, not even an end: the stream is given up when the next bookmark is overdue (D22)."""
    scene.api.watches.append("half-open")
    await scene.informer.wait_for_sync()
    await scene.write("a")
    longest = DEFAULT_POLICY.bookmark_silence
    assert longest <= 90
    await anyio.sleep(longest - 1)
    assert scene.told() == []
    assert scene.informer.stats().contact_age > 80
    await anyio.sleep(3)
    assert scene.told() == [("added", "a")]
    assert scene.informer.stats().relists == {"quiet": 1}


@run_by(play, policy=attrs.evolve(DEFAULT_POLICY, bookmark_silence=50.0))
async def test_a_stream_that_goes_quiet_where_nothing_changes_is_no_trouble_RUN_1(scene: Scene) -> None:
    """It is listed again (decision 184); nobody has to be warned of it, and the page shows no trouble."""
    await scene.informer.wait_for_sync()
    with capture_logs() as logs:
        await anyio.sleep(600)

    assert [what for _, what in scene.api.calls][:3] == ["list", "watch", "list"]
    assert {line["log_level"] for line in logs} <= {"debug"}
    assert scene.informer.trouble()[0] == ""


@run_by(play, policy=attrs.evolve(DEFAULT_POLICY, bookmark_silence=50.0))
async def test_a_stream_on_which_something_is_heard_is_not_given_up(scene: Scene) -> None:
    """The watchdog counts from the last event, not from the opening of the stream."""
    await scene.informer.wait_for_sync()
    for number in range(20):
        await scene.write("a", str(number))
        await anyio.sleep(20)

    assert scene.informer.stats().troubles == 0
    assert [what for _, what in scene.api.calls] == ["list", "watch"]


@run_by(play)
async def test_what_this_process_wrote_is_known_before_the_watch_tells_and_never_after_it_went(scene: Scene) -> None:
    scene.api.watches.append("half-open")
    await scene.informer.wait_for_sync()
    written = await scene.write("a")
    informers = Informers([scene.informer])
    await informers.observe_write(ObjectRef(CONFIG_MAP, "default", "a"), written)
    assert scene.told() == [("added", "a")]
    await anyio.sleep(200)
    assert scene.told() == [("added", "a")], "the watch that came back tells nothing twice"
    again = await scene.write("a", "2")
    await scene.api.inner.delete(ObjectRef(CONFIG_MAP, "default", "a"))
    await anyio.sleep(1)
    await informers.observe_write(ObjectRef(CONFIG_MAP, "default", "a"), again)
    assert scene.told()[-1] == ("deleted", "a"), "an answer that comes late brings nothing back"


@run_by(play)
async def test_a_stream_that_is_left_is_closed_before_the_next_one_is_opened(scene: Scene) -> None:
    scene.api.watches += ["backwards", "backwards"]
    await anyio.sleep(10)

    assert scene.informer.stats().relists == {"backwards": 2}
    assert scene.api.most_open == 1


@run_by(play)
async def test_a_position_the_server_has_forgotten_is_listed_anew(scene: Scene) -> None:
    await scene.write("a")
    await scene.write("b")
    scene.api.watches += [Unavailable("connection refused")]
    await scene.informer.wait_for_sync()
    await scene.delete("a")
    for number in range(30):  # more than the server remembers
        await scene.write("b", str(number))
    await anyio.sleep(60)

    assert scene.informer.stats().relists == {"expired": 1}
    assert ("deleted", "a") in scene.told()


@pytest.mark.slow
@run_by(play)
async def test_a_handler_that_raises_keeps_no_other_from_being_called(scene: Scene) -> None:
    def broken(change: CacheChange) -> None:
        raise ZeroDivisionError

    cache_changes: list[CacheChange] = []
    scene.informer.subscribe(broken)
    scene.informer.subscribe(cache_changes.append)
    await scene.informer.wait_for_sync()
    await scene.write("a")
    await scene.write("b")
    await anyio.sleep(1)

    assert [change.ref.name for change in cache_changes] == ["a", "b"]
    assert scene.informer.stats().handler_failures == 2


@pytest.mark.slow
@run_by(play)
async def test_a_foreign_error_of_the_port_is_survived_and_counted(scene: Scene) -> None:
    scene.api.lists.append(ZeroDivisionError("a defect of the adapter"))
    scene.api.watches.append(ZeroDivisionError("another"))
    await scene.write("a")
    await scene.informer.wait_for_sync()
    await anyio.sleep(60)
    await scene.write("b")
    await anyio.sleep(1)

    assert scene.told() == [("added", "a"), ("added", "b")]
    assert scene.informer.stats().troubles == 2
    assert "ZeroDivisionError" in scene.informer.stats().last_trouble


@run_by(play)
async def test_a_defect_that_comes_again_and_again_is_told_in_full_once(scene: Scene) -> None:
    """A traceback at each try was a flood."""
    scene.api.lists += [ZeroDivisionError("a defect of the adapter") for _ in range(20)]
    with capture_logs() as logs:
        await anyio.sleep(600)
        await scene.write("a")
        await anyio.sleep(60)
    assert len([line for line in logs if line.get("exc_info")]) == 1
    assert scene.informer.stats().troubles >= 20
    assert [line["event"] for line in logs][-1] == "informer works again"


@run_by(play)
async def test_a_server_that_is_away_for_an_hour_is_asked_every_half_minute_at_most(scene: Scene) -> None:
    scene.api.lists += [Unavailable("connection refused")] * 10_000
    await anyio.sleep(3600)

    assert 120 <= len(scene.api.calls) <= 200
    scene.api.lists.clear()
    await anyio.sleep(31)
    assert scene.informer.has_synced


@run_by(play, kind=HELM_RELEASE)
async def test_a_kind_that_is_not_served_has_synced_and_a_wake_looks_again_at_once_REC_12(scene: Scene) -> None:
    await scene.informer.wait_for_sync()
    assert scene.informer.missing
    await anyio.sleep(600)
    before = len(scene.api.calls)
    scene.informer.wake()
    await anyio.sleep(0.1)
    assert len(scene.api.calls) == before + 1


@run_by(play)
async def test_an_hour_of_quiet_costs_a_dozen_watches_and_one_list(scene: Scene) -> None:
    await scene.informer.wait_for_sync()
    await anyio.sleep(3590)

    asked = [what for _, what in scene.api.calls]
    assert asked.count("list") == 1
    assert 6 <= asked.count("watch") <= 13
    await anyio.sleep(700)
    assert scene.informer.stats().relists == {"periodic": 1}


@pytest.mark.slow
@run_by(play)
async def test_a_burst_of_events_does_not_hold_up_other_tasks(scene: Scene) -> None:
    await scene.informer.wait_for_sync()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while len(scene.changes) < 500:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(500):  # without a suspension: all of it is there before the informer's next turn
            await scene.write(f"a-{number}")
        group.start_soon(other)

    assert turns >= 5


def test_informers_are_found_by_kind_and_namespace() -> None:
    api = InProcessKube(ApiServer(now=ManualClock().now))

    def make(kind: Kind, namespace: str | None) -> InformerRunner:
        return InformerRunner(api, kind, clock=CLOCK, random=lambda: 0.5, namespace=namespace)

    everywhere, here = make(CONFIG_MAP, None), make(CONFIG_MAP, "here")
    informers = Informers([everywhere, here])

    assert informers.find(CONFIG_MAP, "here") is here
    assert informers.find(CONFIG_MAP, "there") is everywhere
    assert informers.find(SECRET) is None
    assert informers.has_seen(ObjectRef(SECRET, "n", "a"), "9"), "nobody watches Secrets: there is nothing to wait for"
    assert not informers.has_seen(ObjectRef(CONFIG_MAP, "n", "a"), "9")
    with pytest.raises(KeyError):
        informers.store(NAMESPACE)
    with pytest.raises(ValueError, match="two informers"):
        Informers([everywhere, make(CONFIG_MAP, None)])


@run_by(play)
async def test_informer_queue_and_driver_converge_together(scene: Scene) -> None:
    """A reconcile that writes to its own object ends: its second pass sees the write and makes none."""
    passes: list[str] = []

    async def reconcile(key: ObjectRef) -> ReconcileResult:
        held = scene.informer.store.get(key.namespace, key.name)
        passes.append(key.name)
        if held is None or held.get("data", {}).get("value") == "done":
            return ReconcileResult()
        patch = {"data": {"value": "done"}}
        manifest = {**CONFIG_MAP.manifest(key.name, key.namespace), **patch}
        made = await scene.api.inner.apply(manifest, kind=CONFIG_MAP, field_manager="test")
        return ReconcileResult(written=((key, made["metadata"]["resourceVersion"]),))

    informers = Informers([scene.informer])
    driver = WorkerPool(reconcile, clock=CLOCK, has_seen=informers.has_seen, refresh=informers.refresh)
    scene.informer.subscribe(driver.handler(same_object))
    async with anyio.create_task_group() as group:
        group.start_soon(driver.run)
        for name in "abc":
            await scene.write(name)
        await anyio.sleep(60)
        driver.shutdown()

    assert sorted(passes) == ["a", "a", "b", "b", "c", "c"]
    assert {obj["data"]["value"] for obj in scene.informer.store.objects()} == {"done"}


def test_pages_shrink_for_large_objects_and_grow_again() -> None:
    """Where the port gives fewer than were asked for, as many are asked for next."""
    limits: list[int] = []
    fit = [1]

    async def story(scene: Scene) -> None:
        async def shrink(request: KubeRequest, proceed: Send) -> Manifest:
            if request.verb is not KubeVerb.LIST:
                return await proceed(request)
            limit = int(request.params["limit"] or 0)
            limits.append(limit)
            return await proceed(attrs.evolve(request, params={**request.params, "limit": min(limit, fit[0])}))

        scene.api.transport = scene.api.through(shrink).transport
        for name in "abcdefgh":
            await scene.write(name)
        await scene.informer.wait_for_sync()
        assert sorted(name for _, name in scene.told()) == list("abcdefgh")

    play(story, page_size=4)
    assert limits[:2] == [4, 1]
    assert all(later <= 2 * earlier for earlier, later in pairwise(limits))

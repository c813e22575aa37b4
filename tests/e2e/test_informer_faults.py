"""RUN-1 over real HTTP: an informer behind a faulty wire ends up with what the server holds, tells exactly what
changed, and asks at a bounded rate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.backoff import Backoff
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.messages import InformerPolicy
from purekube_http import KubeApiClient
from purekube_run.controller.informer import InformerRunner
from purekube_run.process.machine import SystemClock
from tests.support.embedded_server import config_of, embedded
from tests.support.patience import PATIENCE
from tests.support.scripted_server import (
    Request,
    Script,
    Wire,
    close,
    error_event,
    event,
    forward,
    reset,
    silence,
    status,
    stream,
    wire,
)

pytestmark = pytest.mark.anyio

POLICY = InformerPolicy(
    backoff=Backoff(base=0.05, cap=0.4),
    missing_backoff=Backoff(base=0.05, cap=0.4),
    resume_within=0.1,
    shortest_watch=0.2,
    watch_timeout=2.0,
    quiet_grace=0.3,
    bookmark_silence=1.0,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@attrs.define
class Bench:
    """A server, a wire that can be made faulty before it, and an informer that sees only the wire."""

    direct: KubeApiClient
    peer: Wire
    informer: InformerRunner
    upstream: Script
    told: dict[str, str] = attrs.field(factory=dict)
    changes: list[CacheChange] = attrs.field(factory=list)

    def tell(self, change: CacheChange) -> None:
        """A reader that believes nothing: adds must be new, the rest must be of something known."""
        name, uid = change.ref.name, change.object["metadata"]["uid"]
        match change.type:
            case ChangeType.ADDED:
                assert name not in self.told
                self.told[name] = uid
            case ChangeType.UPDATED:
                assert self.told[name] == uid
            case ChangeType.DELETED:
                assert self.told.pop(name) == uid
        self.changes.append(change)

    async def write(self, name: str, value: str) -> None:
        manifest = {**CONFIG_MAP.manifest(name, "default"), "data": {"value": value}}
        await self.direct.apply(manifest, kind=CONFIG_MAP, field_manager="test")

    async def delete(self, name: str) -> None:
        await self.direct.delete(ObjectRef(CONFIG_MAP, "default", name))

    async def change_the_world(self) -> None:
        """What happens behind the informer's back in every row: one update, one delete, one create."""
        await self.write("a", "2")
        await self.delete("b")
        await self.write("d", "1")

    async def caught_up(self) -> None:
        """Wait until the store holds what the server holds."""
        with anyio.fail_after(PATIENCE):
            while True:
                page = await self.direct.list(CONFIG_MAP, namespace="default")
                held = {obj["metadata"]["name"]: obj for obj in self.informer.store.objects()}
                if held == {item["metadata"]["name"]: bare(item) for item in page.items}:
                    return
                await anyio.sleep(0.02)

    def types(self, name: str) -> list[ChangeType]:
        return [change.type for change in self.changes if change.ref.name == name]


def bare(manifest: object) -> object:
    assert isinstance(manifest, dict)
    meta = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    return {**manifest, "metadata": meta}


@asynccontextmanager
async def bench(*, window: int = 10_000, policy: InformerPolicy = POLICY) -> AsyncIterator[Bench]:
    """Three objects a, b and c, seen by a settled informer; requests are counted from then on."""
    async with (
        embedded(window=window, bookmark_interval=0.4) as (_, url),
        wire(upstream := forward(urlsplit(url).port or 0)) as peer,
        KubeApiClient(config_of(url)) as direct,
        KubeApiClient(config_of(peer.url), watch_grace=60.0) as api,
    ):
        informer = InformerRunner(
            api, CONFIG_MAP, namespace="default", clock=SystemClock(), random=lambda: 0.5, policy=policy, page_size=2
        )
        set_up = Bench(direct, peer, informer, upstream)
        informer.subscribe(set_up.tell)
        for name in "abc":
            await set_up.write(name, "1")
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            with anyio.fail_after(PATIENCE):
                await informer.wait_for_sync()
            await set_up.caught_up()
            set_up.changes.clear()
            set_up.peer.requests.clear()
            yield set_up
            group.cancel_scope.cancel()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come soon."""
    with anyio.fail_after(PATIENCE):
        while not holds():
            await anyio.sleep(0.01)


Fault = Callable[[Bench], Awaitable[None]]


def on_watch(*scripts: Script) -> Fault:
    """The next watches meet these; what is open is cut, so that there is a next one."""

    async def fault(bench: Bench) -> None:
        bench.peer.watch_scripts.extend(scripts)
        bench.peer.cut_off()
        await bench.change_the_world()

    return fault


async def refused(bench: Bench) -> None:
    await bench.peer.refuse()
    await bench.change_the_world()
    await anyio.sleep(1.0)
    await bench.peer.listen()


async def reset_now(bench: Bench) -> None:
    bench.peer.cut_off()
    await bench.change_the_world()


async def bookmark_only(request: Request, writer: asyncio.StreamWriter) -> None:
    """A bookmark of the position that was asked for, and a clean end."""
    line = event("BOOKMARK", version=int(request.query["resourceVersion"]), kind=CONFIG_MAP)
    await stream(line)(request, writer)


async def backwards(request: Request, writer: asyncio.StreamWriter) -> None:
    """An event from long before the position."""
    ghost = event("ADDED", "ghost", version=1, kind=CONFIG_MAP, namespace="default")
    await stream(ghost, hang=True)(request, writer)


SLOW = status(429, "TooManyRequests", "slow down", retry_after="1")
BROKEN = status(500, "InternalError", "etcdserver: leader changed")
ALWAYS_RESUMES, NEVER_RESUMES = (attrs.evolve(POLICY, resume_within=limit) for limit in (PATIENCE, 0.0))
"""Whether a single interruption leads to a list is a matter of time: here it is one of these, on any machine."""
SINGLE = {"reset": ALWAYS_RESUMES, "garbage line": NEVER_RESUMES, "partial line": NEVER_RESUMES}
FAULTS: dict[str, tuple[Fault, str | None]] = {
    "connection refused": (refused, "interrupted"),
    "reset": (reset_now, None),
    "reset again and again": (on_watch(reset, reset, reset), "interrupted"),
    "closed without an answer": (on_watch(close, close, close), "interrupted"),
    "closed at once": (on_watch(*[stream()] * 5), "interrupted"),
    "half-open stream": (on_watch(stream(hang=True)), "quiet"),
    "half-open without an answer": (on_watch(silence), "quiet"),
    "in-stream 410": (on_watch(stream(error_event(410, "Expired"))), "expired"),
    "HTTP 410": (on_watch(status(410, "Expired", "too old resource version")), "expired"),
    "410 again and again": (on_watch(*[stream(error_event(410, "Expired"))] * 4), "expired"),
    "429": (on_watch(SLOW), "interrupted"),
    "500": (on_watch(BROKEN), "interrupted"),
    "garbage line": (on_watch(stream(b"\x00\x01garbage\n")), "interrupted"),
    "garbage again and again": (on_watch(*[stream(b"garbage\n")] * 4), "interrupted"),
    "partial line": (on_watch(stream(event("MODIFIED", "a", 10**9)[:-20])), "interrupted"),
    "bookmark only": (on_watch(*[bookmark_only] * 3), "interrupted"),
    "resourceVersion backwards": (on_watch(backwards), "backwards"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
async def test_the_store_equals_the_server_after(name: str) -> None:
    fault, cause = FAULTS[name]
    async with bench(policy=SINGLE.get(name, POLICY)) as set_up:
        await fault(set_up)
        await until(lambda: not set_up.peer.watch_scripts)
        await set_up.caught_up()
        await until(lambda: cause is None or cause in set_up.informer.stats().relists)

        assert set(set_up.told) == {"a", "c", "d"}
        assert set(set_up.types("a")) == {ChangeType.UPDATED}
        assert set_up.types("b") == [ChangeType.DELETED]
        assert set_up.types("d")[0] is ChangeType.ADDED
        assert set_up.types("c") == []
        assert set_up.types("ghost") == []
        moments = [request.at for request in set_up.peer.requests]
        assert len(moments) <= 12 + 10 * (moments[-1] - moments[0]), "a dozen at once; then backoff holds them back"
        relists = set_up.informer.stats().relists
        assert relists.get(cause, 0) >= 1 if cause else relists == {}
        assert not set_up.peer.watch_scripts, "the fault happened"


async def test_a_server_that_has_forgotten_the_position_is_listed_anew_and_the_deletes_are_told() -> None:
    """No scripted answer: the server itself remembers 10 changes only."""
    async with bench(window=10) as set_up:
        await set_up.peer.refuse()
        await set_up.change_the_world()
        for number in range(15):
            await set_up.write("c", f"again-{number}")
        await set_up.peer.listen()
        await set_up.caught_up()

        assert sum(set_up.informer.stats().relists.values()) >= 1
        assert set_up.types("b") == [ChangeType.DELETED]


@pytest.mark.slow
async def test_a_list_that_fails_half_way_is_read_to_its_end() -> None:
    async with bench() as set_up:
        set_up.peer.watch_scripts.append(stream(error_event(410, "Expired")))
        set_up.peer.scripts.extend([set_up.upstream, BROKEN, reset])
        set_up.peer.cut_off()
        await set_up.change_the_world()
        await set_up.caught_up()

        assert set_up.types("b") == [ChangeType.DELETED]


@pytest.mark.slow
async def test_a_server_that_closes_every_watch_at_once_is_asked_ever_more_slowly() -> None:
    """lightkube's own watch makes 1705 requests a second here (its edge 8)."""
    async with bench() as set_up:
        set_up.peer.watch_scripts.extend([stream()] * 10_000)
        set_up.peer.cut_off()
        await until(lambda: len(set_up.peer.requests) >= 30)

        moments = [request.at for request in set_up.peer.requests]
        assert moments[29] - moments[0] >= 2, (
            "two lists at most and a watch each time, and waits of 0.08, 0.15, 0.3 s, and of 0.4 s from then on"
        )


@pytest.mark.slow
async def test_an_informer_that_hears_nothing_but_bookmarks_knows_that_it_is_alive() -> None:
    async with bench() as set_up:

        def age() -> float:
            return set_up.informer.stats().contact_age

        asked = -1
        while asked != len(set_up.peer.requests):  # until something is heard between two requests
            await until(lambda: age() > 0.2)
            asked = len(set_up.peer.requests)
            await until(lambda: age() < 0.2)
        assert set_up.changes == []
        await set_up.peer.refuse()
        await until(lambda: age() > 0.9)
        await set_up.peer.listen()

"""People's hands on a cluster, and Flux's: blocking calls of a `KubeApi`, whichever cluster it is (RUN-8)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

import anyio
import attrs
from anyio.from_thread import BlockingPortal

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.storage.watch_stream import WatchStream
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind
from purekube.ports import KubeApi, ListPage, WatchEvent, WatchEventType
from tests.support.patience import PATIENCE

T = TypeVar("T")


class Hands(Protocol):
    """Somebody who does one thing after another and waits for each."""

    def do(self, act: Callable[[KubeApi], Awaitable[T]]) -> T:
        """The result of one act."""
        ...


@attrs.frozen
class InProcessHands:
    """On an API server in this process, which never waits for anything."""

    api: InProcessKube

    def do(self, act: Callable[[KubeApi], Awaitable[T]]) -> T:
        """At once."""
        return run_sync(act(self.api))  # type: ignore[arg-type]


@attrs.frozen
class RemoteHands:
    """On an API server somewhere, through a thread that has an event loop of its own."""

    portal: BlockingPortal
    api: KubeApi

    def do(self, act: Callable[[KubeApi], Awaitable[T]]) -> T:
        """As long as it takes, within bounds."""

        async def within() -> T:
            with anyio.fail_after(PATIENCE):
                return await act(self.api)

        return self.portal.call(within)


Seen = tuple[Kind, WatchEvent]


class Record(Protocol):
    """Takes down every change of some kinds of objects."""

    def fresh(self) -> list[Seen]:
        """What has come since the last call, up to the present state of the cluster."""
        ...


@attrs.frozen
class InProcessRecord:
    """Streams of a server in this process: they hold whatever has happened."""

    streams: Mapping[Kind, WatchStream]

    @classmethod
    def of(cls, api: InProcessKube, kinds: Iterable[Kind]) -> "InProcessRecord":
        """From now on."""
        return cls({kind: api.open_watch(kind) for kind in kinds})

    def fresh(self) -> list[Seen]:
        """Everything that the streams hold."""
        return [(kind, event) for kind, stream in self.streams.items() for event in stream.drain()]


@attrs.define
class RemoteRecord:
    """Watches over HTTP in some namespaces; `fresh` waits until they have seen what a list shows.

    `places` are a kind and a namespace each, None for kinds that are in none.
    """

    hands: RemoteHands
    places: Sequence[tuple[Kind, str | None]]
    _events: list[Seen] = attrs.field(factory=list)
    _last: dict[tuple[Kind, str | None], dict[str, str]] = attrs.field(factory=dict)
    _watches: list[Future[None]] = attrs.field(factory=list)

    def start(self) -> None:
        """Watch from now on."""
        for kind, namespace in self.places:
            page = self.hands.do(partial(self._list, kind, namespace))
            self._last[kind, namespace] = _versions(page)
            follow = partial(self._follow, kind, namespace, page.resource_version)
            self._watches.append(self.hands.portal.start_task_soon(follow))

    def stop(self) -> None:
        """Watch no longer."""
        for watch in self._watches:
            watch.cancel()

    async def _list(self, kind: Kind, namespace: str | None, api: KubeApi) -> ListPage:
        return await api.list(kind, namespace=namespace)

    async def _follow(self, kind: Kind, namespace: str | None, version: str) -> None:
        while True:
            with suppress(OperatorError):
                async for event in self.hands.api.watch(kind, namespace=namespace, resource_version=version):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type is not WatchEventType.BOOKMARK:
                        self._take(kind, self._last[kind, namespace], event)
            await anyio.sleep(0.1)

    def _take(self, kind: Kind, known: dict[str, str], event: WatchEvent) -> None:
        meta = event.object["metadata"]
        known[meta["uid"]] = meta["resourceVersion"]
        if event.type is WatchEventType.DELETED:
            del known[meta["uid"]]
        self._events.append((kind, event))

    def fresh(self) -> list[Seen]:
        """What the watches have brought, once it agrees with the lists."""
        self.hands.do(lambda _: self._agree())
        found, self._events = self._events, []
        return found

    async def _agree(self) -> None:
        for (kind, namespace), known in self._last.items():
            while _versions(await self.hands.api.list(kind, namespace=namespace)) != known:
                await anyio.sleep(0.02)


def _versions(page: ListPage) -> dict[str, str]:
    """resourceVersion by uid."""
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in page.items}

"""List, then watch, for ever: client-go's Reflector, for programs without the operator's informers."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Never, Protocol

from purekube.apimachinery.errors import Expired, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.ports import KubeApi, WatchEvent, WatchEventType


class ReflectorTarget(Protocol):
    """The receiver of the objects of one kind and their changes."""

    def replace(self, items: Sequence[Manifest]) -> None:
        """Replace all objects by these."""
        ...

    def handle(self, event: WatchEvent) -> None:
        """Handle an object that was added, modified or deleted."""
        ...


async def reflect(
    api: KubeApi,
    kind: Kind,
    target: ReflectorTarget,
    pause: Callable[[], Awaitable[None]],
    *,
    label_selector: str = "",
    namespace: str | None = None,
) -> Never:
    """Report every change to `target`, until cancelled.

    `pause` is awaited before each list, except when the history that a watch needs is no longer kept (W-11): whether
    the server ended the stream, is unreachable, or does not serve the kind yet.
    """
    while True:
        try:
            await _list_and_watch(api, kind, target, label_selector, namespace)
        except Expired:
            continue
        except OperatorError:
            pass
        await pause()


async def _list_and_watch(
    api: KubeApi, kind: Kind, target: ReflectorTarget, label_selector: str, namespace: str | None
) -> None:
    page = await api.list(kind, namespace=namespace, label_selector=label_selector)
    target.replace(page.items)
    stream = api.watch(kind, namespace=namespace, label_selector=label_selector, resource_version=page.resource_version)
    async for event in stream:
        if event.type is not WatchEventType.BOOKMARK:
            target.handle(event)

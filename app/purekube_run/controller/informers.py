"""All informers of a process, found by kind, and functions that reduce cached objects to the fields needed (RUN-1).

For a large object the cache has only an outline (some small parts of it). A lock permits only one reconcile at a time
to hold full copies of large objects.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final

import anyio
import attrs
import msgspec

from purekube.apimachinery.errors import KindMissing, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.controller.informer.outline import OUTLINE, is_outline
from purekube.controller.informer.store import ObjectStore
from purekube.controller.managed_fields import without_managed_fields
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informer_stats import InformerStats


def projected(
    paths: Iterable[tuple[str, ...]], identity: Collection[str] | None = None
) -> Callable[[Manifest], Manifest]:
    """Return a function that reduces an object to the fields at `paths` and some of its metadata, to save memory.

    A path is a tuple of keys, such as `("spec", "suspend")`; an empty path keeps all fields. `identity` are the names
    of the metadata fields to keep; None keeps all metadata except managedFields. apiVersion and kind are always kept.
    """
    desired = [*dict.fromkeys(paths)]
    if () in desired:
        return without_managed_fields

    def slim(manifest: Manifest) -> Manifest:
        meta = metadata(without_managed_fields(manifest))
        out: dict[str, Any] = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
        out["metadata"] = {key: meta[key] for key in (meta if identity is None else identity) if key in meta}
        for path in desired:
            _copy(manifest, out, path)
        return out

    return slim


def _copy(source: Mapping[str, Any], target: dict[str, Any], path: tuple[str, ...]) -> None:
    """Copy the field at `path` from `source` to the same path in `target`.

    If the path leads through a value that is not a mapping, that value is copied as it is.
    """
    for step in path[:-1]:
        if not isinstance(source.get(step), Mapping):
            break
        if not isinstance(target.get(step), dict):
            target[step] = {}
        source, target = source[step], target[step]
    else:
        step = path[-1]
    if step in source:
        target[step] = source[step]


_PASS: ContextVar[AsyncExitStack | None] = ContextVar("pass", default=None)


@asynccontextmanager
async def one_pass() -> AsyncIterator[None]:
    """Mark the block of `async with` as one pass (reconcile of one object).

    At the end of the block, release the lock of `LargeObjects` if the pass holds it. Only the pass that holds it may
    have full copies of large objects.
    """
    async with AsyncExitStack() as ending:
        reset = _PASS.set(ending)
        try:
            yield
        finally:
            _PASS.reset(reset)


async def let_others_read() -> None:
    """Release the lock of `LargeObjects` if the present pass holds it.

    This is for a step that may take long, such as a call of user code: until then other passes would wait for the lock.
    """
    if (ending := _PASS.get()) is not None:
        await ending.aclose()


class LargeObjects:
    """A lock that limits memory: only one pass at a time may hold full copies of large objects.

    A pass is one reconcile of an object. For large objects the caches have only outlines (some small parts of them).
    """

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._holder: AsyncExitStack | None = None

    async def wait(self) -> None:
        """Wait for the lock, and hold it until the current pass ends. Does nothing if no pass is running."""
        ending = _PASS.get()
        if ending is None or ending is self._holder:
            return
        await ending.enter_async_context(self._lock)
        self._holder = ending
        ending.callback(self._leave)

    def _leave(self) -> None:
        self._holder = None


_OUTLINE: Final = OUTLINE.encode()


@attrs.frozen
class StoredObject:
    """An object as a pass (one reconcile) gets it from the cache. `raw` is its cached JSON.

    Of a large object, `raw` is only an outline (some small parts of it), and `live` is the object read from the API
    server.
    """

    raw: bytes
    live: Manifest | None = None

    @cached_property
    def manifest(self) -> Manifest:
        """The full object, never only an outline (the small parts that the cache has of a large object)."""
        decoded: Manifest = msgspec.json.decode(self.raw)
        return decoded if self.live is None else self.live


class Informers:
    """A collection of informers that are found by kind and namespace.

    Raises ValueError if two informers are for the same kind and namespace.
    """

    def __init__(self, runners: Iterable[InformerRunner]) -> None:
        self._runners: dict[tuple[Kind, str | None], InformerRunner] = {}
        self._large = LargeObjects()
        for runner in runners:
            if self._runners.setdefault((runner.kind, runner.namespace), runner) is not runner:
                raise ValueError(f"two informers of {runner.kind.kind} in {runner.namespace or 'all namespaces'}")

    def __iter__(self) -> Iterator[InformerRunner]:
        return iter(self._runners.values())

    def find(self, kind: Kind, namespace: str | None = None) -> InformerRunner | None:
        """Return an informer that covers a kind in a namespace, or None if there is none.

        An informer for only that namespace is preferred to an informer for all namespaces.
        """
        return self._runners.get((kind, namespace)) or self._runners.get((kind, None))

    def store(self, kind: Kind, namespace: str | None = None) -> ObjectStore:
        """Return the store of a kind. Raises KeyError if no informer watches the kind.

        If `namespace` is given, the store contains the kind's objects in that namespace, and possibly those in others.
        """
        runner = self.find(kind, namespace)
        if runner is None:
            raise KeyError(f"no informer of {kind.kind}")
        return runner.store

    def __getitem__(self, kind: Kind) -> InformerRunner:
        """Return the informer of a kind in all namespaces. Raises KeyError if the kind has no such informer."""
        return self._runners[kind, None]

    def of(self, *kinds: Kind) -> tuple[InformerRunner, ...]:
        """Return the informers of these kinds that watch all namespaces, in the same order.

        Raises KeyError for a kind without such an informer.
        """
        return tuple(self[kind] for kind in kinds)

    def stores(self, kind: Kind) -> Iterator[ObjectStore]:
        """Yield the stores of a kind: one, or one for each namespace that is watched separately."""
        return (runner.store for runner in self if runner.kind == kind)

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with anyio.create_task_group() as group:
            for runner in self._runners.values():
                group.start_soon(runner.run, name=f"informer {runner.kind.kind}")

    @property
    def has_synced(self) -> bool:
        """Report whether every informer has completed its first list, so that the caches contain every object."""
        return all(runner.has_synced for runner in self._runners.values())

    async def wait_for_sync(self) -> None:
        """Wait until `has_synced` is True: every informer has completed its first list."""
        for runner in self._runners.values():
            await runner.wait_for_sync()

    def has_seen(self, ref: ObjectRef, version: str) -> bool:
        """Report whether the cache already shows a write of the object `ref` by this process.

        `version` is the resourceVersion that the server returned for the write. The result is also True if no informer
        covers the object.
        """
        runner = self.find(ref.kind, ref.namespace)
        return runner is None or runner.store.has_seen(ref, version)

    async def whole(self, ref: ObjectRef, held: Manifest | None) -> Manifest | None:
        """Return the full object for the cached object `held`: `held` itself unless it is only an outline of a large
        object.

        An outline has only some small parts, so the object is read live. Return None if it does not exist, or if `held`
        is None. Raises the errors of `KubeApi.list`.
        """
        runner = self.find(ref.kind, ref.namespace)
        if held is None or runner is None or not is_outline(held):
            return held
        await self._large.wait()
        return await runner.read(ref)

    async def whole_of(self, ref: ObjectRef, raw: bytes) -> StoredObject | None:
        """Return the object `ref`, whose cached JSON is `raw`.

        If `raw` is only an outline of a large object (some small parts of it), the object is read live, and None is
        returned if it no longer exists. Raises the errors of `KubeApi.list`.
        """
        if _OUTLINE not in raw:
            return StoredObject(raw)
        live = await self.whole(ref, msgspec.json.decode(raw))
        return None if live is None else StoredObject(raw, live)

    async def refresh(self, ref: ObjectRef, *, overwrite: bool = False) -> None:
        """Read the object `ref` from the API server into its store. Nothing happens if no informer covers the object.

        If its kind is not served, remove it from the store. With `overwrite`, the object that was read replaces the
        stored one even if it does not have a newer resourceVersion. Raises the other errors of `KubeApi.list`.
        """
        runner = self.find(ref.kind, ref.namespace)
        if runner is not None:
            try:
                await runner.refresh(ref, overwrite=overwrite)
            except KindMissing:
                runner.store.forget(ref, "")

    async def observe_write(self, ref: ObjectRef, live: Manifest | None) -> None:
        """Store `live`, which the server returned for a write of `ref`, so that the cache shows the write at once.

        If `live` is None, the outcome of the write is unknown, and the object is read from the API server.
        """
        runner = self.find(ref.kind, ref.namespace)
        if runner is None:
            return
        if live is not None:
            runner.observe_write(live)
            return
        with suppress(OperatorError):  # its watch will deliver the change, and the reconcile reads for itself
            await self.refresh(ref)

    def stats(self) -> tuple[InformerStats, ...]:
        """Return the statistics of every informer: the size of its store, and counts of relists and failures."""
        return tuple(runner.stats() for runner in self._runners.values())

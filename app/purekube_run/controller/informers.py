"""All informers of the process, found by kind."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Final

import anyio
import attrs
import msgspec

from purekube.apimachinery.errors import KindMissing, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.controller.informer.outline import OUTLINE, is_outline
from purekube.controller.informer.store import ObjectStore
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informer_stats import InformerStats
from purekube_run.controller.large_objects import LargeObjects

_OUTLINE: Final = OUTLINE.encode()


@attrs.frozen
class StoredObject:
    """An object as the cache holds it; `live` was read from the API server, if the cache holds only its outline."""

    raw: bytes
    live: Manifest | None = None

    @cached_property
    def manifest(self) -> Manifest:
        """The whole object."""
        decoded: Manifest = msgspec.json.decode(self.raw)
        return decoded if self.live is None else self.live


class Informers:
    """The informers by kind and namespace. Raises ValueError for two of the same."""

    def __init__(self, runners: Iterable[InformerRunner]) -> None:
        self._runners: dict[tuple[Kind, str | None], InformerRunner] = {}
        self._large = LargeObjects()
        for runner in runners:
            if self._runners.setdefault((runner.kind, runner.namespace), runner) is not runner:
                raise ValueError(f"two informers of {runner.kind.kind} in {runner.namespace or 'all namespaces'}")

    def __iter__(self) -> Iterator[InformerRunner]:
        return iter(self._runners.values())

    def find(self, kind: Kind, namespace: str | None = None) -> InformerRunner | None:
        """Return the informer of a kind that covers a namespace: one for that namespace, else the one for all."""
        return self._runners.get((kind, namespace)) or self._runners.get((kind, None))

    def store(self, kind: Kind, namespace: str | None = None) -> ObjectStore:
        """Return the store of a kind. Raises KeyError if no informer watches it."""
        runner = self.find(kind, namespace)
        if runner is None:
            raise KeyError(f"no informer of {kind.kind}")
        return runner.store

    def __getitem__(self, kind: Kind) -> InformerRunner:
        """Return the informer of a kind in all namespaces. Raises KeyError for a kind without one."""
        return self._runners[kind, None]

    def of(self, *kinds: Kind) -> tuple[InformerRunner, ...]:
        """Return the informers of these kinds in all namespaces. Raises KeyError for a kind without one."""
        return tuple(self[kind] for kind in kinds)

    def stores(self, kind: Kind) -> Iterator[ObjectStore]:
        """Return the stores of a kind, one for each namespace that is watched separately."""
        return (runner.store for runner in self if runner.kind == kind)

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with anyio.create_task_group() as group:
            for runner in self._runners.values():
                group.start_soon(runner.run, name=f"informer {runner.kind.kind}")

    @property
    def has_synced(self) -> bool:
        """Report whether every informer has its first list, so that readers see every object."""
        return all(runner.has_synced for runner in self._runners.values())

    async def wait_for_sync(self) -> None:
        """Wait until `has_synced`."""
        for runner in self._runners.values():
            await runner.wait_for_sync()

    def has_seen(self, ref: ObjectRef, version: str) -> bool:
        """Report whether the cache holds a write of ours; writes of kinds without an informer need no wait."""
        runner = self.find(ref.kind, ref.namespace)
        return runner is None or runner.store.has_seen(ref, version)

    async def whole(self, ref: ObjectRef, held: Manifest | None) -> Manifest | None:
        """Return `held`, or the live object if `held` is an outline. Raises what `KubeApi.list` raises."""
        runner = self.find(ref.kind, ref.namespace)
        if held is None or runner is None or not is_outline(held):
            return held
        await self._large.wait()
        return await runner.read(ref)

    async def whole_of(self, ref: ObjectRef, raw: bytes) -> StoredObject | None:
        """Return the object with this JSON, read live if that is an outline. Raises what `KubeApi.list` raises."""
        if _OUTLINE not in raw:
            return StoredObject(raw)
        live = await self.whole(ref, msgspec.json.decode(raw))
        return None if live is None else StoredObject(raw, live)

    async def refresh(self, ref: ObjectRef, *, overwrite: bool = False) -> None:
        """Read one object live into its store, as its informer does; the store of a missing kind forgets it.

        Raises whatever else `KubeApi.list` raises.
        """
        runner = self.find(ref.kind, ref.namespace)
        if runner is not None:
            try:
                await runner.refresh(ref, overwrite=overwrite)
            except KindMissing:
                runner.store.forget(ref, "")

    async def observe_write(self, ref: ObjectRef, live: Manifest | None) -> None:
        """Store an object that this process has just written; if the outcome of the write is unknown, read it live."""
        runner = self.find(ref.kind, ref.namespace)
        if runner is None:
            return
        if live is not None:
            runner.observe_write(live)
            return
        with suppress(OperatorError):  # its watch will deliver the change, and the reconcile reads for itself
            await self.refresh(ref)

    def stats(self) -> tuple[InformerStats, ...]:
        """Return the counts of every informer."""
        return tuple(runner.stats() for runner in self._runners.values())

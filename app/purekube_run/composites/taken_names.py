"""Watches on foreign objects with a name that a composite needs: no cache by label holds them (PH-2).

A parent with `NameTaken` waits until the other object is deleted, or labelled to be adopted. Each such object has a
watch of its own, as many as `most`; other parents wait for their resync.
"""

from collections.abc import Callable, Iterable

import anyio
import anyio.abc
import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.informer.store import ObjectStore
from purekube.ports import Clock, KubeApi
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.projection import projected


@attrs.define(eq=False)
class TakenNames:
    """The parents that wait for each object."""

    api: KubeApi
    clock: Clock
    random: Callable[[], float]
    most: int = 32
    _parents: dict[ObjectRef, set[ObjectRef]] = attrs.field(factory=dict)
    _scopes: dict[ObjectRef, anyio.CancelScope] = attrs.field(factory=dict)
    _group: anyio.abc.TaskGroup | None = None
    _enqueue: Callable[[ObjectRef], None] = lambda parent: None

    async def run(self, enqueue: Callable[[ObjectRef], None]) -> None:
        """Watch until cancelled; `enqueue` is called with each parent of an object that changes or is deleted."""
        self._enqueue = enqueue
        async with anyio.create_task_group() as self._group:
            for ref in [*self._parents]:
                self._watch(ref)
            await anyio.sleep_forever()

    def record(self, parent: ObjectRef, taken: Iterable[ObjectRef]) -> None:
        """Record the objects that a parent waits for after a pass."""
        now = set(taken)
        for ref in [ref for ref, parents in self._parents.items() if parent in parents and ref not in now]:
            self._parents[ref].discard(parent)
            if not self._parents[ref]:
                del self._parents[ref]
                if (scope := self._scopes.pop(ref, None)) is not None:
                    scope.cancel()
        for ref in now:
            self._parents.setdefault(ref, set()).add(parent)
            self._watch(ref)

    def _watch(self, ref: ObjectRef) -> None:
        if self._group is not None and ref not in self._scopes and len(self._scopes) < self.most:
            self._scopes[ref] = anyio.CancelScope()
            self._group.start_soon(self._follow, ref, self._scopes[ref], name=f"taken name {ref}")

    async def _follow(self, ref: ObjectRef, scope: anyio.CancelScope) -> None:
        store = ObjectStore(ref.kind, transform=projected((("metadata",),), ()))
        runner = InformerRunner(
            self.api,
            ref.kind,
            clock=self.clock,
            random=self.random,
            namespace=ref.namespace,
            field_selector=f"metadata.name={ref.name}",
            store=store,
        )
        runner.subscribe(lambda change: self._changed(ref, change))
        with scope:
            async with anyio.create_task_group() as group:
                group.start_soon(runner.run)
                await runner.wait_for_sync()
                if store.get(ref.namespace, ref.name) is None:  # it was deleted before the watch began
                    self._wake(ref)

    def _changed(self, ref: ObjectRef, change: CacheChange) -> None:
        if change.type is not ChangeType.ADDED:
            self._wake(ref)

    def _wake(self, ref: ObjectRef) -> None:
        for parent in sorted(self._parents.get(ref, ())):
            self._enqueue(parent)

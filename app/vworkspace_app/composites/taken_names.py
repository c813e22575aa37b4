"""Watches objects that have a name which a composite wants, and are not its own: no cache of labels shows them (PH-2).

A parent that is told `NameTaken` waits for what somebody does to the other object: it is deleted, or labelled to be
taken over. Each such object has a watch of its own, as many as `most`; other parents wait for their resync.
"""

from collections.abc import Callable, Iterable

import anyio
import anyio.abc
import attrs

from vworkspace_app.controller.informer import InformerRunner
from vworkspace_app.controller.projection import projected
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.controller.informer.changes import CacheChange, ChangeType
from vworkspace_core.controller.informer.store import ObjectStore
from vworkspace_core.ports import Clock, KubeApi


@attrs.define(eq=False)
class TakenNames:
    """Which parents wait for which object; `wake` is called with each of them when it changes or goes."""

    api: KubeApi
    clock: Clock
    random: Callable[[], float]
    wake: Callable[[ObjectRef], None] = lambda parent: None
    most: int = 32
    _parents: dict[ObjectRef, set[ObjectRef]] = attrs.field(factory=dict)
    _scopes: dict[ObjectRef, anyio.CancelScope] = attrs.field(factory=dict)
    _group: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        async with anyio.create_task_group() as self._group:
            for ref in [*self._parents]:
                self._watch(ref)
            await anyio.sleep_forever()

    def heard(self, parent: ObjectRef, taken: Iterable[ObjectRef]) -> None:
        """Take note of what a parent waits for after a pass."""
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
                if store.get(ref.namespace, ref.name) is None:  # it went before anybody looked
                    self._wake(ref)

    def _changed(self, ref: ObjectRef, change: CacheChange) -> None:
        if change.type is not ChangeType.ADDED:
            self._wake(ref)

    def _wake(self, ref: ObjectRef) -> None:
        for parent in sorted(self._parents.get(ref, ())):
            self.wake(parent)

"""Watches of a composite (a kind whose objects have children) in addition to its caches (RUN-12, PH-2).

Some watch with the service accounts that parents (the objects of the kind) name. Others watch objects of other owners
that have the name which a child is to get.
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
from purekube_run.controller.informers import projected


@attrs.define(eq=False)
class AccountWatches:
    """The watches of objects that this process may only read by impersonating a service account that a parent names.

    A parent is an object that has children. For each account, the informers that `informers_of` returns are run; they
    impersonate the account. In each namespace, at most `most` accounts are watched.
    """

    informers_of: Callable[[ObjectRef], Iterable[InformerRunner]]
    most: int = 8
    _named: dict[ObjectRef, ObjectRef] = attrs.field(factory=dict)
    _scopes: dict[ObjectRef, anyio.CancelScope] = attrs.field(factory=dict)
    _group: anyio.abc.TaskGroup | None = None
    _subscribe: Callable[[tuple[InformerRunner, ...]], None] = lambda runners: None

    async def run(self, subscribe: Callable[[tuple[InformerRunner, ...]], None]) -> None:
        """Run the informers of all service accounts that `record` received, until cancelled.

        `subscribe` is called with new informers before they run.
        """
        self._subscribe = subscribe
        async with anyio.create_task_group() as self._group:
            self._settle()
            await anyio.sleep_forever()

    def record(self, parent: ObjectRef, account: ObjectRef | None) -> None:
        """Record that `parent` names the service account `account`, or None if it names no account or is deleted.

        The watches of accounts are started and ended accordingly.
        """
        if account == self._named.get(parent):
            return
        if account is None:
            del self._named[parent]
        else:
            self._named[parent] = account
        self._settle()

    def _settle(self) -> None:
        """Start the watches of accounts that a parent names, and end the watches of accounts that no parent names any
        longer.
        """
        named = dict.fromkeys(self._named.values())
        for account in [account for account in self._scopes if account not in named]:
            self._scopes.pop(account).cancel()
        if self._group is None:
            return
        for account in named:
            if account not in self._scopes and self._has_place(account.namespace):
                self._scopes[account] = anyio.CancelScope()
                self._group.start_soon(self._follow, account, self._scopes[account], name=f"watches as {account}")

    def _has_place(self, namespace: str | None) -> bool:
        return sum(account.namespace == namespace for account in self._scopes) < self.most

    async def _follow(self, account: ObjectRef, scope: anyio.CancelScope) -> None:
        runners = tuple(self.informers_of(account))
        self._subscribe(runners)
        with scope:
            async with anyio.create_task_group() as group:
                for runner in runners:
                    group.start_soon(runner.run, name=f"informer {runner.kind.kind} as {account}")


@attrs.define(eq=False)
class TakenNames:
    """The watches of objects that block the creation of a child: an object of another owner already has the child's
    name.

    When such an object changes or is deleted, the parents that wait for its name are enqueued. At most `most` objects
    are watched.
    """

    api: KubeApi
    clock: Clock
    random: Callable[[], float]
    most: int = 32
    _parents: dict[ObjectRef, set[ObjectRef]] = attrs.field(factory=dict)
    _scopes: dict[ObjectRef, anyio.CancelScope] = attrs.field(factory=dict)
    _group: anyio.abc.TaskGroup | None = None
    _enqueue: Callable[[ObjectRef], None] = lambda parent: None

    async def run(self, enqueue: Callable[[ObjectRef], None]) -> None:
        """Watch the objects that `record` received, until cancelled.

        When one of them changes, `enqueue` is called with each parent whose child needs the name of that object. A
        parent is an object for which a composite creates children.
        """
        self._enqueue = enqueue
        async with anyio.create_task_group() as self._group:
            for ref in [*self._parents]:
                self._watch(ref)
            await anyio.sleep_forever()

    def record(self, parent: ObjectRef, taken: Iterable[ObjectRef]) -> None:
        """Record `taken`, the objects whose names `parent` needs for its children, as found by its last pass.

        They replace the objects recorded before.
        """
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

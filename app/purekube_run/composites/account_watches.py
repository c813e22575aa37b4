"""Watches of children and externals, as the ServiceAccounts that parents name: a change wakes the parent (RUN-12).

Only metadata is watched: the objects that a decision needs are read live, as the parent's account. Objects that an
account may not watch, and objects of accounts beyond the first `most` of a namespace, are seen at the next resync of
their parent.
"""

from collections.abc import Callable, Iterable

import anyio
import anyio.abc
import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube_run.controller.informer import InformerRunner


@attrs.define(eq=False)
class AccountWatches:
    """The accounts that parents name, each with the informers that `informers_of` makes for it."""

    informers_of: Callable[[ObjectRef], Iterable[InformerRunner]]
    most: int = 8
    _named: dict[ObjectRef, ObjectRef] = attrs.field(factory=dict)
    _scopes: dict[ObjectRef, anyio.CancelScope] = attrs.field(factory=dict)
    _group: anyio.abc.TaskGroup | None = None
    _subscribe: Callable[[tuple[InformerRunner, ...]], None] = lambda runners: None

    async def run(self, subscribe: Callable[[tuple[InformerRunner, ...]], None]) -> None:
        """Watch until cancelled; `subscribe` is called with new informers before they run."""
        self._subscribe = subscribe
        async with anyio.create_task_group() as self._group:
            self._settle()
            await anyio.sleep_forever()

    def record(self, parent: ObjectRef, account: ObjectRef | None) -> None:
        """Record which account a parent names; None if it names none, or is deleted."""
        if account == self._named.get(parent):
            return
        if account is None:
            del self._named[parent]
        else:
            self._named[parent] = account
        self._settle()

    def _settle(self) -> None:
        """Watch as the accounts that parents name, and end the watches of others."""
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

"""The reconcile of a kind that a pure function decides: read, observe, decide, execute, once (REC-1)."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Generic

import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.execute import OnWrite, PassRules, S, V
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import EventSink, KubeApi
from purekube_run.controller.informers import StoredObject
from purekube_run.controller.live_rereads import LiveRereads


async def nothing_to_do(key: ObjectRef) -> ReconcileResult:
    """Return an empty result, for an object that the cache no longer holds."""
    return ReconcileResult()


@attrs.frozen(eq=False)
class DecisionReconciler(Generic[S, V]):
    """The reconcile of one kind by its `rules`.

    `read` returns the object in its structured form, None to ignore it. `observe` may raise errors of the port.
    `is_under_way` decides from the object before the pass and the result whether work is in progress; after minutes in
    progress, the objects of `depends_on` are read live (`net`). `absent` is called for an object that the cache does
    not hold, `concluded` after each pass. While `is_backlogged`, a status that may wait is not written.
    """

    rules: PassRules[S, V]
    read: Callable[[StoredObject], S | None]
    observe: Callable[[ObjectRef, S, StoredObject], Awaitable[V]]
    api: KubeApi
    events: EventSink
    net: LiveRereads
    depends_on: Callable[[ObjectRef, S], Iterable[ObjectRef]] = lambda key, source: (key,)
    is_under_way: Callable[[S, ReconcileResult], bool] = lambda source, result: False
    absent: Callable[[ObjectRef], Awaitable[ReconcileResult]] = nothing_to_do
    concluded: Callable[[ObjectRef, ReconcileResult], None] = lambda key, result: None
    is_backlogged: Callable[[], bool] = lambda: False

    async def reconcile(self, key: ObjectRef, stored: StoredObject | None, on_write: OnWrite) -> ReconcileResult:
        """Run one pass over the object: observe, decide, execute. Raises errors of the port from live reads only."""
        if stored is None:
            self.net.forget(key)
            return await self.absent(key)
        source = self.read(stored)
        if source is None:
            return ReconcileResult()
        await self.net.reread_if_due(key, partial(self.depends_on, key, source))
        observed = await self.observe(key, source, stored)
        result = await run_pass(self.rules, source, observed, self.api, self.events, on_write, self.is_backlogged)
        self.concluded(key, result)
        return self.net.until_next(key, result, under_way=self.is_under_way(source, result))

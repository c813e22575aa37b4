"""The definition of a controller as a value: its objects, the changes that enqueue them, and its reconcile function.

A `ControllerManager` runs such definitions. Every kind that the process reconciles has one.
"""

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import attrs

from purekube.apimachinery.errors import Right
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.controller.execute import OnWrite
from purekube.controller.managed_fields import StatusOwner
from purekube.controller.queue.event_handlers import KeysOf, UrgencyOf, at_once, same_object
from purekube.controller.queue.own_writes import ObjectVersion
from purekube.controller.reconcile import ReconcileResult
from purekube.controller.reconcile_error import ReconcileErrorWords
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers, StoredObject


class KeyReconciler(Protocol):
    """The interface of a reconciler: one method, which gets the reference of an object and reconciles the object."""

    async def reconcile(self, key: ObjectRef, stored: StoredObject | None, on_write: OnWrite) -> ReconcileResult:
        """Run one pass over the object `key`: observe, decide, execute.

        `stored` is the cached object, or None if the cache does not have it. `on_write` is called for each write as
        soon as the server has answered (RUN-3). The result has the decision, the writes, and the time of the next pass.
        An OperatorError may be raised, or returned in the result.
        """
        ...


@attrs.frozen
class For:
    """The informers of the kind that a controller reconciles: one, or one for each separately watched namespace.

    `to` yields the keys (references of objects) that a change enqueues: by default the changed object. `urgency`
    returns, for a change, the priority of these keys and the longest delay before they are reconciled.
    """

    informers: tuple[InformerRunner, ...]
    to: KeysOf = same_object
    urgency: UrgencyOf = at_once


@attrs.frozen
class Watches:
    """The informers of other kinds whose changes also trigger reconciles.

    `to` yields the keys (references of objects) that a change enqueues. `urgency` returns, for a change, the priority
    of these keys and the longest delay before they are reconciled.
    """

    informers: tuple[InformerRunner, ...] = attrs.field(converter=tuple[InformerRunner, ...])
    to: KeysOf
    urgency: UrgencyOf = at_once


@attrs.frozen
class Queue:
    """The settings of a controller's work queue: the number of workers, and the time limit of a pass in seconds.

    A pass is one reconcile of an object, whose reference is the key in the queue. Two keys with the same
    `exclusion_key` are never reconciled at the same time. A key whose `exclusion_key` is None excludes no other key.
    """

    workers: int = 16
    time_limit: float = 60.0
    exclusion_key: Callable[[ObjectRef], Hashable | None] | None = None


@attrs.frozen
class StatusManager:
    """The settings of a controller for the status that it writes: the field manager, and the reports of errors.

    When an error stops a reconcile, `words` determine the conditions, fields and Events that report it to users;
    without `words`, the error is only logged. `title` names the controller in messages. `remedy` returns the command
    that grants a missing right, and `not_permitted` the message about it. If `yields` is True, the controller does not
    reconcile an object whose status another controller already writes (RES-4).
    """

    owner: StatusOwner
    not_permitted: Callable[[Right], str]
    remedy: Callable[[Right], str]
    words: ReconcileErrorWords | None = None
    title: str = "operator"
    yields: bool = False


class Work(Protocol):
    """The interface of a running controller for its background tasks: they request reconciles and add watches."""

    def enqueue(self, key: ObjectRef, *, after: float = 0.0) -> None:
        """Request a reconcile of an object after at most `after` seconds.

        Nothing happens while this process does not lead (hold the Lease of the leader election).
        """
        ...

    def subscribe(self, watches: For | Watches) -> None:
        """Make the controller also enqueue keys for every change that the informers in `watches` report."""
        ...


Background: TypeAlias = Callable[[Work], Coroutine[Any, Any, None]]
"""A background task of a controller, which runs while this process leads (holds the Lease of the leader election)."""


async def at_any_time() -> None:
    """Return immediately. This is the default of `ControllerDefinition.synced`, for controllers that need no cache."""


@attrs.frozen(eq=False)
class ControllerDefinition:
    """The definition of one controller, from which a manager runs it. `name` appears in metrics and logs.

    `caches` hold the objects of `kind`, and the objects that passes (reconciles of one object) write. `own` are the
    informers of `kind`. `further` are other informers that only this controller uses. `synced` returns when the caches
    that a first pass needs are filled. `all_keys` yields all objects to reconcile. The tasks in `background` run while
    this process leads. Every `resync` seconds all objects are enqueued; `on_resync` is called for each. `on_write` is
    called for each write.
    """

    name: str
    kind: Kind
    reconciler: KeyReconciler
    caches: Informers
    own: For
    writer: StatusManager
    watches: Sequence[Watches] = ()
    further: Sequence[InformerRunner] = ()
    queue: Queue = Queue()
    resync: float | None = None
    synced: Callable[[], Awaitable[None]] = at_any_time
    all_keys: Callable[[], Iterable[ObjectRef]] = attrs.field()
    background: Sequence[Background] = ()
    on_resync: Callable[[ObjectRef], None] = lambda key: None
    on_write: Callable[[ObjectRef, ObjectVersion], None] = lambda key, written: None

    @all_keys.default
    def _stored_keys(self) -> Callable[[], Iterable[ObjectRef]]:
        def keys() -> Iterable[ObjectRef]:
            for runner in self.own.informers:
                for namespace, name in runner.store.names():
                    yield ObjectRef(self.kind, namespace or None, name)

        return keys

    def raw(self, key: ObjectRef) -> bytes | None:
        """Return the cached JSON of the object `key`, or None if the object is not cached.

        Of a large object, the cache has only an outline (some small parts of it), which is returned then.
        """
        runner = next(filter(lambda own: own.namespace in (None, key.namespace), self.own.informers), None)
        return None if runner is None else runner.store.raw(key.namespace, key.name)

    async def stored(self, key: ObjectRef) -> StoredObject | None:
        """Return the object `key`, or None if it is not cached.

        If the cache has only an outline (some small parts) of a large object, the object is read from the API server.
        Raises the errors of `KubeApi.list`.
        """
        raw = self.raw(key)
        return None if raw is None else await self.caches.whole_of(key, raw)

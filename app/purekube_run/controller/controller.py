"""A controller as a value: the objects that it reconciles, the changes that wake it, and its reconcile function.

A `ControllerManager` runs such values; every kind that the process reconciles is one of them, our own included.
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
    """The reconciler of one controller, which is called with an object's reference as key."""

    async def reconcile(self, key: ObjectRef, stored: StoredObject | None, on_write: OnWrite) -> ReconcileResult:
        """Run one pass: observe, decide, execute.

        `stored` is the cached object, or None if the cache does not have it. `on_write` is called for each write as
        soon as the server has answered (RUN-3). An OperatorError may be raised, or returned in the result.
        """
        ...


@attrs.frozen
class For:
    """The informers of the reconciled kind: one informer, or one for each namespace that is watched separately."""

    informers: tuple[InformerRunner, ...]
    to: KeysOf = same_object
    urgency: UrgencyOf = at_once


@attrs.frozen
class Watches:
    """The informers of other kinds. `to` yields the keys that a change enqueues."""

    informers: tuple[InformerRunner, ...] = attrs.field(converter=tuple[InformerRunner, ...])
    to: KeysOf
    urgency: UrgencyOf = at_once


@attrs.frozen
class Queue:
    """The settings of a work queue: the number of workers, and the time limit of a pass in seconds.

    Two keys with the same `exclusion_key` are never reconciled at the same time. None excludes no other key.
    """

    workers: int = 16
    time_limit: float = 60.0
    exclusion_key: Callable[[ObjectRef], Hashable | None] | None = None


@attrs.frozen
class StatusManager:
    """The writer of the status of a kind: its field manager, and the texts with which it reports errors.

    `words` make the status that reports an error which stopped a pass. Without `words`, such an error is only logged.
    `title` names the controller in messages. `remedy` returns the command that grants a missing right, and
    `not_permitted` a sentence with that command. If `yields` is True, objects whose status another controller writes
    are not reconciled (RES-4).
    """

    owner: StatusOwner
    not_permitted: Callable[[Right], str]
    remedy: Callable[[Right], str]
    words: ReconcileErrorWords | None = None
    title: str = "operator"
    yields: bool = False


class Work(Protocol):
    """The interface of a running controller for its background tasks."""

    def enqueue(self, key: ObjectRef, *, after: float = 0.0) -> None:
        """Request a reconcile of an object after at most `after` seconds.

        Nothing happens while this process does not lead.
        """
        ...

    def subscribe(self, watches: For | Watches) -> None:
        """Let every change that these informers report enqueue keys, too."""
        ...


Background: TypeAlias = Callable[[Work], Coroutine[Any, Any, None]]
"""A task that runs while this process leads."""


async def at_any_time() -> None:
    """Return immediately. This is the default of `synced`, for controllers that need no cache."""


@attrs.frozen(eq=False)
class ControllerDefinition:
    """The definition of one controller. `name` appears in metrics and logs.

    `caches` hold the objects of the kind, and every object that a pass writes and must see afterwards. `own` are the
    informers of the kind. `further` are other informers that only this controller uses. `synced` returns when the
    caches that a first pass needs are filled. `all_keys` yields the objects to reconcile, by default all objects cached
    by `own`. The tasks in `background` run while this process leads. `on_resync` is called for each key when its
    `resync` interval (in seconds) has elapsed, and `on_write` for each write of a pass.
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
        """Return the cached JSON of an object, or None if the object is not cached.

        For a large object the JSON is only an outline (some small parts of the object).
        """
        runner = next(filter(lambda own: own.namespace in (None, key.namespace), self.own.informers), None)
        return None if runner is None else runner.store.raw(key.namespace, key.name)

    async def stored(self, key: ObjectRef) -> StoredObject | None:
        """Return an object of the kind, or None if it is not cached.

        If only an outline of the object is cached, the object is read live. Raises the errors of `KubeApi.list`.
        """
        raw = self.raw(key)
        return None if raw is None else await self.caches.whole_of(key, raw)

"""A reconciler whose decisions a pure function makes.

While work on an object is in progress, such as a rollout, the object is read again from the API server at intervals, in
case a watch event was lost (REC-1).
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Generic

import attrs
import structlog

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.decision import Decision
from purekube.controller.execute import OnWrite, PassRules, S, V
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.controller.informers import Informers, StoredObject
from purekube_run.controller.observer import DECISION

_RECONCILING: Final = "Reconciling"
"""The condition that reports that an object is in progress."""

_log = structlog.get_logger("operator")


@attrs.define
class LiveRereads:
    """The schedule of live reads for objects with work in progress: a protection against watch events that were lost.

    The reconciler of a kind decides whether work on an object is in progress, such as a rollout. While it is, the
    object and the objects on which it depends are read from the API server into the caches every `every` seconds. The
    more objects are in progress, the longer is the interval: on average, at most one of them is read in `spacing`
    seconds.
    """

    informers: Informers
    clock: Clock
    every: float = 300.0
    spacing: float = 10.0
    _since: dict[ObjectRef, float] = attrs.field(factory=dict)

    async def reread_if_due(self, key: ObjectRef, refs: Callable[[], Iterable[ObjectRef]]) -> None:
        """Read the objects in `refs` (those on which `key` depends) from the API server into the caches, if a read is
        due.

        Errors are logged, and never raised.
        """
        now = self.clock.monotonic()
        if now - self._since.get(key, now) < self._interval:
            return
        self._since[key] = now
        for ref in refs():
            try:
                await self.informers.refresh(ref, overwrite=True)
            except OperatorError as error:
                _log.debug("not read again", object=str(ref), error=error.message)

    @property
    def _interval(self) -> float:
        return max(self.every, self.spacing * len(self._since))

    def forget(self, key: ObjectRef) -> None:
        """Remove a key from the schedule, because its object is no longer in progress or is deleted."""
        self._since.pop(key, None)

    def until_next(self, key: ObjectRef, result: ReconcileResult, *, under_way: bool) -> ReconcileResult:
        """Return `result`, changed so that the key is requeued no later than its next live read.

        `under_way` is True if work on the key's object is still in progress after the pass. If it is False, remove the
        key from the schedule and return `result` unchanged.
        """
        if not under_way:
            self.forget(key)
            return result
        since = self._since.setdefault(key, self.clock.monotonic())
        wait = max(
            1.0, since + self._interval - self.clock.monotonic()
        )  # rounded, a wait may end just before it is due
        return attrs.evolve(result, requeue=result.requeue.no_later_than(wait))


def is_reconciling(written: Manifest | None, before: Iterable[Condition]) -> bool:
    """Report whether the condition Reconciling is True after a pass.

    It is read from the status `written` by the pass, or from the conditions `before` the pass if nothing was written.
    """
    if written is None:
        return any(condition.type == _RECONCILING and condition.status is ConditionStatus.TRUE for condition in before)
    return condition_of(written, _RECONCILING).get("status") == ConditionStatus.TRUE


async def nothing_to_do(key: ObjectRef) -> ReconcileResult:
    """Return an empty result. This is the default of `absent` in `DecisionReconciler`.

    An object that is no longer cached then needs no work.
    """
    return ReconcileResult()


def _announced(rules: PassRules[S, V]) -> PassRules[S, V]:
    """Return rules that make the same decisions as `rules`, and set `DECISION` to each decision for the writes that
    follow.
    """

    def decide(source: S, observed: V) -> Decision:
        decision = rules.decide(source, observed)
        DECISION.set(decision)
        return decision

    return attrs.evolve(rules, decide=decide)


@attrs.frozen(eq=False)
class DecisionReconciler(Generic[S, V]):
    """The reconciler of a kind whose decisions a pure function makes: the function `rules.decide`.

    `read` parses the cached object; None means that the object is ignored. `observe` returns the snapshot for the
    decision. `is_under_way` returns True if work on the object is still in progress after a pass (one reconcile of an
    object). While it does, the schedule `net` regularly reads the objects in `depends_on` from the API server, in case
    a watch event was lost. `absent` is called instead of a pass if the object is not cached. `concluded` is called
    after each pass with the object's reference and the result. While `is_backlogged` returns True, which means that
    objects wait to be reconciled, status writes that may wait are left to a later pass.
    """

    rules: PassRules[S, V] = attrs.field(converter=_announced)
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
        """Run one pass over the object `key`: observe, decide, execute.

        `stored` is the cached object, or None if the cache does not have it. `on_write` is called for each write. The
        result has the decision, the writes, and the time of the next pass. OperatorErrors of the observation are
        raised. OperatorErrors of writes are returned in the result.
        """
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

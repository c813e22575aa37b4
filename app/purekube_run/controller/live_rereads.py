"""A safety net: objects that have been in progress for long are read live, whatever the caches hold.

Watches deliver every change and answers are checked, so this should never find a difference. But if a cache were wrong,
an object waiting on it would otherwise wait for the next full list.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs
import structlog

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Clock
from purekube_run.controller.informers import Informers

_RECONCILING: Final = "Reconciling"
"""The condition that reports that an object is in progress."""

_log = structlog.get_logger("operator")


@attrs.define
class LiveRereads:
    """The keys in progress, each with the time since when, or of its last live read; read after `every` seconds."""

    informers: Informers
    clock: Clock
    every: float = 300.0
    _since: dict[ObjectRef, float] = attrs.field(factory=dict)

    async def reread_if_due(self, key: ObjectRef, refs: Callable[[], Iterable[ObjectRef]]) -> None:
        """Read the objects that a key waits for live into the caches, if the key has been in progress for long.

        Never raises.
        """
        now = self.clock.monotonic()
        if now - self._since.get(key, now) < self.every:
            return
        self._since[key] = now
        for ref in refs():
            try:
                await self.informers.refresh(ref, overwrite=True)
            except OperatorError as error:
                _log.debug("not read anew", object=str(ref), error=error.message)

    def forget(self, key: ObjectRef) -> None:
        """Forget a key that is finished or deleted."""
        self._since.pop(key, None)

    def until_next(self, key: ObjectRef, result: ReconcileResult, *, under_way: bool) -> ReconcileResult:
        """Return the result, requeued for the next live read if its key is in progress after the pass.

        Called after the pass, since the pass may have just begun something, and no event may ever cause another pass.
        """
        if not under_way:
            self.forget(key)
            return result
        since = self._since.setdefault(key, self.clock.monotonic())
        wait = max(1.0, since + self.every - self.clock.monotonic())  # rounded, a wait may end just before it is due
        return attrs.evolve(result, requeue=result.requeue.no_later_than(wait))


def is_reconciling(written: Manifest | None, before: Iterable[Condition]) -> bool:
    """Report whether Reconciling is True in the status that a pass has written, else in the one before."""
    if written is None:
        return any(condition.type == _RECONCILING and condition.status is ConditionStatus.TRUE for condition in before)
    conditions = get_path(written, "status", "conditions") or ()
    return any(
        condition["type"] == _RECONCILING and condition["status"] == ConditionStatus.TRUE for condition in conditions
    )

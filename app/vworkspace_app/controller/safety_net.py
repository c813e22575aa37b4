"""What has been under way for long is read anew, whatever the caches say (D23).

Watches deliver every change and answers are checked, so nothing should ever be found here. Should a cache be wrong all
the same, what waits for it would wait for the next full list.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs
import structlog

from vworkspace_app.controller.informers import Informers
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, get_path
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.controller.reconcile import ReconcileResult
from vworkspace_core.ports import Clock

_RECONCILING: Final = "Reconciling"

_log = structlog.get_logger("operator")


@attrs.define
class SafetyNet:
    """Knows since when each key is under way, or since its last look, and looks again after `every` seconds."""

    informers: Informers
    clock: Clock
    every: float = 300.0
    _since: dict[ObjectRef, float] = attrs.field(factory=dict)

    async def look_if_due(self, key: ObjectRef, refs: Callable[[], Iterable[ObjectRef]]) -> None:
        """Read what a key waits for live into the caches, where it has been under way for long. Never raises."""
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
        """The key is not under way any more, or not there."""
        self._since.pop(key, None)

    def until_next(self, key: ObjectRef, result: ReconcileResult, *, under_way: bool) -> ReconcileResult:
        """The result, with the next look at a key that is under way after it.

        Asked after the pass: where it has just begun something, no event need ever come that brings another pass.
        """
        if not under_way:
            self.forget(key)
            return result
        since = self._since.setdefault(key, self.clock.monotonic())
        wait = max(1.0, since + self.every - self.clock.monotonic())  # rounded, a wait may end just before it is due
        return attrs.evolve(result, requeue=result.requeue.no_later_than(wait))


def is_reconciling(written: Manifest | None, before: Iterable[Condition]) -> bool:
    """Whether the condition Reconciling is True, by the status that a pass has written, or else by the one before."""
    if written is None:
        return any(one.type == _RECONCILING and one.status is ConditionStatus.TRUE for one in before)
    conditions = get_path(written, "status", "conditions") or ()
    return any(one["type"] == _RECONCILING and one["status"] == ConditionStatus.TRUE for one in conditions)

"""What has been under way for long is read anew, whatever the caches say (D23).

Watches deliver every change and answers are checked, so nothing should ever be found here. Should a cache be wrong all
the same, what waits for it would wait for the next full list.
"""

from collections.abc import Iterable

import attrs
import structlog

from vworkspace_app.controller.informers import Informers
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.controller.reconcile import ReconcileResult
from vworkspace_core.ports import Clock

_log = structlog.get_logger("operator")


@attrs.define
class SafetyNet:
    """Knows since when each key is under way, or since its last look, and looks again after `every` seconds."""

    informers: Informers
    clock: Clock
    every: float = 300.0
    _since: dict[ObjectRef, float] = attrs.field(factory=dict)

    def is_due(self, key: ObjectRef) -> bool:
        """Whether the key, which is under way, has been so for long."""
        now = self.clock.monotonic()
        return now - self._since.setdefault(key, now) >= self.every

    async def look(self, key: ObjectRef, refs: Iterable[ObjectRef]) -> None:
        """Read what a key waits for live into the caches. Never raises."""
        self._since[key] = self.clock.monotonic()
        for ref in refs:
            try:
                await self.informers.refresh(ref, overwrite=True)
            except OperatorError as error:
                _log.debug("not read anew", object=str(ref), error=error.message)

    def forget(self, key: ObjectRef) -> None:
        """The key is not under way any more, or not there."""
        self._since.pop(key, None)

    def until_next(self, key: ObjectRef, result: ReconcileResult) -> ReconcileResult:
        """The result, with the next look at a key that is under way."""
        since = self._since.get(key)
        if since is None:
            return result
        wait = max(0.0, since + self.every - self.clock.monotonic())
        return attrs.evolve(result, requeue=result.requeue.no_later_than(wait))

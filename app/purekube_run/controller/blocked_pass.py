"""Reports on an object what stopped its pass, and on an unmanaged object why nothing happens (REC-13, RES-5)."""

from collections.abc import Callable, Mapping

import attrs
import structlog

from purekube.apimachinery.errors import Forbidden, NotFound, OperatorError, Right, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.apimachinery.secret_material import safe
from purekube.controller.blocked_pass import BlockedPass, BlockedWords
from purekube.controller.events.once import Once
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.ports import Clock, EventSink, KubeApi, KubernetesEvent
from purekube_run.controller.informers import Informers
from purekube_run.controller.pass_log import log_status
from vworkspace_core.api.blocked_pass import decide_blocked
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.remedies import remedy
from vworkspace_core.api.unmanaged import unmanaged

_log = structlog.get_logger("operator")


@attrs.define
class BlockedPassReporter:
    """A reporter that writes the obstacle to the object's status through `api`, for the kinds in `words`."""

    words: Mapping[Kind, BlockedWords]
    api: KubeApi
    informers: Informers
    cluster_id: str | None
    clock: Clock
    events: EventSink
    on_write: Callable[[ObjectRef, ObjectVersion], None] = lambda key, written: None
    manager: str = FIELD_MANAGER
    remedy: Callable[[Right], str] = remedy
    """A function that returns the command which grants a missing right."""
    _refused: Once = attrs.field(factory=Once)
    _unmanaged: Once = attrs.field(factory=Once)

    async def report(self, key: ObjectRef, blocked: BlockedPass) -> None:
        """Write the obstacle into the status, unless it is there already. If that fails, write an Event and a log line.

        Never raises.
        """
        if blocked.right is not None and blocked.right.resource.endswith("/status"):
            await self._unwritten(key, blocked, blocked.message, blocked.right)  # the refused write itself
            return
        try:
            held = self.informers.store(key.kind, key.namespace).get(key.namespace, key.name)
            manifest = await self.informers.whole(key, held)
            if manifest is not None:
                await self._write(key, manifest, blocked)
        except OperatorError as error:
            await self._unsaid(key, blocked, error)
        except Exception as error:
            _log.error("the status could not be written", object=str(key), obstacle=blocked.text, exc_info=error)

    async def _write(self, key: ObjectRef, manifest: Manifest, blocked: BlockedPass) -> None:
        words = self.words.get(key.kind)
        if words is None:
            return
        decision = decide_blocked(words, manifest, blocked, self.cluster_id, self.clock.now())
        if decision.status is None:
            return
        answer = await self.api.apply_status(decision.status, kind=key.kind, field_manager=self.manager)
        self._refused.forget(str(key))
        self.on_write(key, (key, str(metadata(answer).get("resourceVersion", ""))))
        log_status(key, decision)
        for event in decision.events:
            await self.events.emit(event)

    async def _unsaid(self, key: ObjectRef, blocked: BlockedPass, error: OperatorError) -> None:
        if isinstance(error, Stale | NotFound):
            return  # the object has changed: the next pass sees its new state
        await self._unwritten(key, blocked, error.message, error.right if isinstance(error, Forbidden) else None)

    async def _unwritten(self, key: ObjectRef, blocked: BlockedPass, why: str, right: Right | None) -> None:
        if not self._refused.first(str(key), why):
            return
        fields = {"object": str(key), "obstacle": blocked.text, "error": why}
        if right is not None:
            fields |= {"right": str(right), "remedy": self.remedy(right)}
        _log.error("the status could not be written", **fields)
        note = f"{blocked.text}; the status cannot say so: {why}" if why != blocked.message else blocked.text
        uid = str(
            metadata(self.informers.store(key.kind, key.namespace).get(key.namespace, key.name) or {}).get("uid", "")
        )
        await self.events.emit(KubernetesEvent(key, uid, "Warning", "StatusNotWritten", "Reconcile", safe(note)))

    async def report_unmanaged(self, key: ObjectRef, manifest: Manifest) -> None:
        """Emit one Event on an object of ours that lacks the label by which the operator acts on it."""
        event = unmanaged(key, manifest)
        if event is not None and self._unmanaged.first(str(key), event.regarding_uid):
            _log.info("left alone: not labelled for this operator", object=str(key), why=event.note)
            await self.events.emit(event)

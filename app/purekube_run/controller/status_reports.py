"""Reports on reconciles: log lines, and the status of an object whose reconcile an error stopped (RUN-5, REC-13)."""

from collections.abc import Callable

import attrs
import msgspec
import structlog

from purekube.apimachinery.conditions import Transition
from purekube.apimachinery.errors import Conflict, Forbidden, NotFound, OperatorError, Right, Stale
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.secret_material import safe
from purekube.apimachinery.structuring import read_own_conditions
from purekube.composites.status_writers import other_writer, refusal
from purekube.controller.decision import Decision
from purekube.controller.event_series import Once
from purekube.controller.execute import STATUS, write_status
from purekube.controller.queue.own_writes import ObjectVersion
from purekube.controller.reconcile import ReconcileResult
from purekube.controller.reconcile_error import ReconcileError, blocked_status
from purekube.controller.status import is_bad
from purekube.ports import Clock, EventSink, KubeApi, KubernetesEvent
from purekube_run.controller.controller import ControllerDefinition
from purekube_run.controller.informers import StoredObject
from purekube_run.controller.observer import DECISION

_pass_log = structlog.get_logger("reconcile")


def log_pass(key: ObjectRef, result: ReconcileResult) -> None:
    """Log a line that names the objects that a pass over `key` wrote, and a line if it wrote the status.

    `result` is the result of the pass, which is one reconcile of the object.
    """
    if writes := [f"{verb} {ref}" for verb, ref in result.executed if verb != STATUS]:
        _pass_log.info("written", object=str(key), writes=writes)
    if result.status is not None:
        log_status(key, result.decision)


def log_status(key: ObjectRef, decision: Decision) -> None:
    """Log the conditions that a written status changed. If only other fields changed, the line has level `debug`."""
    changed = decision.transitions
    if not changed:
        _pass_log.debug("status written", object=str(key))
        return
    conditions = [change.condition for change in changed]
    bad = [condition for condition in conditions if is_bad(condition)]
    level = _pass_log.warning if bad else _pass_log.info
    phase = get_path(decision.status, "status", "phase")
    level(
        "status changed",
        object=str(key),
        **({"phase": phase} if phase else {}),
        conditions=[_text_of(change) for change in changed],
        message=next((condition.message for condition in (*bad, *conditions) if condition.message), ""),
    )


def _text_of(change: Transition) -> str:
    condition = change.condition
    return f"{condition.type}={condition.status}/{condition.reason}"


_log = structlog.get_logger("operator")


@attrs.define(eq=False)
class StatusReports:
    """The component that reports to users why a controller's passes over an object fail, once for each error.

    A pass is one reconcile of the object. An error that stops a pass is written into the object's status. If that is
    not possible, it is reported by an Event and in the log.
    """

    controller: ControllerDefinition
    api: KubeApi
    clock: Clock
    events: EventSink
    on_write: Callable[[ObjectRef, ObjectVersion], None]
    _unwritten: Once = attrs.field(factory=Once)
    _conflicts: dict[ObjectRef, str] = attrs.field(factory=dict)

    # --- a pass that an error stopped (REC-13) ----------------------------------------------------------------------

    async def report_blocked(self, key: ObjectRef, blocked: ReconcileError) -> None:
        """Write `blocked`, the error that stopped a pass over the object `key`, into its status, unless the status
        already has it.

        If the write fails, emit an Event and log the error instead. Never raises.
        """
        if blocked.right is not None and blocked.right.resource.endswith("/status"):
            await self._report_unwritten(key, blocked, blocked.message, blocked.right)  # the refused write itself
            return
        try:
            stored = await self.controller.stored(key)
            if stored is not None:
                await self._write(key, stored.manifest, blocked)
        except (Stale, NotFound):
            pass  # the object has changed: the next pass sees its new state
        except OperatorError as error:
            right = error.right if isinstance(error, Forbidden) else None
            await self._report_unwritten(key, blocked, error.message, right)
        except Exception as error:
            _log.error("the status could not be written", object=str(key), obstacle=blocked.text, exc_info=error)

    async def _write(self, key: ObjectRef, manifest: Manifest, blocked: ReconcileError) -> None:
        writer = self.controller.writer
        if writer.words is None:
            return
        conditions = read_own_conditions(manifest, writer.words.types)
        decision = blocked_status(writer.words, manifest, conditions, blocked, self.clock.now())
        if decision.status is None:
            return
        DECISION.set(decision)
        answer = await write_status(self.api, key.kind, decision.status, writer.owner.manager)
        self._unwritten.forget(str(key))
        self.on_write(key, (key, str(metadata(answer).get("resourceVersion", ""))))
        log_status(key, decision)
        for event in decision.events:
            await self.events.emit(event)

    async def _report_unwritten(self, key: ObjectRef, blocked: ReconcileError, why: str, right: Right | None) -> None:
        if not self._unwritten.first(str(key), why):
            return
        fields = {"object": str(key), "obstacle": blocked.text, "error": why}
        if right is not None:
            fields |= {"right": str(right), "remedy": self.controller.writer.remedy(right)}
        _log.error("the status could not be written", **fields)
        note = f"{blocked.text}; the status cannot say so: {why}" if why != blocked.message else blocked.text
        raw = self.controller.raw(key)
        await self._emit(key, {} if raw is None else msgspec.json.decode(raw), "StatusNotWritten", safe(note))

    # --- a status that another field manager holds (RES-4) ----------------------------------------------------------

    async def report_conflict(self, key: ObjectRef, result: ReconcileResult) -> None:
        """Report that the status could not be written because another field manager owns fields of it.

        Does nothing unless `result` has such a Conflict. The report goes to the log and into an Event, and is repeated
        only after a successful pass.
        """
        if not isinstance(result.error, Conflict):
            if result.error is None:
                self._conflicts.pop(key, None)
            return
        try:
            live = await self.api.get(key)
        except OperatorError:
            return  # the write is tried again, and reported then
        note = str(self.controller.writer.owner.holder(live) or result.error.message)
        await self._report_held(key, live, note)

    async def is_anothers(self, key: ObjectRef, stored: StoredObject) -> bool:
        """Report whether another controller writes the status of the object `stored`, so that this controller must
        leave the object alone.

        If so, this is logged and emitted as an Event once. The result is always False for an object that is being
        deleted, and for a controller whose `StatusManager.yields` is False.
        """
        writer = self.controller.writer
        if not writer.yields or not other_writer(writer.owner, stored.manifest):
            return False
        if "deletionTimestamp" in metadata(stored.manifest):
            return False
        try:
            live = await self.api.get(key)  # the command names an entry of managedFields, which caches do not keep all
        except OperatorError:
            return True
        if not (other := other_writer(writer.owner, live)):
            return False
        await self._report_held(key, live, refusal(writer.title, other, writer.owner.hand_over(live)))
        return True

    async def _report_held(self, key: ObjectRef, live: Manifest, note: str) -> None:
        if self._conflicts.get(key) == note:
            return
        self._conflicts[key] = note
        _log.error("the status is another's", object=str(key), why=note)
        await self._emit(key, live, "StatusHeld", note)

    async def _emit(self, key: ObjectRef, manifest: Manifest, reason: str, note: str) -> None:
        uid = str(metadata(manifest).get("uid", ""))
        await self.events.emit(KubernetesEvent(key, uid, "Warning", reason, "Reconcile", note))

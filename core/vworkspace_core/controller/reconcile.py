"""One reconcile pass: decide, execute, decide again; the only code that turns effects into calls of `KubeApi`.

Expected flow
    decide → finalizer → patches → applies → creates → deletes → decide again on what came of it → … → status → events.
    A second round finds nothing more to write downstream (REC-6); its status is the one that is written, so that
    the status always speaks of the world after the writes.
Guarantees
    The finalizer is on before the first downstream write. The status goes out in one apply with the
    resourceVersion it was decided on (REC-7). An apply holds the uid and resourceVersion that it was decided on: one
    that arrives late, from a process that does not lead any more, changes nothing (RUN-4). Events follow a written
    status only. A decision that may be made from the newest copy of its source only (`only_if_current`) writes
    nothing downstream from an older one.
Errors
    None of the port's errors leaves `run_pass`: refused writes downstream come back to the decision as `Failure`s,
    and what stops the source's own writes is in `ReconcileResult.error`.
"""

from collections.abc import Callable
from enum import StrEnum

import attrs

from vworkspace_core.apimachinery.errors import Forbidden, NotFound, OperatorError, Unavailable, first_refusal
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, get_path
from vworkspace_core.controller.decision import Decision
from vworkspace_core.controller.execute import (
    STATUS,
    OnWrite,
    PassRules,
    ReconcilePass,
    S,
    V,
    write_downstream,
    write_status,
)
from vworkspace_core.controller.requeue import SLOW_SECONDS, Requeue, RequeuePace, requeue_for
from vworkspace_core.ports import EventSink, KubeApi


class ResultLabel(StrEnum):
    """The `result` label of controller_runtime_reconcile_total, plus the two that need naming apart."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    """The copy was overtaken; looked at again at once."""
    ERROR = "error"
    TERMINAL = "terminal"
    """Not retried: only another spec, or a person, can help."""


@attrs.frozen
class ReconcileResult:
    """What a reconcile pass did, and when the object is looked at again.

    `written` holds each object written and the resourceVersion the server answered: the key is not decided again from
    a cache that has not seen them. `executed` is what was done to which object, `STATUS` for the source's own status.
    `error` is for the log and the metrics; what it asks for is the default of `requeue`.
    """

    decision: Decision = attrs.field(factory=Decision)
    written: tuple[tuple[ObjectRef, str], ...] = ()
    error: OperatorError | None = None
    requeue: Requeue = attrs.field()
    at_fixed_point: bool = False
    """Another pass over what was written would write nothing: the events of its own writes need not wake the key."""
    is_reported: bool = False
    """The object's own status says what `error` is about."""
    executed: tuple[tuple[str, ObjectRef], ...] = ()

    @requeue.default
    def _as_error_asks(self) -> Requeue:
        return requeue_for(self.error)

    @property
    def writes(self) -> int:
        """How many writes reached the API server."""
        return len(self.executed)

    @property
    def status(self) -> Manifest | None:
        """The status that was written; None when none was."""
        return self.decision.status if any(verb == STATUS for verb, _ in self.executed) else None

    @property
    def label(self) -> ResultLabel:
        """What the metrics call this result."""
        match self.requeue.pace:
            case RequeuePace.IMMEDIATE:
                return ResultLabel.REQUEUE
            case RequeuePace.BACKOFF | RequeuePace.REFUSED | RequeuePace.TOLD:
                return ResultLabel.ERROR
            case _ if self.error is not None:
                return ResultLabel.TERMINAL
            case RequeuePace.NONE if self.requeue.after is None:
                return ResultLabel.SUCCESS
            case _:
                return ResultLabel.REQUEUE_AFTER


async def run_pass(
    reconciler: PassRules[S, V],
    source: S,
    observed: V,
    api: KubeApi,
    events: EventSink,
    on_write: OnWrite = lambda written: None,
    is_backlogged: Callable[[], bool] = lambda: False,
) -> ReconcileResult:
    """Decide, write, and decide again until nothing downstream is left to write; then write the status.

    `on_write` is called for each write as it is answered, since a pass may be cancelled after it (RUN-3). While
    `is_backlogged`, a status that may wait is left to the next pass, which writes it, or what has come of it by then.
    """
    work = ReconcilePass(reconciler, api, source, observed, on_write)
    decision = reconciler.decide(work.source, work.observed)
    try:
        for _ in range(reconciler.rounds):
            if not decision.writes_downstream:
                break
            if await write_downstream(work, decision):
                return await _finished(work, decision, events)
            decision = reconciler.decide(work.source, work.observed)
        if work.executed and decision.status is not None and decision.status_may_wait and is_backlogged():
            decision = _without_status(decision)
        if decision.status is not None:
            await write_status(work, decision.status)
    except NotFound:
        # The source has gone meanwhile: its DELETED event is on the way.
        return _result(work, decision, None, Requeue.at_latest(decision.requeue.after))
    except OperatorError as error:
        return _result(work, decision, error, _requeue_of_stopped(decision, error))
    return await _finished(work, decision, events)


def _without_status(decision: Decision) -> Decision:
    """The decision with its status left to another pass. There nothing is written downstream, so it is written then."""
    requeue = decision.requeue.no_later_than(decision.status_may_wait)
    return attrs.evolve(decision, status=None, events=(), transitions=(), requeue=requeue)


async def _finished(work: ReconcilePass[S, V], decision: Decision, events: EventSink) -> ReconcileResult:
    for event in decision.events:
        await events.emit(event)
    error = _error_of(work, decision)
    is_reported = decision.requeue.pace is RequeuePace.REFUSED
    return _result(work, decision, error, decision.requeue, is_finished=True, is_reported=is_reported)


def _result(
    work: ReconcilePass[S, V],
    decision: Decision,
    error: OperatorError | None,
    requeue: Requeue,
    *,
    is_finished: bool = False,
    is_reported: bool = False,
) -> ReconcileResult:
    idle = is_finished and requeue.pace is RequeuePace.NONE and not decision.writes_downstream
    return ReconcileResult(
        decision,
        tuple((ref, version) for ref, version in work.written if version),
        error,
        requeue,
        at_fixed_point=work.reconciler.idempotent and idle,
        is_reported=is_reported,
        executed=tuple(work.executed),
    )


def _error_of(work: ReconcilePass[S, V], decision: Decision) -> OperatorError | None:
    """Why a finished pass is to be tried again; what only outside help can cure is no error of the pass."""
    match decision.requeue.pace:
        case RequeuePace.REFUSED:
            return first_refusal(failure.error for failure in work.observed.failures)
        case RequeuePace.BACKOFF:
            return Unavailable(_message_of(decision))
        case _:
            return None


def _requeue_of_stopped(decision: Decision, error: OperatorError) -> Requeue:
    """When to look again after an error that stopped the source's own writes: in a minute where no retry may help."""
    requeue = requeue_for(error).no_later_than(decision.requeue.after)
    match error:
        case Unavailable():
            return requeue
        case Forbidden() if error.right is not None:
            return requeue
        case _:
            return requeue.no_later_than(SLOW_SECONDS)


def _message_of(decision: Decision) -> str:
    """What the decision's status says of the failure, for the log line."""
    conditions = get_path(decision.status, "status", "conditions") or ()
    messages = (get_path(condition, "message") for condition in conditions if get_path(condition, "status") == "True")
    return next((message for message in messages if message), "it is tried again; the status says why")

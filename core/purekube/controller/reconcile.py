"""One reconcile pass: decide, carry out the decision's writes by `KubeApi`, decide again. No other code does this.

Expected flow
    decide → finalizer → patches → applies → creates → deletes → decide again on the result → … → status → events.
    The second round finds nothing more to write downstream, to objects other than the reconciled one (REC-6); its
    status is the one that is written, so that the status always describes the cluster after the writes.
Guarantees
    The finalizer is set before the first downstream write. The status is sent in one apply with the
    resourceVersion it was decided on (REC-7). An apply carries the uid and resourceVersion that it was decided on: one
    that arrives late, from a process that does not lead any more, changes nothing (RUN-4). Events are emitted only
    after the status is written. A decision that must be made from the newest copy of its source (`only_if_current`)
    writes nothing downstream if its copy is older.
Errors
    None of the port's errors leaves `run_pass`: refused writes downstream come back to the decision as `Failure`s,
    and what stops the source's own writes is in `ReconcileResult.error`.
"""

from collections.abc import Callable
from enum import StrEnum

import attrs

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.errors import Forbidden, NotFound, OperatorError, Unavailable, first_refusal
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.controller.decision import SLOW_SECONDS, Decision, Requeue, RequeuePace, requeue_for
from purekube.controller.execute import (
    STATUS,
    OnWrite,
    PassRules,
    ReconcilePass,
    S,
    V,
    write_downstream,
    write_own_status,
)
from purekube.ports import EventSink, KubeApi


class ResultLabel(StrEnum):
    """The values of the label `result` of the metric controller_runtime_reconcile_total: those of controller-runtime,
    and `terminal` for an error that is not retried.
    """

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    """The pass worked on an outdated copy of the object, which is reconciled again at once."""
    ERROR = "error"
    TERMINAL = "terminal"
    """The error is not retried: only another spec, or a person, can help."""


@attrs.frozen
class ReconcileResult:
    """The outcome of a reconcile pass, and the time of the next one.

    `written` holds each written object with the resourceVersion that the server returned; the source (the reconciled
    object) is not reconciled again from a cache that has not seen these versions. `executed` holds verb and object of
    each write; the verb is `STATUS` for the source's own status. `error` is for the log and the metrics; by default
    `requeue` is derived from it.
    """

    decision: Decision = attrs.field(factory=Decision)
    written: tuple[tuple[ObjectRef, str], ...] = ()
    error: OperatorError | None = None
    requeue: Requeue = attrs.field()
    at_fixed_point: bool = False
    """True if another pass would write nothing, so that the events of this pass's own writes need not wake the key."""
    is_reported: bool = False
    """True if the object's own status reports `error`."""
    executed: tuple[tuple[str, ObjectRef], ...] = ()

    @requeue.default
    def _as_error_asks(self) -> Requeue:
        return requeue_for(self.error)

    @property
    def writes(self) -> int:
        """The number of writes that reached the API server."""
        return len(self.executed)

    @property
    def status(self) -> Manifest | None:
        """The status that was written; None if no status was written."""
        return self.decision.status if any(verb == STATUS for verb, _ in self.executed) else None

    @property
    def label(self) -> ResultLabel:
        """The value of the metric label `result` for this pass."""
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
    """Decide and write in rounds until nothing except the status is left to write; then write the status. Return the
    outcome.

    `reconciler` has the rules of the kind, `source` is the object to reconcile, and `observed` the state from which the
    first decision is made. `events` receives the Events once the status is written.

    `on_write` is called as soon as the server answers a write, because the pass may be cancelled before it ends
    (RUN-3). If `is_backlogged` returns True after a write, a status that may wait is left to a later pass. If the rules
    promise that nothing else is left to write (`PassRules.idempotent`), the next decision is not even computed then.
    """
    work = ReconcilePass(reconciler, api, source, observed, on_write)
    decision = reconciler.decide(work.source, work.observed)
    try:
        for _ in range(reconciler.rounds):
            if not decision.writes_downstream:
                break
            if await write_downstream(work, decision):
                return await _finished(work, decision, events)
            if _leaves_nothing_but_status(work, decision) and is_backlogged():
                return await _finished(work, _status_left(decision), events)
            decision = reconciler.decide(work.source, work.observed)
        if decision.status is not None and decision.status_may_wait and is_backlogged():
            decision = _status_left(decision)
        if decision.status is not None:
            await write_own_status(work, decision.status)
    except NotFound:
        # The source was deleted meanwhile: its DELETED event is on the way.
        return _result(work, decision, None, Requeue.at_latest(decision.requeue.after))
    except OperatorError as error:
        return _result(work, decision, error, _requeue_of_stopped(decision, error))
    return await _finished(work, decision, events)


def _leaves_nothing_but_status(work: ReconcilePass[S, V], decision: Decision) -> bool:
    """Report whether the next decision of this pass could only write a status that may wait.

    It is True after `decision` was written without a refusal, if the rules are idempotent.
    """
    return bool(work.reconciler.idempotent and decision.status_may_wait and not work.observed.failures)


def _status_left(decision: Decision) -> Decision:
    """Return a decision that writes nothing and is requeued within `status_may_wait` seconds, in order to write the
    status of `decision` and emit its Events.
    """
    requeue = decision.requeue.no_later_than(decision.status_may_wait)
    return Decision(requeue=requeue, awaits=decision.awaits, row=decision.row)


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
    """Return the error for which a finished reconcile pass is retried; None if a retry alone cannot help."""
    match decision.requeue.pace:
        case RequeuePace.REFUSED:
            return first_refusal(failure.error for failure in work.observed.failures)
        case RequeuePace.BACKOFF:
            return Unavailable(_message_of(decision))
        case _:
            return None


def _requeue_of_stopped(decision: Decision, error: OperatorError) -> Requeue:
    """Return the requeue after an error that stopped writes of the source (the reconciled object). After an outage or a
    missing right the result is that of `requeue_for`. After any other error the source is requeued within a minute.
    """
    requeue = requeue_for(error).no_later_than(decision.requeue.after)
    match error:
        case Unavailable():
            return requeue
        case Forbidden() if error.right is not None:
            return requeue
        case _:
            return requeue.no_later_than(SLOW_SECONDS)


def _message_of(decision: Decision) -> str:
    """Return, for the log line, the message of the first condition that is True in the decision's status."""
    messages = (each.get("message") for each in conditions_of(decision.status) if each.get("status") == "True")
    return next((message for message in messages if message), "it is tried again; the status says why")

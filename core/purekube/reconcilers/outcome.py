"""The outcome of one call of a user's controller (of `reconcile`, or of a watcher's method), and what follows from it:
conditions, requeue and remembered state (PH-7).
"""

from typing import Any, Final, TypeAlias, assert_never

import attrs

from purekube.apimachinery.conditions import (
    DELETING,
    READY,
    RECONCILING,
    STALLED,
    DesiredCondition,
    progressing,
    stalled,
)
from purekube.apimachinery.errors import NameTaken, OperatorError, Permanent, Unavailable
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.secret_material import safe
from purekube.controller.backoff import jitter_of
from purekube.controller.decision import SLOW_SECONDS, Requeue, RequeuePace
from purekube.reconcilers.controllers import Feature
from purekube.reconcilers.progress import CallController, ObjectProgress, ProgressRules, after_failure, after_success
from purekube.reconcilers.request import Result, RetryPolicy, Terminal, delay_of

SUCCEEDED: Final = "Succeeded"
PROGRESSING: Final = "Progressing"
RETRYING: Final = "Retrying"
FAILED: Final = "ReconcileFailed"
NAME_TAKEN: Final = "NameTaken"
TIMED_OUT: Final = "TimedOut"
UNREADABLE: Final = "ObjectUnreadable"
_LONGEST: Final = 4096


@attrs.frozen
class Returned:
    """The outcome of a call of the user's controller that returned a Result. A watcher's method returns nothing, which
    counts as an empty Result.
    """

    result: Result[Any]


@attrs.frozen
class Raised:
    """The outcome of a call of the user's controller that raised an error, whose `text` is for people. `retry_after` is
    the number of seconds for which a remote service asked not to be called again.
    """

    text: str
    retry_after: float = 0.0
    reason: str = FAILED


@attrs.frozen
class Ended:
    """The outcome of a call of the user's controller that raised `Terminal`: there is no retry."""

    reason: str
    message: str


@attrs.frozen
class Late:
    """The outcome of a call of the user's controller that was cancelled at its time limit of `seconds`."""

    seconds: float


@attrs.frozen
class Unread:
    """The outcome for an object that does not fit its attrs classes, so that the user's controller was not called."""

    problems: str


CallOutcome: TypeAlias = Returned | Raised | Ended | Late | Unread


@attrs.frozen
class Consequences:
    """The consequences of the outcome of a call of the user's controller for an object.

    `progress` is what this process remembers about the object until the next call. `requeue` is the time of the next
    pass, and `error` the error to log. `conditions` are the conditions to write, or None if the status is not
    to be written.
    """

    progress: ObjectProgress
    requeue: Requeue
    error: OperatorError | None = None
    conditions: tuple[DesiredCondition, ...] | None = None


def raised(error: BaseException) -> Raised | Ended:
    """Return the outcome for an exception that the user's controller raised: Ended for `Terminal`, Raised for any
    other.

    Secrets in the exception's text are hidden.
    """
    if isinstance(error, Terminal):
        return Ended(error.reason, safe(error.message, _LONGEST))
    retry_after = error.retry_after if isinstance(error, Unavailable) and error.retry_after else 0.0
    reason = NAME_TAKEN if isinstance(error, NameTaken) else FAILED
    return Raised(safe(_text_of(error), _LONGEST), retry_after, reason)


def _text_of(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:
        said = ""
    if isinstance(error, BaseExceptionGroup):
        said = "; ".join(_text_of(exception) for exception in error.exceptions)
    name = type(error).__name__
    return said if isinstance(error, OperatorError) and said else f"{name}: {said}" if said else name


def failure_text(outcome: CallOutcome) -> str:
    """Return why the call of the user's controller failed, as text for people; "" if it did not fail."""
    match outcome:
        case Returned():
            return ""
        case Raised(text):
            return text
        case Ended(reason, message):
            return message or reason
        case Late(seconds):
            return f"the call was cancelled after {seconds:g} s"
        case Unread(problems):
            return problems
        case _:
            assert_never(outcome)


def consequences_of(
    rules: ProgressRules,
    progress: ObjectProgress,
    call: CallController,
    outcome: CallOutcome,
    *,
    retry: RetryPolicy,
    key: object,
) -> Consequences:
    """Return the consequences of `outcome`, with which the call `call` of the user's controller ended.

    They contain what this process remembers about the object from now on, the time of the next pass, the error to log
    (if any), and the conditions to write to the status (if any).

    `rules` are the settings of the controller. `progress` is what this process remembered about the object before the
    call. `retry` decides when a failed call is repeated. The retry's jitter is derived from `key`, the object's name,
    so that objects that fail together are retried at different times.
    """
    match outcome:
        case Returned(result):
            return _after_return(rules, progress, call, result)
        case Ended(reason, message):
            ended = Permanent(f"{reason}: {message}" if message else reason)
            return Consequences(after_failure(progress, stalled=True), Requeue.NO, ended, stalled(reason, message))
        case Unread(problems):
            text = f"the object does not fit its classes: {problems}"
            return Consequences(
                after_failure(progress, stalled=True), Requeue.NO, Permanent(text), stalled(UNREADABLE, text)
            )
        case Late():
            return _after_failure(rules, progress, retry, TIMED_OUT, failure_text(outcome), key)
        case Raised(text, retry_after, reason):
            return _after_failure(rules, progress, retry, reason, text, key, retry_after)
        case _:
            assert_never(outcome)


def _after_return(
    rules: ProgressRules, progress: ObjectProgress, call: CallController, result: Result[Any]
) -> Consequences:
    state = result.state if Feature.STATE in rules.features else None
    after = after_success(progress, call, complete=result.is_complete, state=state)
    requeue = Requeue.at_latest(result.requeue_after)
    if result.waiting and result.requeue_after is None:
        requeue = Requeue.at_latest(SLOW_SECONDS)  # no watch may report that the waiting is over
    waiting = safe(result.waiting, _LONGEST)
    if call.deleting:
        conditions = None if result.is_complete else progressing(DELETING, waiting)
        return Consequences(after, requeue, None, conditions)
    if result.waiting:
        return Consequences(after, requeue, None, (*progressing(PROGRESSING, waiting), *result.conditions))
    return Consequences(after, requeue, None, (*_done(), *result.conditions))


def _after_failure(
    rules: ProgressRules,
    progress: ObjectProgress,
    retry: RetryPolicy,
    reason: str,
    text: str,
    key: object,
    retry_after: float = 0.0,
) -> Consequences:
    attempt = progress.attempts + 1
    delay = delay_of(retry, attempt, jitter_of(key, attempt)) if Feature.RETRY in rules.features else None
    error = Unavailable(text)
    if delay is None:
        return Consequences(after_failure(progress, stalled=False), Requeue.NO, error, stalled(reason, text))
    requeue = Requeue(RequeuePace.TOLD, after=max(delay, retry_after))
    return Consequences(after_failure(progress, stalled=False), requeue, error, progressing(reason, text, RETRYING))


# --- conditions ------------------------------------------------------------------------------------------------------


def _done() -> tuple[DesiredCondition, ...]:
    return (
        DesiredCondition(READY, ConditionStatus.TRUE, SUCCEEDED),
        DesiredCondition(RECONCILING, ConditionStatus.FALSE, SUCCEEDED),
        DesiredCondition(STALLED, ConditionStatus.FALSE, SUCCEEDED),
    )

"""Conditions on an object whose reconcile pass was stopped by a missing right, a defect or bad input (REC-13, RES-4).

The functions work on the raw manifest, since reading or deciding may be what failed. They keep all other fields of the
status as they are. Each kind says in a `ReconcileErrorWords` which conditions and fields it uses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition, Transition
from purekube.apimachinery.errors import Forbidden, OperatorError, Right
from purekube.apimachinery.manifest import Kind, Manifest, get_path, metadata, ref_of
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json
from purekube.apimachinery.nesting import LEVELS
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Decision
from purekube.controller.status import LiveStatus, event_of, status_change
from purekube.ports import KubernetesEvent

RETRYING: Final = "Retrying"
"""The condition reason for a pass that is tried again, for kinds that have no reason of their own for it."""
_READY: Final = "Ready"
_RECONCILING: Final = "Reconciling"
_STALLED: Final = "Stalled"
_LONGEST: Final = 4096
_LOG_LINE: Final = " The log line with reconcile_id "


class ReconcileErrorCause(StrEnum):
    """The causes that stop a reconcile pass. Each except TRANSIENT is also the reason of the condition about it."""

    FORBIDDEN = "Forbidden"
    INTERNAL_ERROR = "InternalError"
    TOO_DEEP = "ValidationFailed"
    """The object is nested too deeply to be processed."""
    TRANSIENT = "Transient"
    """A transient error, which is retried. Most kinds report it only while their status is not yet of the present
    generation.
    """


@attrs.frozen
class ReconcileError:
    """The cause that stopped a reconcile pass, with a message for people. `log_id` identifies the log line."""

    cause: ReconcileErrorCause
    message: str
    log_id: str = ""
    right: Right | None = None
    """The missing right, for the cause FORBIDDEN."""

    @property
    def text(self) -> str:
        """The message, followed by a reference to the log line, if there is one."""
        return f"{self.message.rstrip('.')}.{_LOG_LINE}{self.log_id} has more." if self.log_id else self.message

    @property
    def is_transient(self) -> bool:
        """True if a retry may succeed without a change of any object."""
        return self.cause is ReconcileErrorCause.TRANSIENT

    def message_over(self, before: Condition | None = None) -> str:
        """Return the message for the condition that reports the error.

        `before` is the present condition. If its message differs only in the log id, return that message: with a new
        id, each retry would write the status.
        """
        text = safe(self.text, _LONGEST)
        if before is not None and before.message.partition(_LOG_LINE)[0] == text.partition(_LOG_LINE)[0]:
            return before.message
        return text


def reconcile_error_of(
    error: Exception, not_permitted: Callable[[Right], str], log_id: str = "", *, transient: bool = False
) -> ReconcileError:
    """Return the ReconcileError by which an object's status reports `error`, which ended a reconcile pass.

    `not_permitted` returns the message for a missing right, with the command that grants it. `log_id` identifies the
    log line about the error. `transient` is True for an error of the network or a time limit.
    """
    if isinstance(error, Forbidden) and error.right is not None:
        return ReconcileError(ReconcileErrorCause.FORBIDDEN, not_permitted(error.right), right=error.right)
    if isinstance(error, OperatorError):
        cause = ReconcileErrorCause.TRANSIENT if transient else ReconcileErrorCause.INTERNAL_ERROR
        return ReconcileError(cause, f"{error.message}; tried again", log_id)
    if isinstance(error, RecursionError):
        too_deep = f"the object is nested too deeply to be judged: at most {LEVELS} levels"
        return ReconcileError(ReconcileErrorCause.TOO_DEEP, too_deep)
    message = f"a defect of the operator stopped this pass ({type(error).__name__}); it is tried again."
    return ReconcileError(ReconcileErrorCause.INTERNAL_ERROR, message, log_id)


@attrs.frozen
class ReconcileErrorWords:
    """The rules by which the status of an object of `kind` reports an error that stopped a reconcile pass: which
    conditions and fields are written, and which Events follow.
    """

    kind: Kind
    types: Sequence[str]
    """The types of conditions that the operator owns, in the order of a status."""
    conditions: Callable[[Mapping[str, Condition], ReconcileError], Iterable[DesiredCondition]]
    """A function that returns the conditions that report an error, given the present conditions and the error. Other
    conditions stay as they are.
    """
    fields: Callable[[Sequence[DesiredCondition], datetime], Mapping[str, Any]]
    """A function that returns the status fields that follow from all conditions and the time."""
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    """The status fields, with their values, that are written if the object's status lacks them."""
    events: Mapping[str, bool] = attrs.field(factory=dict)
    """Types of conditions whose transitions become Events, each with whether that Event is a warning."""
    write_condition: Callable[[Condition], Mapping[str, Any]] = condition_json
    is_ours: Callable[[Manifest], bool] = lambda manifest: True
    """A function that reports whether the operator may write the status of the object."""
    tells_retries: Callable[[Mapping[str, Condition]], bool] = lambda before: False
    """A function of the present conditions: it returns True if a transient error is reported even when the status is of
    the present generation.
    """


def standard_words(
    kind: Kind, types: Sequence[str], write_condition: Callable[[Condition], Mapping[str, Any]] = condition_json
) -> ReconcileErrorWords:
    """Return the rules by which a status with the conditions Ready, Reconciling and Stalled reports a reconcile error.

    `types` are the condition types that the controller owns, and `write_condition` returns a condition as JSON.
    """
    return ReconcileErrorWords(
        kind,
        types,
        standard_conditions,
        lambda wanted, at: {},
        events={_READY: False, _STALLED: True},
        write_condition=write_condition,
    )


def standard_conditions(before: Mapping[str, Condition], blocked: ReconcileError) -> Iterator[DesiredCondition]:
    """Yield the conditions that report the error `blocked`, which stopped a reconcile pass.

    `before` has the object's present conditions by type. If it has Ready, Ready is not changed, since running workloads
    keep running.
    """
    text = blocked.message_over(before.get(_STALLED))
    if blocked.is_transient:
        if _READY not in before:
            yield DesiredCondition(_READY, ConditionStatus.UNKNOWN, RETRYING, text)
        yield DesiredCondition(_RECONCILING, ConditionStatus.TRUE, RETRYING, text)
        return
    if _READY not in before:
        yield DesiredCondition(_READY, ConditionStatus.FALSE, blocked.cause, text)
    yield DesiredCondition(_RECONCILING, ConditionStatus.FALSE, blocked.cause)
    yield DesiredCondition(_STALLED, ConditionStatus.TRUE, blocked.cause, text)


def blocked_status(
    words: ReconcileErrorWords,
    manifest: Manifest,
    conditions: Sequence[Condition],
    blocked: ReconcileError,
    now: datetime,
) -> Decision:
    """Return a decision that writes the error `blocked` into the object's status and emits its Events.

    The decision is empty if the status already reports the error, if the rules in `words` leave it out (as most do for
    a transient error), or if this controller does not own the status. `conditions` are the object's present conditions
    of the operator's own types.
    """
    if not words.is_ours(manifest):
        return Decision()
    meta, status = metadata(manifest), manifest.get("status")
    live = LiveStatus(
        ref_of(manifest, words.kind),
        meta.get("resourceVersion", ""),
        int(meta.get("generation") or 0),
        get_path(status, "observedGeneration"),
        tuple(conditions),
        uid=str(meta.get("uid", "")),
    )
    is_covered = bool(live.conditions) and live.observed_generation == live.generation
    if blocked.is_transient and is_covered and not words.tells_retries({each.type: each for each in conditions}):
        return Decision()
    desired = _desired_conditions(words, live.conditions, blocked)
    fields = {**words.defaults, **_fields_of(status), **words.fields(desired, now)}
    change = status_change(live, desired, {}, now, not_compared=fields, write_condition=words.write_condition)
    if change is None:
        return Decision()
    return change.added_to(Decision(), _events(words, live, change.transitions))


def _fields_of(status: object) -> Mapping[str, Any]:
    """Return the status fields to keep: all except `observedGeneration` and `conditions`, which are added later."""
    if not isinstance(status, Mapping):
        return {}
    return {name: value for name, value in status.items() if name not in ("observedGeneration", "conditions")}


def _desired_conditions(
    words: ReconcileErrorWords, before: Sequence[Condition], blocked: ReconcileError
) -> tuple[DesiredCondition, ...]:
    desired = {condition.type: _unchanged_condition(condition) for condition in before}
    desired |= {
        condition.type: condition
        for condition in words.conditions({condition.type: condition for condition in before}, blocked)
    }
    return tuple(desired[name] for name in words.types if name in desired)


def _unchanged_condition(condition: Condition) -> DesiredCondition:
    generation = condition.observed_generation or 0
    return DesiredCondition(condition.type, condition.status, condition.reason, condition.message, generation)


def _events(
    words: ReconcileErrorWords, live: LiveStatus, transitions: Sequence[Transition]
) -> Iterator[KubernetesEvent]:
    for change in transitions:
        if (name := change.condition.type) in words.events:
            yield event_of(change, live, warning=words.events[name])

"""Status conditions: their comparison, their timestamps and their transitions (RES-4, REC-1).

A transition is a change of a condition's status or reason. It is reported as a Kubernetes Event, and to the control
plane (the server that offers jobs to the operator). `merge_conditions` is the only place that sets times. No two
transitions of a condition have the same time, whatever the clock does, since the time distinguishes the reports about
that condition (PULL-6).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.timestamps import exact_time, time_or_none

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
DELETING: Final = "Deleting"


@attrs.frozen
class DesiredCondition:
    """A condition, without timestamps, that a decision (the writes to make for one object) wants in the object's
    status.

    `observed_generation` None means the object's current generation.
    """

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observed_generation: int | None = None


@attrs.frozen
class Transition:
    """A change of one condition's status or reason, or a new condition.

    `previous` is the former condition, None for a new one; `condition` is the condition after the change.
    """

    previous: Condition | None
    condition: Condition


def conditions_of(manifest: Manifest | None) -> list[Mapping[str, Any]]:
    """Return the conditions in an object's status, in order. Malformed ones are left out."""
    conditions = get_path(manifest, "status", "conditions")
    if not isinstance(conditions, list | tuple):
        return []
    # A condition off the wire is a dict: this check first avoids the slow one of the abstract class.
    return [each for each in conditions if type(each) is dict or isinstance(each, Mapping)]


def conditions_by_type(manifest: Manifest | None) -> dict[str, Mapping[str, Any]]:
    """Return the conditions in an object's status, keyed by condition type."""
    return {str(each.get("type")): each for each in conditions_of(manifest)}


def condition_of(manifest: Manifest | None, condition_type: str) -> Mapping[str, Any]:
    """Return the condition of a type in an object's status, or an empty mapping if the object has no such condition."""
    return next((each for each in conditions_of(manifest) if each.get("type") == condition_type), {})


def progressing(reason: str, message: str, retrying: str = "") -> tuple[DesiredCondition, ...]:
    """Return the conditions of an object that is not ready yet: Reconciling is True, with the reason `retrying` if that
    is given.
    """
    return (
        DesiredCondition(READY, ConditionStatus.FALSE, reason, message),
        DesiredCondition(RECONCILING, ConditionStatus.TRUE, retrying or reason, message),
        DesiredCondition(STALLED, ConditionStatus.FALSE, reason),
    )


def stalled(reason: str, message: str) -> tuple[DesiredCondition, ...]:
    """Return the conditions of an object that becomes ready only after a change from outside: Stalled is True."""
    return (
        DesiredCondition(READY, ConditionStatus.FALSE, reason, message),
        DesiredCondition(RECONCILING, ConditionStatus.FALSE, reason),
        DesiredCondition(STALLED, ConditionStatus.TRUE, reason, message),
    )


def merge_conditions(
    previous: Sequence[Condition], desired: Iterable[DesiredCondition | Condition], *, generation: int, now: str
) -> tuple[Condition, ...]:
    """Return the conditions `desired` with timestamps.

    `lastTransitionTime` is kept where the condition's status equals that in `previous`, and becomes `now` elsewhere.
    The result has the order of `desired`. An item that is already a Condition is returned unchanged. Conditions of
    types that only `previous` has are left out. `generation` is the observed generation of items that name none.
    """
    before = {condition.type: condition for condition in previous}
    return tuple(
        want if isinstance(want, Condition) else _timed(before.get(want.type), want, generation, now)
        for want in desired
    )


def _timed(old: Condition | None, want: DesiredCondition, generation: int, now: str) -> Condition:
    since = old is not None and old.status == want.status and old.last_transition_time
    observed = generation if want.observed_generation is None else want.observed_generation
    return Condition(
        type=want.type,
        status=want.status,
        reason=want.reason,
        message=want.message,
        last_transition_time=old.last_transition_time if old is not None and since else now,
        observed_generation=observed,
        reason_transition_time=_reason_time(old, want, now),
    )


def _reason_time(old: Condition | None, want: DesiredCondition, now: str) -> str | None:
    """Return the time at which the status and the reason of the condition `want` began, if the status must record it.

    The field for it is `reasonTransitionTime`. Return None if the field is not needed, because `lastTransitionTime`
    shows the same time.
    """
    if old is None:
        return None
    if (old.status, old.reason) == (want.status, want.reason):
        return old.reason_transition_time
    before, at = time_or_none(old.reason_transition_time or old.last_transition_time), time_or_none(now)
    if before is None or at is None:
        return now if old.status == want.status else None
    if at > before:
        return now if old.status == want.status else None
    return exact_time(before + timedelta(microseconds=1))


def same_but_times(
    left: Sequence[Condition], right: Sequence[Condition], *, but_messages_of: Container[str] = ()
) -> bool:
    """Report whether two sets of conditions are equal apart from their order and timestamps (REC-6).

    Messages are not compared for the condition types in `but_messages_of`.
    """
    return _facts(left, but_messages_of) == _facts(right, but_messages_of)


def conditions_equal(
    desired: Iterable[DesiredCondition | Condition], conditions: Sequence[Condition], *, generation: int
) -> bool:
    """Report whether `conditions` already equal the desired conditions, in any order.

    If so, `merge_conditions` would change nothing. `generation` is the observed generation of items that name none.
    """
    asked = {
        w.type: (w.status, w.reason, generation if _is_of_now(w) else w.observed_generation, w.message) for w in desired
    }
    return asked == _facts(conditions, ())


def _is_of_now(desired: DesiredCondition | Condition) -> bool:
    return desired.observed_generation is None and not isinstance(desired, Condition)


def _facts(conditions: Sequence[Condition], silent: Container[str]) -> dict[str, tuple[object, ...]]:
    return {
        c.type: (c.status, c.reason, c.observed_generation, "" if c.type in silent else c.message) for c in conditions
    }


def transitions(before: Sequence[Condition], after: Sequence[Condition]) -> tuple[Transition, ...]:
    """Return a Transition for each condition of `after` that is new, or whose status or reason is not as in `before`.

    They have the order of `after`. A changed message, a changed time or a removed condition is not a transition.
    """
    old = {condition.type: condition for condition in before}
    return tuple(
        Transition(previous, condition)
        for condition in after
        if (previous := old.get(condition.type)) is None
        or (previous.status, previous.reason) != (condition.status, condition.reason)
    )

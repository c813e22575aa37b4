"""Changes of conditions, as both Kubernetes Events and the control plane tell them (RES-4, REC-1).

A transition is a change of status or reason. `merge_conditions` is the only place that sets times.
"""

from collections.abc import Container, Iterable, Sequence

import attrs

from vworkspace_core.kinds.meta import Condition, ConditionStatus

__all__ = ["Transition", "Wanted", "merge_conditions", "same_but_times", "transitions"]


@attrs.frozen
class Wanted:
    """A condition as a decision wants it: without times. `observed_generation` None means the current one."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observed_generation: int | None = None


@attrs.frozen
class Transition:
    """One condition that changed its status or reason; `previous` is None for one that is new."""

    previous: Condition | None
    condition: Condition


def merge_conditions(
    previous: Sequence[Condition], wanted: Iterable[Wanted], *, generation: int, now: str
) -> tuple[Condition, ...]:
    """Conditions with times: `lastTransitionTime` is kept while the status is, and is `now` otherwise.

    The result has the order of `wanted`; previous conditions that are not wanted are left out.
    """
    before = {condition.type: condition for condition in previous}
    return tuple(_timed(before.get(want.type), want, generation, now) for want in wanted)


def _timed(old: Condition | None, want: Wanted, generation: int, now: str) -> Condition:
    kept = old is not None and old.status == want.status and old.last_transition_time
    observed = generation if want.observed_generation is None else want.observed_generation
    return Condition(
        type=want.type,
        status=want.status,
        reason=want.reason,
        message=want.message,
        last_transition_time=old.last_transition_time if old is not None and kept else now,
        observed_generation=observed,
    )


def same_but_times(
    left: Sequence[Condition], right: Sequence[Condition], *, but_messages_of: Container[str] = ()
) -> bool:
    """Whether two sets of conditions say the same, whatever their order and times (REC-6).

    The messages of the types in `but_messages_of` are not compared either.
    """
    return _facts(left, but_messages_of) == _facts(right, but_messages_of)


def _facts(conditions: Sequence[Condition], silent: Container[str]) -> dict[str, tuple[object, ...]]:
    return {
        c.type: (c.status, c.reason, c.observed_generation, "" if c.type in silent else c.message) for c in conditions
    }


def transitions(before: Sequence[Condition], after: Sequence[Condition]) -> tuple[Transition, ...]:
    """What changed from `before` to `after`, in the order of `after`. Conditions that went are no transition."""
    old = {condition.type: condition for condition in before}
    return tuple(
        Transition(previous, condition)
        for condition in after
        if (previous := old.get(condition.type)) is None
        or (previous.status, previous.reason) != (condition.status, condition.reason)
    )

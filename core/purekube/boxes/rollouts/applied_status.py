"""The status of an applied box (an OperatorBox object): its four conditions, its counts, and when they are written
(PH-10).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.definitions import OPERATOR_BOX, PIN
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.problems import listed
from purekube.apimachinery.timestamps import format_time, time_or_none
from purekube.boxes.rollout_policy import DeletionPolicy
from purekube.boxes.rollouts.applied import AppliedBoxState, BoxState, decide_applied
from purekube.boxes.rollouts.judgement import Foresight, first_refusal
from purekube.boxes.rollouts.members import BoxParent
from purekube.boxes.rollouts.reasons import (
    ACCEPTED,
    CONDITIONS,
    PERMITTED,
    ROLLED_OUT,
    SERVING,
    BoxReason,
    RolloutPhase,
)
from purekube.boxes.rollouts.revisions import way_back
from purekube.boxes.rollouts.rollout import Health, RolloutMember
from purekube.controller.decision import Decision, Requeue
from purekube.controller.reconcile_error import RETRYING, ReconcileError, ReconcileErrorWords
from purekube.controller.status import LiveStatus, Minor, event_of, status_change

_FIELDS: Final = ("kind", "objects", "ready", "revision", "rollout", "judgement", "problems")
_COUNTS: Final = Minor(frozenset((ROLLED_OUT,)), frozenset(("objects", "ready", "rollout")))
_COUNT_SECONDS: Final = 5.0
"""The least number of seconds between two writes of the status in which only counts differ."""
_FILLING_SECONDS: Final = 60.0
"""The seconds for which a process may fill its caches before the status says that the box is not served."""
_MOST_NAMED: Final = 3
_MOST_PROBLEMS: Final = 50

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def decide_with_status(state: BoxState) -> Decision:
    """Return the decision (the writes to make) about an OperatorBox, with the status that reports its present state. If
    a write of this reconcile pass was refused, the decision writes only the status.
    """
    decision = Decision(requeue=Requeue.BACKOFF) if state.observed.failures else decide_applied(state)
    if decision.finalizer is not None or _is_taken_over(state):
        return decision
    live, conditions, fields = _live(state), tuple(_conditions(state)), _fields(state)
    counted = {"countedAt": format_time(state.now)}
    change = status_change(live, conditions, fields, state.now, not_compared=counted, minor=_COUNTS)
    if change is None:
        return decision
    if change.is_minor and (wait := _seconds_until_counted(state)) > 0:
        return attrs.evolve(decision, requeue=decision.requeue.no_later_than(wait))
    events = (
        event_of(each, live, warning=_is_bad(each.condition))
        for each in change.transitions
        if each.previous is not None or _is_bad(each.condition)
    )
    return change.added_to(decision, events)


def _is_taken_over(state: BoxState) -> bool:
    """Report whether the status that an earlier process wrote stays unchanged for now.

    It stays while this process fills its caches, provided that the status reports the present definition as served.
    """
    meta, seconds = state.applied.metadata, state.observed.filling
    if seconds is None or seconds >= _FILLING_SECONDS or state.observed.failures:
        return False
    revision = get_path(state.applied.manifest, "status", "revision")
    said = {each.type: each for each in state.applied.conditions}.get(SERVING)
    is_current = said is not None and said.status is _TRUE and said.observed_generation == meta.generation
    return is_current and revision == state.target


def _stopped(before: Mapping[str, Condition], blocked: ReconcileError) -> Iterator[DesiredCondition]:
    """Yield the condition Serving=False with the error `blocked`, which stopped the reconcile pass. Yield nothing if
    Serving is True in `before`, the present conditions: the box is still being served.
    """
    if SERVING not in before or before[SERVING].status is not _TRUE:
        reason = RETRYING if blocked.is_transient else blocked.cause
        yield DesiredCondition(SERVING, _FALSE, reason, blocked.message_over(before.get(SERVING)))


def _is_starting(before: Mapping[str, Condition]) -> bool:
    """Report whether the condition Serving in `before` has a provisional reason: starting, or retrying after an error.
    The message of a new error may then replace the condition's message.
    """
    return SERVING in before and before[SERVING].reason in (BoxReason.STARTING, RETRYING)


WORDS: Final = ReconcileErrorWords(
    OPERATOR_BOX, CONDITIONS, _stopped, lambda wanted, at: {}, events={SERVING: True}, tells_retries=_is_starting
)
"""The conditions and Events by which an OperatorBox reports the error that stopped its reconcile pass."""


def _is_bad(condition: Condition) -> bool:
    return condition.status is _FALSE and condition.reason not in (
        BoxReason.STARTING,
        RolloutPhase.PROGRESSING,
        RolloutPhase.JUDGING,
        BoxReason.NOT_ACCEPTED,
    )


def _live(state: BoxState) -> LiveStatus:
    status = state.applied.manifest.get("status") or {}
    fields = {name: status[name] for name in _FIELDS if name in status}
    observed = status.get("observedGeneration")
    return LiveStatus.of(OPERATOR_BOX, state.applied.metadata, observed, state.applied.conditions, fields)


def _seconds_until_counted(state: BoxState) -> float:
    counted = time_or_none(get_path(state.applied.manifest, "status", "countedAt"))
    return 0.0 if counted is None else _COUNT_SECONDS - (state.now - counted).total_seconds()


def _fields(state: BoxState) -> Mapping[str, Any]:
    counts, problems = state.step.counts, state.observed.problems[:_MOST_PROBLEMS]
    kind, judgement = state.observed.kind, _judgement(state)
    return {
        "kind": "" if kind is None else kind.kind,
        "objects": len(state.parents),
        "ready": sum(parent.health is Health.READY for parent in state.parents),
        "revision": state.target,
        "rollout": dict(counts.scope),
        **({} if judgement is None else {"judgement": judgement}),
        "problems": [{"path": problem.place.path, "message": problem.message} for problem in problems],
    }


def _judgement(state: BoxState) -> Mapping[str, Any] | None:
    """Return the result of the newest complete dry run of the target revision, as `status.judgement` has it.

    It is a dry run over the parents (objects of the box's kind). Return None if there is no such result.
    """
    judgement = state.observed.judgement
    if judgement is not None and judgement.revision == state.target and not judgement.left:
        return judgement.fields
    stored: Mapping[str, Any] | None = get_path(state.applied.manifest, "status", "judgement")
    return None if state.foresight is Foresight.PENDING else stored


# --- conditions -------------------------------------------------------------------------------------------------------


def _conditions(state: BoxState) -> Iterator[DesiredCondition]:
    yield _accepted(state)
    yield _permitted(state)
    yield _serving(state)
    yield _rolled_out(state)


def _accepted(state: BoxState) -> DesiredCondition:
    problems = state.observed.problems
    if not problems:
        return DesiredCondition(ACCEPTED, _TRUE, BoxReason.VALID)
    more = f" (and {len(problems) - 1} more in status.problems)" if len(problems) > 1 else ""
    return DesiredCondition(ACCEPTED, _FALSE, BoxReason.INVALID, f"{problems[0]}{more}")


def _permitted(state: BoxState) -> DesiredCondition:
    if state.observed.problems:
        return DesiredCondition(PERMITTED, _UNKNOWN, BoxReason.NOT_ACCEPTED)
    if state.observed.lacking:
        return DesiredCondition(PERMITTED, _FALSE, BoxReason.FORBIDDEN, state.observed.lacking)
    return DesiredCondition(PERMITTED, _TRUE, BoxReason.GRANTED)


def _serving(state: BoxState) -> DesiredCondition:
    observed = state.observed
    if failure := next(iter(observed.failures), None):
        return DesiredCondition(
            SERVING, _FALSE, BoxReason.REFUSED, f"{failure.verb} {failure.ref}: {failure.error.message}"
        )
    if state.phase is AppliedBoxState.GOING:
        return _going(state)
    if state.target in observed.serving:
        return DesiredCondition(SERVING, _TRUE, BoxReason.RUNNING)
    if observed.serving:
        return DesiredCondition(
            SERVING, _TRUE, BoxReason.FORMER_REVISIONS, "earlier revisions; the present one is not served"
        )
    if observed.problems or observed.lacking:
        return DesiredCondition(
            SERVING, _FALSE, BoxReason.NOT_ACCEPTED if observed.problems else BoxReason.NOT_PERMITTED
        )
    return DesiredCondition(SERVING, _FALSE, BoxReason.STARTING, observed.unserved)


def _going(state: BoxState) -> DesiredCondition:
    count = len(state.parents)
    match state.applied.deletion_policy:
        case DeletionPolicy.REFUSE:
            message = (
                f"the deletion waits until {_objects(count)} of its kind {_are(count)} gone. "
                f"To leave objects in place: {_with_policy(state, DeletionPolicy.ORPHAN)}. "
                f"To delete them: {_with_policy(state, DeletionPolicy.DELETE)}"
            )
        case DeletionPolicy.DELETE:
            message = f"{_objects(count)} {_are(count)} being deleted"
        case DeletionPolicy.ORPHAN:
            message = f"{_objects(count)} {_are(count)} being released"
        case policy:
            assert_never(policy)
    return DesiredCondition(SERVING, _TRUE if state.observed.serving else _FALSE, BoxReason.DELETING, message)


def _with_policy(state: BoxState, policy: DeletionPolicy) -> str:
    """Return the command that gives the box another deletion policy."""
    patch = f'{{"spec":{{"deletionPolicy":"{policy}"}}}}'
    return f"kubectl patch operatorbox {state.applied.metadata.name} --type=merge -p '{patch}'"


def _objects(count: int) -> str:
    return f"{count} object{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _rolled_out(state: BoxState) -> DesiredCondition:
    if state.phase is not AppliedBoxState.SERVED:
        is_going = state.phase is AppliedBoxState.GOING
        return DesiredCondition(ROLLED_OUT, _UNKNOWN, BoxReason.DELETING if is_going else BoxReason.NOT_SERVED)
    step, counts = state.step, state.step.counts
    undone = state.present.given_up if state.present is not None else ""
    if undone and not step.moves:
        message = (
            f"{state.applied.revision} was undone, since an object failed: {undone}. Objects are at {state.target}. "
            f"Change the box, or try again: {_rollout('resume', state)}"
        )
        return DesiredCondition(ROLLED_OUT, _FALSE, BoxReason.UNDONE, message)
    moved = f"{counts.moved} of {_objects(counts.total)} at {state.target}, {counts.ready} of them Ready"
    match step.phase:
        case RolloutPhase.COMPLETE if mispinned := [parent for parent in state.parents if parent.is_mispinned]:
            message = f"{_mispinned(mispinned)}. Unpin it, or take a revision from: {_rollout('history', state)}"
            return DesiredCondition(ROLLED_OUT, _FALSE, BoxReason.NO_SUCH_REVISION, message)
        case RolloutPhase.COMPLETE:
            return DesiredCondition(ROLLED_OUT, _TRUE, step.phase, f"{_objects(counts.total)} at {state.target}")
        case RolloutPhase.STOPPED:
            message = f"{_named(step.failed)}; {moved}. Mend it or the box{_way_back(state)}"
            return DesiredCondition(ROLLED_OUT, _FALSE, step.phase, message)
        case RolloutPhase.JUDGING:
            return DesiredCondition(ROLLED_OUT, _FALSE, step.phase, f"{_judging(state)}; {moved}")
        case RolloutPhase.REFUSED:
            message = (
                f"{_refused(state)}; {moved}. Nothing moves: change the box or the object, or keep it where it is by "
                f"the annotation {PIN}{_way_back(state)}"
            )
            return DesiredCondition(ROLLED_OUT, _FALSE, step.phase, message)
        case RolloutPhase.PAUSED:
            message = f"{moved}. To go on: {_rollout('resume', state)}"
            return DesiredCondition(ROLLED_OUT, _FALSE, step.phase, message)
        case RolloutPhase.GATED | RolloutPhase.PROGRESSING:
            return DesiredCondition(ROLLED_OUT, _FALSE, step.phase, moved)
        case _:
            assert_never(step.phase)


def _rollout(action: str, state: BoxState) -> str:
    return f"vworkspace-operator box rollout {action} {state.applied.metadata.name}"


def _way_back(state: BoxState) -> str:
    return f", or go back: {_rollout('undo', state)}" if way_back(state.history, state.applied.revision) else ""


def _named(failed: tuple[RolloutMember, ...]) -> str:
    return listed([f"{member.ref} failed: {member.obstacle}" for member in failed], _MOST_NAMED, "; ")


def _mispinned(parents: Sequence[BoxParent]) -> str:
    """Return the message that names objects that are pinned to a revision that the box does not have."""
    pins = [f"{parent.ref} is pinned to {parent.metadata.annotations[PIN]}" for parent in parents]
    return listed(pins, _MOST_NAMED, "; ") + ", which the box does not have"


def _judging(state: BoxState) -> str:
    judgement, waiting = state.observed.judgement, len(state.waiting)
    judged = 0 if judgement is None else waiting - judgement.left
    obstacle = "" if judgement is None or not judgement.obstacle else f"; {judgement.obstacle}"
    return f"{judged} of {_objects(waiting)} judged{obstacle}"


def _refused(state: BoxState) -> str:
    """Return the message that names the first object for which the newest revision would be refused, and the number of
    further such objects.
    """
    judgement = _judgement(state) or {}
    more = (judgement.get("refused") or 0) - 1
    return first_refusal(judgement) + (f", and {more} more (status.judgement)" if more > 0 else "")

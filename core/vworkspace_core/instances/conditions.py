"""Conditions of an ApplicationInstance that follow from its observed state by the tables of REC-5 and RES-4.

`Ready` and `Reconciling` are always present; the others appear when they are true, and stay as False afterwards. A
condition about which the present state says nothing is kept with its old observedGeneration.
"""

from collections.abc import Iterator, Mapping
from typing import assert_never

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.secret_material import safe
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.instances.release_state import ClassifiedRelease, ReleaseState

_LONGEST_REFUSAL = 4096
"""The longest message by the operator itself, in bytes (REC-8).

It may end with a command, which is of no use when it is cut off.
"""

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_NOT_YET = (Reason.INSTALLING, Reason.RECONCILING, Reason.NOT_DEPLOYED)
_OF_A_PASS = (Reason.FORBIDDEN, Reason.INTERNAL_ERROR)
"""Reasons of Blocked that concern one pass only, so that the next successful pass removes them."""
_ORDER = (Type.READY, Type.RECONCILING, Type.STALLED, Type.DEGRADED, Type.SUSPENDED, Type.BLOCKED, Type.DELETING)

Previous = Mapping[str, Condition]
"""The present conditions of an instance, by condition type."""


def from_release(
    release: ClassifiedRelease, previous: Previous, *, override_refused: str = ""
) -> tuple[DesiredCondition, ...]:
    """Return the conditions of a managed instance that no obstacle blocks, from the state of its release.

    `previous` has the instance's present conditions by type. `override_refused` says why the cluster's policy refuses
    part of an override (changes that helm Operations request); it is empty if none is refused.
    """
    changes = {wanted.type: wanted for wanted in _row(release, previous)}
    if override_refused:
        changes[Type.DEGRADED] = DesiredCondition(
            Type.DEGRADED, _TRUE, Reason.FORBIDDEN_VERSION_OVERRIDE, override_refused
        )
    if release.state is not ReleaseState.SUSPENDED:
        changes |= _lifted(previous, Type.SUSPENDED, Reason.ACTIVE)
    return _complete(changes | _lifted(previous, Type.BLOCKED, Reason.UNBLOCKED), previous)


def _row(release: ClassifiedRelease, previous: Previous) -> Iterator[DesiredCondition]:
    """Yield the conditions that the table in REC-5 gives for the state `release.state`.

    `previous` has the instance's present conditions.
    """
    message = safe(release.message)
    match release.state:
        case ReleaseState.PENDING:
            yield DesiredCondition(Type.READY, _FALSE, Reason.INSTALLING, message)
            yield _progress(release, message)
        case ReleaseState.SUSPENDED:
            yield _ready_while_suspended(release, previous)
            yield _stable("suspended")
            yield DesiredCondition(Type.SUSPENDED, _TRUE, Reason.MANUALLY_SUSPENDED, message)
            yield from _retained(previous, Type.STALLED)
        case ReleaseState.STALLED | ReleaseState.ROLLED_BACK:
            back = release.state is ReleaseState.ROLLED_BACK
            yield DesiredCondition(
                Type.READY, _FALSE, Reason.ROLLED_BACK if back else Reason.HELM_RELEASE_FAILED, message
            )
            yield _stable("Flux has given up; it waits for a change of the spec or a retry")
            yield DesiredCondition(Type.STALLED, _TRUE, release.stalled_reason, message)
            yield DesiredCondition(Type.DEGRADED, _TRUE, Reason.HELM_RELEASE_FAILED, message)
        case ReleaseState.FAILED:
            yield DesiredCondition(Type.READY, _FALSE, Reason.HELM_RELEASE_FAILED, message)
            yield (_progress(release, "Flux tries again") if release.retrying else _stable("the attempt failed"))
            yield DesiredCondition(Type.DEGRADED, _TRUE, Reason.HELM_RELEASE_FAILED, message)
        case ReleaseState.READY:
            yield _ready(release, message)
            yield _stable("")
            yield from _degraded_while_ready(release, previous)
        case ReleaseState.CHART_UNREACHABLE:
            yield DesiredCondition(Type.READY, _FALSE, Reason.CHART_UNREACHABLE, message)
            yield from _fetching(release, message)
            yield DesiredCondition(Type.DEGRADED, _TRUE, Reason.CHART_UNREACHABLE, message)
        case ReleaseState.VALUES_MISSING:
            yield DesiredCondition(Type.READY, _FALSE, Reason.WAITING_FOR_SECRET, message)
            yield _progress(release, message)
        case ReleaseState.INSTALLING | ReleaseState.UPGRADING:
            upgrade = release.state is ReleaseState.UPGRADING
            yield DesiredCondition(Type.READY, _FALSE, Reason.UPGRADING if upgrade else Reason.INSTALLING, message)
            yield _progress(release, message)
            if release.held_up:
                # Flux retries for ever, but only a person can help, who is not notified of progress (SEE-6).
                yield DesiredCondition(Type.DEGRADED, _TRUE, Reason.HELM_RELEASE_DEGRADED, safe(release.held_up))
        case _:
            assert_never(release.state)


def _ready(release: ClassifiedRelease, message: str) -> DesiredCondition:
    if release.warnings:
        return DesiredCondition(Type.READY, _TRUE, Reason.HELM_RELEASE_READY_WITH_WARNINGS, safe(release.warnings))
    return DesiredCondition(Type.READY, _TRUE, Reason.HELM_RELEASE_READY, message)


def _degraded_while_ready(release: ClassifiedRelease, previous: Previous) -> Iterator[DesiredCondition]:
    if release.source_trouble:
        yield DesiredCondition(Type.DEGRADED, _TRUE, Reason.CHART_UNREACHABLE, safe(release.source_trouble))
    elif release.drift:
        yield DesiredCondition(Type.DEGRADED, _TRUE, Reason.DRIFTED, safe(release.drift))
    else:
        yield from _lifted(previous, Type.DEGRADED, Reason.RECOVERED).values()


def _fetching(release: ClassifiedRelease, message: str) -> Iterator[DesiredCondition]:
    if release.stalled_reason:
        yield _stable("Flux does not try again by itself to fetch the chart")
        yield DesiredCondition(Type.STALLED, _TRUE, release.stalled_reason, message)
    else:
        yield DesiredCondition(Type.RECONCILING, _TRUE, Reason.CHART_SOURCE_SYNCING, message)


def _progress(release: ClassifiedRelease, message: str) -> DesiredCondition:
    reason = Reason.HELM_RELEASE_UPGRADING if release.released_before else Reason.HELM_RELEASE_INSTALLING
    return DesiredCondition(Type.RECONCILING, _TRUE, reason, message)


def _stable(message: str) -> DesiredCondition:
    return DesiredCondition(Type.RECONCILING, _FALSE, Reason.STABLE, message)


def _ready_while_suspended(release: ClassifiedRelease, previous: Previous) -> DesiredCondition:
    """Return the condition Ready of a suspended instance.

    It is the one in `previous`, or False if the instance was suspended before its first release.
    """
    before = previous.get(Type.READY)
    if before is not None and (release.released_before or before.reason not in _NOT_YET):
        return _keep(before)
    return DesiredCondition(Type.READY, _FALSE, Reason.NOT_DEPLOYED, "suspended before the first release")


def blocked(reason: str, message: str, previous: Previous, *, stalled: bool = False) -> tuple[DesiredCondition, ...]:
    """Return the conditions of an instance that an obstacle, described by `reason` and `message`, blocks (RES-4).

    Ready is kept as in `previous`, the instance's present conditions. Before the first release Ready is False, and its
    message names the obstacle. With `stalled`, which means that only a change of the spec can help, Stalled is True
    too.
    """
    before = previous.get(Type.READY)
    text = safe(message, _LONGEST_REFUSAL)
    deployed = before is not None and before.reason != Reason.NOT_DEPLOYED
    changes: dict[str, DesiredCondition] = {
        Type.READY: _keep(before)
        if before is not None and deployed
        else DesiredCondition(Type.READY, _FALSE, Reason.NOT_DEPLOYED, safe(message)),
        Type.RECONCILING: _stable(f"blocked: {reason}"),
        Type.BLOCKED: DesiredCondition(Type.BLOCKED, _TRUE, reason, text),
    }
    if stalled:
        changes[Type.STALLED] = DesiredCondition(Type.STALLED, _TRUE, Reason.VALIDATION_FAILED, text)
    return _complete(changes, previous, keep_suspended=True)


def unsettled(reason: str, message: str, previous: Previous) -> tuple[DesiredCondition, ...]:
    """Return the conditions of an instance after a write that failed for a transient reason (REC-13).

    Ready is kept as in `previous`, the instance's present conditions. Reconciling gets `reason`, and says that the
    write is retried.
    """
    before = previous.get(Type.READY)
    ready = _keep(before) if before else DesiredCondition(Type.READY, _UNKNOWN, Reason.RECONCILING, safe(message))
    changes: dict[str, DesiredCondition] = {
        Type.READY: ready,
        Type.RECONCILING: DesiredCondition(Type.RECONCILING, _TRUE, reason, safe(message)),
    }
    return _complete(changes, previous, keep_suspended=True)


def placeholder(previous: Previous) -> tuple[DesiredCondition, ...]:
    """Return the conditions of a placeholder (an instance without a release).

    Ready is True and Reconciling is False. Degraded, Suspended and Blocked become False if they are in `previous`, the
    instance's present conditions (REC-11).
    """
    changes: dict[str, DesiredCondition] = {
        Type.READY: DesiredCondition(Type.READY, _TRUE, Reason.PLACEHOLDER, "a placeholder owns no release"),
        Type.RECONCILING: _stable(""),
    }
    changes |= _lifted(previous, Type.DEGRADED, Reason.RECOVERED) | _lifted(previous, Type.SUSPENDED, Reason.ACTIVE)
    return _complete(changes | _lifted(previous, Type.BLOCKED, Reason.UNBLOCKED), previous)


def uninstalling(reason: str, message: str, previous: Previous, *, refused: str = "") -> tuple[DesiredCondition, ...]:
    """Return the conditions of an instance during deletion (REC-10): Ready is False, Deleting has `reason` and
    `message`.

    `refused` is a message about a missing right; if it is not empty, Blocked is True. Other conditions are kept as in
    `previous`, the present conditions. While the user's confirmation is awaited, Ready and Blocked are kept too.
    """
    unchanged = {kind: _keep(condition) for kind, condition in previous.items() if kind in _ORDER}
    deleting = DesiredCondition(Type.DELETING, _TRUE, reason, safe(message, _LONGEST_REFUSAL))
    if reason == Reason.AWAITING_CONFIRMATION:
        return _ordered({**unchanged, Type.DELETING: deleting})  # nothing is uninstalled yet
    ready = DesiredCondition(Type.READY, _FALSE, Reason.UNINSTALLING, safe(message))
    blocked_by: dict[str, DesiredCondition] = {}
    if refused:
        blocked_by = {
            Type.BLOCKED: DesiredCondition(Type.BLOCKED, _TRUE, Reason.FORBIDDEN, safe(refused, _LONGEST_REFUSAL))
        }
    elif Type.BLOCKED in previous and previous[Type.BLOCKED].reason in _OF_A_PASS:
        blocked_by = _lifted(previous, Type.BLOCKED, Reason.UNBLOCKED)
    return _ordered({**unchanged, **blocked_by, Type.READY: ready, Type.DELETING: deleting})


def _complete(
    changes: Mapping[str, DesiredCondition], previous: Previous, *, keep_suspended: bool = False
) -> tuple[DesiredCondition, ...]:
    """Return `changes`, conditions by type, completed by present conditions that have to stay.

    A present Degraded is added if `changes` has none, and with `keep_suspended` a present Suspended too. A present
    Stalled is not added, so that it is removed unless `changes` has it.
    """
    result = dict(changes)
    for kind in (Type.DEGRADED, Type.SUSPENDED) if keep_suspended else (Type.DEGRADED,):
        if kind not in result and kind in previous:
            result[kind] = _keep(previous[kind])
    return _ordered(result)


def _ordered(desired: Mapping[str, DesiredCondition]) -> tuple[DesiredCondition, ...]:
    return tuple(desired[kind] for kind in _ORDER if kind in desired)


def _lifted(previous: Previous, kind: str, reason: str) -> dict[str, DesiredCondition]:
    """Return the condition of type `kind` as False with `reason`, in a mapping by type.

    The mapping is empty if `previous` has no condition of that type.
    """
    before = previous.get(kind)
    if before is None:
        return {}
    return {kind: DesiredCondition(kind, _FALSE, reason)}


def _retained(previous: Previous, kind: str) -> Iterator[DesiredCondition]:
    if kind in previous:
        yield _keep(previous[kind])


def _keep(condition: Condition) -> DesiredCondition:
    generation = condition.observed_generation
    desired = DesiredCondition(condition.type, condition.status, condition.reason, condition.message, generation)
    return desired if generation is not None else attrs.evolve(desired, observed_generation=0)

"""The conditions that follow from each state of a release and from each obstacle, exactly (REC-5, REC-10, RES-4)."""

from typing import Any

import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.instances.conditions import (
    blocked,
    from_release,
    placeholder,
    uninstalling,
    unsettled,
)
from vworkspace_core.instances.release_state import ClassifiedRelease, ReleaseState

S = ReleaseState
YES, NO, MAYBE = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
GIVEN_UP = "Flux has given up; it waits for a change of the spec or a retry"


def before(kind: Type, status: ConditionStatus = YES, reason: str = "Before", of: int | None = 1) -> Condition:
    return Condition(kind, status, reason, "as before", "2026-01-01T00:00:00Z", of)


def previous(*conditions: Condition) -> dict[str, Condition]:
    return {condition.type: condition for condition in conditions}


def kept(kind: Type, status: ConditionStatus = YES, reason: str = "Before", of: int = 1) -> DesiredCondition:
    return DesiredCondition(kind, status, reason, "as before", of)


def ready(status: ConditionStatus, reason: str, message: str = "m") -> DesiredCondition:
    return DesiredCondition(Type.READY, status, reason, message)


def reconciling(status: ConditionStatus, reason: str, message: str = "m") -> DesiredCondition:
    return DesiredCondition(Type.RECONCILING, status, reason, message)


def stable(message: str = "") -> DesiredCondition:
    return reconciling(NO, Reason.STABLE, message)


def degraded(reason: str, message: str = "m", status: ConditionStatus = YES) -> DesiredCondition:
    return DesiredCondition(Type.DEGRADED, status, reason, message)


def stalled(reason: str) -> DesiredCondition:
    return DesiredCondition(Type.STALLED, YES, reason, "m")


INSTALLING, UPGRADING = Reason.HELM_RELEASE_INSTALLING, Reason.HELM_RELEASE_UPGRADING
FAILED = Reason.HELM_RELEASE_FAILED


def state(kind: ReleaseState, **fields: Any) -> ClassifiedRelease:
    return ClassifiedRelease(kind, "m", **fields)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (state(S.PENDING), [ready(NO, Reason.INSTALLING), reconciling(YES, INSTALLING)]),
        (
            state(S.PENDING, released_before=True),
            [ready(NO, Reason.INSTALLING), reconciling(YES, UPGRADING)],
        ),
        (state(S.INSTALLING), [ready(NO, Reason.INSTALLING), reconciling(YES, INSTALLING)]),
        (
            state(S.UPGRADING, released_before=True),
            [ready(NO, Reason.UPGRADING), reconciling(YES, UPGRADING)],
        ),
        (
            state(S.INSTALLING, held_up="no right"),
            [
                ready(NO, Reason.INSTALLING),
                reconciling(YES, INSTALLING),
                degraded(Reason.HELM_RELEASE_DEGRADED, "no right"),
            ],
        ),
        (state(S.VALUES_MISSING), [ready(NO, Reason.WAITING_FOR_SECRET), reconciling(YES, INSTALLING)]),
        (
            state(S.STALLED, stalled_reason="X"),
            [ready(NO, FAILED), stable(GIVEN_UP), stalled("X"), degraded(FAILED)],
        ),
        (
            state(S.ROLLED_BACK, stalled_reason="X"),
            [ready(NO, Reason.ROLLED_BACK), stable(GIVEN_UP), stalled("X"), degraded(FAILED)],
        ),
        (state(S.FAILED), [ready(NO, FAILED), stable("the attempt failed"), degraded(FAILED)]),
        (
            state(S.FAILED, retrying=True, released_before=True),
            [ready(NO, FAILED), reconciling(YES, UPGRADING, "Flux tries again"), degraded(FAILED)],
        ),
        (state(S.READY), [ready(YES, Reason.HELM_RELEASE_READY), stable()]),
        (
            state(S.READY, warnings="red"),
            [ready(YES, Reason.HELM_RELEASE_READY_WITH_WARNINGS, "red"), stable()],
        ),
        (
            state(S.READY, source_trouble="401", drift="edited"),
            [ready(YES, Reason.HELM_RELEASE_READY), stable(), degraded(Reason.CHART_UNREACHABLE, "401")],
        ),
        (
            state(S.READY, drift="edited"),
            [ready(YES, Reason.HELM_RELEASE_READY), stable(), degraded(Reason.DRIFTED, "edited")],
        ),
        (
            state(S.CHART_UNREACHABLE),
            [
                ready(NO, Reason.CHART_UNREACHABLE),
                reconciling(YES, Reason.CHART_SOURCE_SYNCING),
                degraded(Reason.CHART_UNREACHABLE),
            ],
        ),
        (
            state(S.CHART_UNREACHABLE, stalled_reason="X"),
            [
                ready(NO, Reason.CHART_UNREACHABLE),
                stable("Flux does not try again by itself to fetch the chart"),
                stalled("X"),
                degraded(Reason.CHART_UNREACHABLE),
            ],
        ),
        (
            state(S.SUSPENDED),
            [
                ready(NO, Reason.NOT_DEPLOYED, "suspended before the first release"),
                stable("suspended"),
                DesiredCondition(Type.SUSPENDED, YES, Reason.MANUALLY_SUSPENDED, "m"),
            ],
        ),
    ],
)
def test_each_state_of_a_release_has_its_conditions_REC_5(
    release: ClassifiedRelease, expected: list[DesiredCondition]
) -> None:
    assert from_release(release, {}) == tuple(expected)


def test_what_was_true_before_is_lifted_and_degraded_stays_where_nothing_is_known() -> None:
    was = previous(*(before(kind) for kind in Type))
    active = DesiredCondition(Type.SUSPENDED, NO, Reason.ACTIVE)
    unblocked = DesiredCondition(Type.BLOCKED, NO, Reason.UNBLOCKED)

    assert from_release(state(S.READY), was) == (
        ready(YES, Reason.HELM_RELEASE_READY),
        stable(),
        degraded(Reason.RECOVERED, "", NO),
        active,
        unblocked,
    )
    assert from_release(state(S.INSTALLING), was) == (
        ready(NO, Reason.INSTALLING),
        reconciling(YES, INSTALLING),
        kept(Type.DEGRADED),
        active,
        unblocked,
    )
    assert from_release(state(S.SUSPENDED, released_before=True), was) == (
        kept(Type.READY),
        stable("suspended"),
        kept(Type.STALLED),
        kept(Type.DEGRADED),
        DesiredCondition(Type.SUSPENDED, YES, Reason.MANUALLY_SUSPENDED, "m"),
        unblocked,
    )


@pytest.mark.parametrize(
    ("reason", "released_before", "is_kept"),
    [
        ("HelmReleaseReady", False, True),
        ("Installing", False, False),
        ("Reconciling", False, False),
        ("NotDeployed", False, False),
        ("Installing", True, True),
        ("NotDeployed", True, True),
    ],
)
def test_suspending_keeps_what_was_said_of_a_release_REC_5(reason: str, released_before: bool, is_kept: bool) -> None:
    was = previous(before(Type.READY, NO, reason))

    found = from_release(state(S.SUSPENDED, released_before=released_before), was)[0]

    new = ready(NO, Reason.NOT_DEPLOYED, "suspended before the first release")
    assert found == (kept(Type.READY, NO, reason) if is_kept else new)


def test_a_refused_override_is_told_in_the_place_of_other_troubles() -> None:
    found = from_release(state(S.READY, drift="edited"), {}, override_refused="not allowed")

    assert found[2] == degraded(Reason.FORBIDDEN_VERSION_OVERRIDE, "not allowed")
    assert len(found) == 3


@pytest.mark.parametrize(
    ("was", "is_ready"),
    [
        (previous(), ready(NO, Reason.NOT_DEPLOYED, "why")),
        (previous(before(Type.READY, NO, "NotDeployed")), ready(NO, Reason.NOT_DEPLOYED, "why")),
        (previous(before(Type.READY, NO, "Installing")), kept(Type.READY, NO, "Installing")),
        (previous(before(Type.READY, of=None)), kept(Type.READY, of=0)),
    ],
)
def test_an_obstacle_keeps_ready_of_what_is_deployed_RES_4(
    was: dict[str, Condition], is_ready: DesiredCondition
) -> None:
    assert blocked("NameTaken", "why", was) == (
        is_ready,
        stable("blocked: NameTaken"),
        DesiredCondition(Type.BLOCKED, YES, "NameTaken", "why"),
    )


def test_an_obstacle_keeps_degraded_and_suspended_and_stalls_only_where_asked() -> None:
    was = previous(*(before(kind) for kind in Type))
    of_the_spec = DesiredCondition(Type.STALLED, YES, Reason.VALIDATION_FAILED, "why")
    obstacle = DesiredCondition(Type.BLOCKED, YES, "X", "why")
    rest = (kept(Type.DEGRADED), kept(Type.SUSPENDED), obstacle)

    assert blocked("X", "why", was) == (kept(Type.READY), stable("blocked: X"), *rest)
    assert blocked("X", "why", was, stalled=True) == (kept(Type.READY), stable("blocked: X"), of_the_spec, *rest)


def test_a_long_message_of_an_obstacle_keeps_the_command_at_its_end() -> None:
    long = "x" * 4000 + " kubectl"

    found = {one.type: one.message for one in blocked("X", long, {}, stalled=True)}

    assert found[Type.BLOCKED] == found[Type.STALLED] == long
    assert len(found[Type.READY]) < 4000


def test_a_write_that_is_tried_again_keeps_ready_REC_13() -> None:
    was = previous(*(before(kind) for kind in Type))

    assert unsettled("R", "why", {}) == (ready(MAYBE, Reason.RECONCILING, "why"), reconciling(YES, "R", "why"))
    assert unsettled("R", "why", was) == (
        kept(Type.READY),
        reconciling(YES, "R", "why"),
        kept(Type.DEGRADED),
        kept(Type.SUSPENDED),
    )


def test_a_placeholder_is_ready_and_everything_else_is_false_REC_11() -> None:
    owns = ready(YES, Reason.PLACEHOLDER, "a placeholder owns no release")

    assert placeholder({}) == (owns, stable())
    assert placeholder(previous(*(before(kind) for kind in Type))) == (
        owns,
        stable(),
        degraded(Reason.RECOVERED, "", NO),
        DesiredCondition(Type.SUSPENDED, NO, Reason.ACTIVE),
        DesiredCondition(Type.BLOCKED, NO, Reason.UNBLOCKED),
    )


GOING = ready(NO, Reason.UNINSTALLING, "why")
DELETING = DesiredCondition(Type.DELETING, YES, "R", "why")
UNBLOCKED = DesiredCondition(Type.BLOCKED, NO, Reason.UNBLOCKED)


@pytest.mark.parametrize(
    ("was", "refused", "expected"),
    [
        (previous(), "", (GOING, DELETING)),
        (previous(before(Type.READY), before(Type.STALLED)), "", (GOING, kept(Type.STALLED), DELETING)),
        (previous(before(Type.BLOCKED)), "", (GOING, kept(Type.BLOCKED), DELETING)),
        (previous(before(Type.BLOCKED, YES, "Forbidden")), "", (GOING, UNBLOCKED, DELETING)),
        (previous(before(Type.BLOCKED, YES, "InternalError")), "", (GOING, UNBLOCKED, DELETING)),
        (
            previous(before(Type.BLOCKED)),
            "no right",
            (GOING, DesiredCondition(Type.BLOCKED, YES, Reason.FORBIDDEN, "no right"), DELETING),
        ),
        ({"Other": Condition("Other", YES, "R", "", "2026-01-01T00:00:00Z")}, "", (GOING, DELETING)),
    ],
)
def test_a_deletion_keeps_other_conditions_REC_10(was: Any, refused: str, expected: Any) -> None:
    assert uninstalling("R", "why", was, refused=refused) == expected


def test_while_a_confirmation_is_awaited_nothing_is_uninstalled() -> None:
    was = previous(before(Type.READY), before(Type.BLOCKED, YES, "Forbidden"))

    assert uninstalling(Reason.AWAITING_CONFIRMATION, "why", was) == (
        kept(Type.READY),
        kept(Type.BLOCKED, YES, "Forbidden"),
        DesiredCondition(Type.DELETING, YES, Reason.AWAITING_CONFIRMATION, "why"),
    )

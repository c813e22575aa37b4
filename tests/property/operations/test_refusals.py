"""OPS-1, OPS-11, REC-13: a write that the API server refuses, at each step of a run, and what follows from it."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import (
    Conflict,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Unavailable,
)
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.decision import Decision, Delete, Failure, Finalizer, RequeuePace
from purekube.controller.ownership import locked
from tests.support.operation_worlds import CONTEXT, NS, as_created, at, conditions_of, message_of, observed, started
from vworkspace_core.api.operation import Operation, Phase
from vworkspace_core.operations.contract import EngineObject
from vworkspace_core.operations.reconcile import reconcile_operation

OF = "runCommand.job"
RIGHT = f'User "u" cannot create resource "jobs" in API group "batch" in the namespace "{NS}"'
ERRORS: dict[str, OperatorError] = {
    "missing right": Forbidden(RIGHT),
    "quota": Forbidden("exceeded quota"),
    "invalid": Invalid("wrong"),
    "kind missing": KindMissing("not served"),
    "namespace missing": NotFound("no such namespace"),
    "too many requests": Unavailable("busy", status=429, may_have_happened=False),
    "conflict": Conflict("held", (FieldConflict("kubectl", ".spec"),)),
    "timeout": Unavailable("no answer"),
    "redirected": Permanent("redirected"),
}


def intent(**more: Any) -> tuple[Operation, EngineObject]:
    """An Operation whose intent is recorded, and nothing is created yet."""
    running, made = started(OF, **more)
    assert made is not None
    assert running.status.engine_ref is not None
    ref = attrs.evolve(running.status.engine_ref, uid="")
    return attrs.evolve(running, status=attrs.evolve(running.status, engine_ref=ref)), made


CREATES: dict[str, tuple[Phase, str | None, RequeuePace]] = {
    "missing right": (Phase.RUNNING, "Forbidden", RequeuePace.REFUSED),
    "quota": (Phase.RUNNING, None, RequeuePace.SLOW),
    "invalid": (Phase.FAILED, None, RequeuePace.NONE),
    "kind missing": (Phase.RUNNING, "DependencyMissing", RequeuePace.SLOW),
    "namespace missing": (Phase.RUNNING, "DependencyMissing", RequeuePace.SLOW),
    "too many requests": (Phase.RUNNING, None, RequeuePace.BACKOFF),
    "conflict": (Phase.RUNNING, None, RequeuePace.BACKOFF),
    "timeout": (Phase.RUNNING, None, RequeuePace.BACKOFF),
    "redirected": (Phase.RUNNING, None, RequeuePace.SLOW),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_refused_create_ends_the_run_or_says_what_it_waits_for_OPS_1_REC_13(name: str) -> None:
    operation, made = intent()
    phase, blocked, pace = CREATES[name]
    failure = Failure(made.ref, "create", ERRORS[name])

    decision = reconcile_operation(operation, observed(OF, failures=(failure,)), CONTEXT)

    assert decision.status is not None
    assert decision.status["status"]["phase"] == phase
    assert decision.requeue.pace is pace
    assert decision.creates == (), "nothing is created in the pass that was refused"
    found = conditions_of(decision)
    if phase is Phase.FAILED:
        assert found["Failed"] == ("True", "ValidationFailed")
        assert found["Running"][0] == "False"
        return
    assert found["Running"] == ("True", "EngineStarted")
    assert found.get("Blocked") == (("True", blocked) if blocked else None)
    kind = "Blocked" if blocked else "Running"
    if name in ("missing right", "kind missing"):
        assert message_of(decision, kind)
    else:
        assert ERRORS[name].message in message_of(decision, kind)
    assert decision.requeue.after is not None, "its deadline is kept"


@pytest.mark.parametrize("name", ERRORS)
def test_after_a_refused_create_the_next_pass_creates_again_OPS_1(name: str) -> None:
    operation, made = intent()
    assert [create.ref for create in reconcile_operation(operation, observed(OF), CONTEXT).creates] == [made.ref]


def cancelled_run() -> tuple[Operation, EngineObject]:
    running, made = started(OF, annotations={"ops.vworkspace.io/cancel": "true"})
    assert made is not None
    return running, made


def paced(name: str) -> RequeuePace:
    """The pace after a refused patch or delete: what a role may cure soon, anything else by backoff."""
    return RequeuePace.REFUSED if name == "missing right" else RequeuePace.BACKOFF


def check_refusal(decision: Decision, name: str) -> None:
    assert decision.deletes == (), "it is not sent twice in a pass"
    assert decision.requeue.pace is paced(name)
    found = conditions_of(decision)
    assert found["Running"][0] == "True"
    assert found.get("Blocked") == (("True", "Forbidden") if name == "missing right" else None)
    assert ERRORS[name].message in message_of(decision, "Running")


@pytest.mark.parametrize("name", ERRORS)
def test_a_refused_delete_of_a_cancelled_run_is_tried_again_and_told_OPS_11(name: str) -> None:
    operation, made = cancelled_run()
    objects = {made.ref: as_created(made)}
    first = reconcile_operation(operation, observed(OF, objects=objects), CONTEXT)
    assert first.deletes == (Delete(made.ref, "uid-1", "7"),), "exactly the version that was judged"
    assert first.only_if_current
    assert first.requeue.pace is RequeuePace.NONE

    failure = Failure(made.ref, "delete", ERRORS[name])
    decision = reconcile_operation(operation, observed(OF, objects=objects, failures=(failure,)), CONTEXT)

    assert decision.status is not None
    assert decision.status["status"]["phase"] == Phase.RUNNING, "not cancelled while something may run"
    check_refusal(decision, name)


@pytest.mark.parametrize("name", ERRORS)
def test_a_refused_delete_of_an_operation_that_is_being_deleted_is_tried_again_and_told_OPS_7(name: str) -> None:
    running, made = started(OF)
    assert made is not None
    meta = attrs.evolve(running.metadata, deletion_timestamp="2026-06-01T11:59:50Z")
    operation, objects = attrs.evolve(running, metadata=meta), {made.ref: as_created(made)}
    first = reconcile_operation(operation, observed(OF, objects=objects), CONTEXT)
    assert first.deletes == (Delete(made.ref, "uid-1", "7"),)
    assert first.finalizer is None

    failure = Failure(made.ref, "delete", ERRORS[name])
    decision = reconcile_operation(operation, observed(OF, objects=objects, failures=(failure,)), CONTEXT)

    assert decision.finalizer is None
    check_refusal(decision, name)


@pytest.mark.parametrize("name", ERRORS)
def test_a_refused_unlocking_is_not_sent_again_in_the_same_pass_OPS_1(name: str) -> None:
    running, made = started(OF)
    assert made is not None
    live = as_created(attrs.evolve(made, manifest=locked(made.manifest)))
    first = reconcile_operation(running, observed(OF, objects={made.ref: live}), CONTEXT)
    assert [patch.ref for patch in first.patches] == [made.ref]

    failure = Failure(made.ref, "patch", ERRORS[name])
    decision = reconcile_operation(running, observed(OF, objects={made.ref: live}, failures=(failure,)), CONTEXT)

    assert decision.patches == ()


# --- the end ----------------------------------------------------------------------------------------------------------


def ended(reason: str, phase: Phase = Phase.FAILED, **more: Any) -> tuple[Operation, EngineObject]:
    """A run that we ended, whose delete was lost."""
    running, made = started(OF, **more)
    assert made is not None
    kind = {Phase.FAILED: "Failed", Phase.CANCELLED: "Cancelled", Phase.SUCCEEDED: "Succeeded"}[phase]
    line = Condition(kind, ConditionStatus.TRUE, reason, "", "2026-06-01T11:59:40Z")
    status = attrs.evolve(
        running.status, phase=phase, finished_at="2026-06-01T11:59:40Z", conditions=(line,), observed_generation=1
    )
    return attrs.evolve(running, status=status), made


STOPPED = [("Timeout", Phase.FAILED), ("UserCancelled", Phase.CANCELLED)]
FINISHED = [("BackoffLimitExceeded", Phase.FAILED), ("JobComplete", Phase.SUCCEEDED)]


@pytest.mark.parametrize(("reason", "phase"), STOPPED)
def test_a_run_that_we_stopped_is_deleted_in_the_end_although_the_delete_was_lost_OPS_12(
    reason: str, phase: Phase
) -> None:
    operation, made = ended(reason, phase)
    decision = reconcile_operation(operation, observed(OF, objects={made.ref: as_created(made)}), CONTEXT)

    assert decision.deletes == (Delete(made.ref, "uid-1", "7"),)
    assert decision.only_if_current
    assert decision.status is None, "its end is final"


@pytest.mark.parametrize(("reason", "phase"), FINISHED)
def test_a_run_that_ended_by_itself_is_kept_OPS_7(reason: str, phase: Phase) -> None:
    operation, made = ended(reason, phase)
    decision = reconcile_operation(operation, observed(OF, objects={made.ref: as_created(made)}), CONTEXT)

    assert decision.deletes == ()


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize(("reason", "phase"), STOPPED)
def test_the_phase_of_an_ended_one_never_changes_and_blocked_says_what_is_refused_OPS_11(
    reason: str, phase: Phase, name: str
) -> None:
    operation, made = ended(reason, phase)
    failure = Failure(made.ref, "delete", ERRORS[name])
    world = observed(OF, objects={made.ref: as_created(made)}, failures=(failure,))

    decision = reconcile_operation(operation, world, CONTEXT)

    assert decision.deletes == ()
    assert decision.requeue.pace is paced(name)
    if name == "missing right":
        assert decision.status is not None
        assert decision.status["status"]["phase"] == phase
        assert decision.status["status"]["finishedAt"] == "2026-06-01T11:59:40Z"
        assert conditions_of(decision)["Blocked"] == ("True", "Forbidden")
    else:
        assert decision.status is None


@pytest.mark.parametrize(("reason", "phase"), [*STOPPED, *FINISHED])
def test_the_phase_of_an_ended_one_does_not_change_while_it_is_deleted_OPS_11(reason: str, phase: Phase) -> None:
    operation, made = ended(reason, phase)
    meta = attrs.evolve(operation.metadata, deletion_timestamp="2026-06-01T11:59:50Z")
    going = attrs.evolve(operation, metadata=meta)
    decision = reconcile_operation(going, observed(OF, objects={made.ref: as_created(made)}), at(3600))

    assert decision.status is None
    assert (decision.finalizer is Finalizer.REMOVE) == ((reason, phase) in FINISHED)
    assert [delete.ref for delete in decision.deletes] == ([made.ref] if (reason, phase) in STOPPED else [])


def test_a_right_that_came_lifts_blocked_from_an_ended_one_OPS_11() -> None:
    operation, made = ended("Timeout")
    blocked = Condition("Blocked", ConditionStatus.TRUE, "Forbidden", "no", "2026-06-01T11:59:40Z")
    conditions = (*operation.status.conditions, blocked)
    operation = attrs.evolve(operation, status=attrs.evolve(operation.status, conditions=conditions))

    decision = reconcile_operation(operation, observed(OF, objects={made.ref: as_created(made)}), CONTEXT)

    assert conditions_of(decision)["Blocked"][0] == "False"
    assert decision.status is not None
    assert decision.status["status"]["phase"] == Phase.FAILED

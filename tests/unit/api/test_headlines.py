"""RES-1: the condition that explains an object's state best."""

import attrs
import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.reasons import headline

WORKS = DesiredCondition("Reconciling", ConditionStatus.TRUE, "Installing", "Flux works")


def ready(reason: str, status: ConditionStatus = ConditionStatus.FALSE) -> DesiredCondition:
    return DesiredCondition("Ready", status, reason, f"about {reason}")


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([WORKS], "Installing"),
        ([WORKS, ready("NotDeployed")], "Installing"),
        ([WORKS, ready("WaitingForSecret")], "WaitingForSecret"),
        ([WORKS, ready("WaitingForSecret", ConditionStatus.TRUE)], "Installing"),
        ([ready("WaitingForSecret"), DesiredCondition("Blocked", ConditionStatus.TRUE, "NameTaken", "x")], "NameTaken"),
        ([ready("NotDeployed")], "NotDeployed"),
    ],
)
def test_a_missing_secret_explains_more_than_the_work_that_waits_for_it(
    conditions: list[DesiredCondition], reason: str
) -> None:
    assert headline(APPLICATION_INSTANCE, conditions)["reason"] == reason


@pytest.mark.parametrize(
    ("degraded", "reconciling", "generation", "reason"),
    [
        (1, None, 2, "Installing"),
        (2, None, 2, "Broken"),
        (None, None, 2, "Broken"),
        (1, None, None, "Broken"),
        (1, 2, None, "Installing"),
        (2, 2, None, "Broken"),
    ],
)
def test_a_failure_of_a_former_generation_does_not_explain_the_work_on_the_present_one(
    degraded: int | None, reconciling: int | None, generation: int | None, reason: str
) -> None:
    works = attrs.evolve(WORKS, observed_generation=reconciling)
    fault = DesiredCondition("Degraded", ConditionStatus.TRUE, "Broken", "no", degraded)

    assert headline(APPLICATION_INSTANCE, [fault, works], generation)["reason"] == reason
    assert headline(APPLICATION_INSTANCE, [fault], generation)["reason"] == "Broken", "nothing is under way"


def test_other_kinds_have_no_such_exception_and_empty_texts_are_left_out() -> None:
    running = DesiredCondition("Running", ConditionStatus.TRUE, "EngineRunning", "")

    assert headline(OPERATION, [running, ready("WaitingForSecret")]) == {"reason": "EngineRunning"}
    assert headline(OPERATION, [ready("WaitingForSecret")]) == {}

"""PH-1: the conditions of an owner in exact words, for each state of its objects and each step of a teardown."""

import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.problems import Place
from purekube.controller.decision import Decision
from purekube.graph.account import conditions_of, conditions_of_teardown, message_of, reason_of
from purekube.graph.node import Scope
from purekube.graph.plan import Plan
from purekube.graph.states import STALLED, NodeState, Observation
from purekube.graph.teardown import Teardown, TeardownStep

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
REASONS = {
    NodeState.MISSING_KIND: "MissingKind",
    NodeState.ERROR: "ExpressionFailed",
    NodeState.WAITING: "WaitingForDependency",
    NodeState.EXCLUDED: "ResourcesReady",
    NodeState.FOREIGN: "NameTaken",
    NodeState.LEAVING: "ResourceNotReady",
    NodeState.HELD: "WaitingForGate",
    NodeState.LEFT: "ResourcesReady",
    NodeState.CONFLICT: "FieldConflict",
    NodeState.REFUSED: "ResourceFailed",
    NodeState.DENIED: "Denied",
    NodeState.RETRYING: "ResourceNotReady",
    NodeState.PENDING: "ResourceNotReady",
    NodeState.FAILED: "ResourceFailed",
    NodeState.PROGRESSING: "ResourceNotReady",
    NodeState.READY: "ResourcesReady",
}
STABLE = DesiredCondition("Reconciling", FALSE, "Stable"), DesiredCondition("Stalled", FALSE, "Stable")


def told(*observations: Observation, going: tuple[Observation, ...] = ()) -> tuple[DesiredCondition, ...]:
    """Return the conditions for these states, each of a node of its own."""
    by_node = {observation.node: (observation,) for observation in observations}
    return conditions_of(Plan(by_node, Decision(), Scope(), going=going))


def unready(node: str, state: NodeState = NodeState.PROGRESSING, *waits_for: str, message: str = "") -> Observation:
    return Observation(node, state, message=message, waits_for=waits_for)


@pytest.mark.parametrize("state", REASONS)
@pytest.mark.parametrize("external", [False, True])
def test_each_state_has_the_reason_of_its_kind_PH_1(state: NodeState, external: bool) -> None:
    waits = external and state in (NodeState.WAITING, NodeState.PROGRESSING)

    assert reason_of(Observation("a", state, is_external=external)) == (
        "WaitingForExternal" if waits else REASONS[state]
    )


def test_all_ready_is_ready_and_stable_PH_1() -> None:
    ready = DesiredCondition("Ready", TRUE, "ResourcesReady")

    assert told() == (ready, *STABLE)
    assert told(Observation("a", NodeState.READY), Observation("b", NodeState.HELD, counts=False)) == (ready, *STABLE)


@pytest.mark.parametrize("state", set(REASONS) - {NodeState.READY})
def test_one_obstacle_is_the_message_of_all_that_it_stops_PH_1(state: NodeState) -> None:
    ready, reconciling, stalled = told(Observation("z", NodeState.READY), unready("a", state, message="no"))

    assert ready == DesiredCondition("Ready", FALSE, REASONS[state], "a: no")
    moving = DesiredCondition("Reconciling", TRUE, "Progressing", "a: no")
    stuck = DesiredCondition("Stalled", TRUE, REASONS[state], "a: no")
    assert (reconciling, stalled) == ((STABLE[0], stuck) if state in STALLED else (moving, STABLE[1]))


def test_what_only_waits_is_named_behind_its_obstacle_PH_1() -> None:
    """The first obstacle is told with all that wait for it, directly or not, in their order."""
    waiting = NodeState.WAITING
    chain = (
        unready("c", waiting, "a"),
        unready("a", message="slow"),
        unready("b", waiting, "a"),
        unready("d", waiting, "x", "b"),
        unready("e", waiting, "z"),
    )
    ready, reconciling, stalled = told(*chain)

    assert ready.message == reconciling.message == "a: slow. Waiting behind it: c, b, d"
    assert stalled == STABLE[1]


def test_the_first_that_moves_and_the_first_that_is_stuck_are_told_each_PH_1() -> None:
    failed = NodeState.FAILED
    stuck, moving, more = unready("a", failed), unready("b"), unready("c", failed)
    ready, reconciling, stalled = told(stuck, moving, more, unready("w", NodeState.WAITING, "a"))
    assert ready.message == "a: Failed. Waiting behind it: w. Also stalled: c (Failed)"
    assert reconciling == DesiredCondition("Reconciling", TRUE, "Progressing", "b: Progressing")
    assert stalled == DesiredCondition("Stalled", TRUE, "ResourceFailed", ready.message)

    ready, reconciling, stalled = told(moving, stuck)
    assert ready == DesiredCondition("Ready", FALSE, "ResourceNotReady", "b: Progressing. Also stalled: a (Failed)")
    assert stalled.message == "a: Failed", "what moves is not stalled"


def test_where_all_wait_for_each_other_the_first_is_told_PH_1() -> None:
    ready, *_ = told(unready("a", NodeState.WAITING, "b"), unready("b", NodeState.WAITING, "a"))

    assert (ready.reason, ready.message) == ("WaitingForDependency", "a: Waiting. Waiting behind it: b")


@pytest.mark.parametrize(("count", "more"), [(1, ""), (8, ""), (9, " and 1 more"), (12, " and 4 more")])
def test_eight_names_are_told_and_the_others_counted(count: int, more: str) -> None:
    names = [f"n{number}" for number in range(count)]
    first = unready("a", NodeState.FAILED)

    behind = message_of(first, [unready(name, NodeState.WAITING, "a") for name in names])
    assert behind == f"a: Failed. Waiting behind it: {', '.join(names[:8])}{more}"
    ready, _, stalled = told(first, *(unready(name, NodeState.ERROR) for name in names))
    assert ready.message == stalled.message
    assert ready.message == f"a: Failed. Also stalled: {', '.join(f'{name} (Error)' for name in names[:8])}{more}"
    going = tuple(unready(name, NodeState.LEAVING, message="going") for name in names)
    _, reconciling, _ = told(going=going)
    pruned = "; ".join(f"{name}: going" for name in names[:8])
    assert reconciling == DesiredCondition("Reconciling", TRUE, "Pruning", pruned + more)


def test_what_is_pruned_is_told_where_nothing_else_moves_PH_3() -> None:
    going = (unready("old", NodeState.LEAVING, message="going"),)

    assert told(unready("a"), going=going)[1].reason == "Progressing"
    assert told(unready("a", NodeState.FAILED), going=going)[1].reason == "Pruning"
    assert told(going=going)[0].status is TRUE


def test_a_message_has_the_place_of_its_expression_before_what_waits_PH_1() -> None:
    placed = Observation("a", NodeState.ERROR, message="no", place=Place("x", "box.yaml", 7))

    assert message_of(placed) == "a: no (box.yaml:7: x)"
    assert message_of(placed, [unready("b", NodeState.WAITING, "a")]).endswith("x). Waiting behind it: b")
    assert message_of(unready("a")) == "a: Progressing"


@pytest.mark.parametrize("is_stalled", [False, True])
@pytest.mark.parametrize("step", TeardownStep)
def test_a_teardown_tells_its_step_in_each_condition_PH_3(step: TeardownStep, is_stalled: bool) -> None:
    stuck = DesiredCondition("Stalled", TRUE, "ResourceFailed", "left")

    assert conditions_of_teardown(Teardown(step, "left", Decision(), is_stalled=is_stalled)) == (
        DesiredCondition("Ready", FALSE, "Deleting", "left"),
        DesiredCondition("Reconciling", TRUE, "Deleting", "left"),
        stuck if is_stalled else STABLE[1],
        DesiredCondition("Deleting", TRUE, step.value, "left"),
    )

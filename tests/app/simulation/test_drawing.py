"""Drawn scripts: users go on with what they have begun, and faults meet what they can disturb (SIM-1, SIM-2)."""

import pytest

from purekube_run.simulation.laws import Laws
from purekube_run.simulation.script import Act, Incident, SimulationScript
from tests.app.simulation.defects import DEFECTS
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.operator_world import SimulatedWorld
from vworkspace_app.simulation.run import draw, perform

SECONDS = 600.0
SCRIPTS = [draw(seed, seconds=SECONDS, instances=5, replicas=2, faults=tuple(FAULTS)) for seed in range(200)]
TOGETHER = 20.0
"""The most seconds between an action and one by which users go on with it while it has its effect."""


def goes_on(script: SimulationScript, first: Do, then: Do) -> bool:
    """Whether an action of one kind soon follows one of another kind, on the same instance."""
    begun = [act for act in script.acts if act.do == first]
    return any(
        act.do == then and act.name == each.name and 0.0 < act.at - each.at < TOGETHER
        for act in script.acts
        for each in begun
    )


@pytest.mark.parametrize(
    ("first", "then", "least"),
    [
        (Do.SUSPEND, Do.DELETE, 3),
        (Do.FORBID, Do.PERMIT, 7),
        (Do.RETRY, Do.RETRY, 12),
        (Do.GITOPS_CHILD, Do.LET_GO, 5),
        (Do.BACKUP, Do.CANCEL, 2),
        (Do.OPERATE, Do.DELETE_OPERATION, 5),
        (Do.OPERATE, Do.APPROVE, 10),
        (Do.CONFLICT, Do.CONFLICT, 5),
    ],
)
def test_users_go_on_with_what_they_have_begun(first: Do, then: Do, least: int) -> None:
    """SIM-1: what takes two actions in a row happens in several of 200 short runs, more often than by chance."""
    assert sum(goes_on(script, first, then) for script in SCRIPTS) >= least


def test_actions_and_faults_are_within_the_run_and_no_action_has_the_number_of_another() -> None:
    """SIM-1: engines' objects and versions are named after the numbers of actions."""
    for script in SCRIPTS:
        assert all(0.0 <= each.at < SECONDS for each in script.acts)
        assert all(each.at >= 0.0 and each.at + each.seconds <= SECONDS + 0.001 for each in script.incidents)
        numbers = [(act.name, act.number) for act in script.acts if not act.name.startswith("guest")]
        assert len(numbers) == len(set(numbers))


def test_faults_meet_the_work() -> None:
    """SIM-2: most faults of short runs would disturb nothing if they did not know of the actions."""
    meets = [
        any(incident.at - 5.0 <= act.at <= incident.at + incident.seconds for act in script.acts)
        for script in SCRIPTS
        for incident in script.incidents
    ]
    assert sum(meets) / len(meets) > 0.5


CREATED = Act(5.0, Do.CREATE, "app-0")


def test_an_engine_reports_garbage_about_its_next_run() -> None:
    """SIM-2, OPS-6: the fault waits for a Workflow that is at work."""
    runbook = Act(60.0, Do.OPERATE, "app-0", 9)
    fault = Incident(30.0, "engine-garbage", seconds=10.0, choice=0.5)
    outcome = perform(SimulationScript(7, 1, 100.0).with_steps([CREATED, runbook, fault]))
    assert outcome.broken == ()
    assert outcome.happened["engine-garbage"] == 1


def test_a_fault_that_found_nothing_to_disturb_ends_with_the_others() -> None:
    """SIM-2."""
    before: list[int] = []
    worlds: list[SimulatedWorld] = []

    def remember(world: SimulatedWorld, laws: Laws) -> None:
        worlds.append(world)
        before.append(len(world.on_write))

    fault = Incident(30.0, "engine-garbage", seconds=10.0, choice=0.5)
    outcome = perform(SimulationScript(7, 1, 60.0).with_steps([CREATED, fault]), remember)
    assert (outcome.broken, outcome.happened["engine-garbage"]) == ((), 0)
    assert [len(world.on_write) for world in worlds] == before
    assert [world.at_end_of_faults for world in worlds] == [[]]


def test_a_process_without_the_right_to_read_lists_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-2, RUN-2: a watch goes on without the right, so it has to end for a list to be refused."""
    fault = Incident(30.0, "right-to-read-removed", seconds=60.0, choice=0.02)
    script = SimulationScript(7, 1, 100.0).with_steps([CREATED, fault])
    assert perform(script).broken == ()
    DEFECTS["lists without a pause"].patch(monkeypatch)
    assert {(law.clause, law.law) for law in perform(script).broken} == DEFECTS["lists without a pause"].laws


def test_an_api_server_refuses_connections_while_etcd_is_restored() -> None:
    """SIM-2, RUN-1: informers may assume it: a watch that goes on from a later version misses what happens next."""
    asked: list[float] = []

    def remember(world: SimulatedWorld, laws: Laws) -> None:
        world.on_reconciled.append(lambda replica, controller, done: asked.append(world.seconds))

    fault, edit = Incident(400.0, "etcd-restored", seconds=10.0), Act(411.0, Do.UPGRADE, "app-0", 3)
    outcome = perform(SimulationScript(7, 1, 420.0).with_steps([CREATED, fault, edit]), remember)
    assert outcome.broken == ()
    assert any("resourceVersion" in line for line in outcome.trace if " fault " in line)
    assert not [at for at in asked if 410.1 < at < 412.9]
    assert [at for at in asked if 413.0 <= at < 600.0]

"""The laws of a box's children: the correct graph engine keeps them, and seeded defects break them (PH-1 to PH-3)."""

from pathlib import Path

import pytest

from purekube.graph.judge import _IN_PLACE, _NodeJudgement
from purekube.graph.owner import Owner
from purekube.graph.states import NodeState
from purekube_run.simulation.extensions.extension_world import Deed
from purekube_run.simulation.script import Act, SimulationScript
from vworkspace_app.simulation.run import perform

REGISTRY = Path(__file__).parents[3] / "examples" / "boxes" / "registry.yaml"


def broken() -> set[tuple[str, str]]:
    acts = (Act(10.0, Deed.CREATE, "object-1"), Act(120.0, Deed.DELETE, "object-1", 1))
    script = SimulationScript(5000, 1, 160.0, boxes=(str(REGISTRY),)).with_steps(acts)
    return {(law.clause, law.law) for law in perform(script).broken}


@pytest.mark.slow
def test_the_children_of_a_box_keep_their_laws() -> None:
    """SIM-4."""
    assert broken() == set()


@pytest.mark.slow
def test_a_child_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, PH-1."""
    in_place = {NodeState.READY, NodeState.LEFT, *_IN_PLACE}
    monkeypatch.setattr(_NodeJudgement, "_is_met", lambda self, edge, target: target.state in in_place)
    assert broken() == {("PH-1", "a child waits for what it depends on")}


@pytest.mark.slow
def test_a_child_that_goes_with_its_owner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-4, PH-3: its box says that it stays."""
    monkeypatch.setattr(Owner, "is_orphaned", lambda self, live: False)
    assert broken() == {("PH-3", "what is to stay is not deleted")}

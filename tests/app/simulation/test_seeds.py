"""Each file broken-*.json of tests/seeds is a shrunk run that broke a law once: none may break in it again (SIM-3)."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from purekube_run.simulation.script import SimulationScript
from purekube_run.simulation.shrinking import shrink
from tests.app.simulation.defects import decided, with_condition
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.run import draw, perform, read_script

SEEDS: Final = sorted((Path(__file__).parents[2] / "seeds").glob("broken-*.json"))
MOST_STEPS: Final = 10
"""The acts and faults of a shrunk run."""


def broken_in(path: Path) -> dict[str, Any]:
    """What a file says about the law that its run broke."""
    broken: dict[str, Any] = json.loads(path.read_text())["broken"]
    return broken


def told(path: Path) -> str:
    broken = broken_in(path)
    return f"{broken['clause']} {broken['law']} ({path.stem})"


def ready_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report Ready before Flux has confirmed anything."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, status="True", reason="Defect"))


def test_there_are_seeds() -> None:
    """SIM-3."""
    assert len(SEEDS) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("path", SEEDS, ids=told)
def test_a_run_that_broke_a_law_once_breaks_none(path: Path) -> None:
    """SIM-3: a shrunk run, named after the clause and the seed that it was found with."""
    script = read_script(path)
    assert len(script.steps) <= MOST_STEPS
    assert path.name == f"broken-{broken_in(path)['clause']}-{script.seed}.json"
    assert perform(script).broken == ()


@pytest.mark.slow
def test_a_drawn_run_shrinks_to_ten_acts_and_faults_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3: of dozens of acts and faults, those that the law needs are left."""
    ready_early(monkeypatch)
    drawn: SimulationScript = draw(3, seconds=3600.0, instances=10, replicas=2, faults=tuple(FAULTS))
    failing = perform(drawn)
    assert len(drawn.steps) > 3 * MOST_STEPS
    smaller = shrink(failing, perform)
    assert 1 <= len(smaller.script.steps) <= MOST_STEPS
    assert smaller.broken[0].law == failing.broken[0].law

"""Each file broken-*.json of tests/seeds is a shrunk run that broke a law once: none may break in it again (SIM-3)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from purekube.controller.decision import Decision, Finalizer
from purekube_run.simulation.script import SimulationScript
from purekube_run.simulation.shrinking import shrink
from tests.app.simulation.defects import decided, with_condition
from vworkspace_app.simulation.faults import FAULTS
from vworkspace_app.simulation.run import draw, perform, read_script
from vworkspace_app.simulation.surroundings import PASSWORD
from vworkspace_core.jobs.store import KubeJobStore

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


# --- the defects with which the runs were found ----------------------------------------------------------------------


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the job store remember nothing."""
    correct = KubeJobStore.load

    async def load(self: KubeJobStore) -> Any:
        await correct(self)
        return ()

    monkeypatch.setattr(KubeJobStore, "load", load)


def ready_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report Ready before Flux has confirmed anything."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, status="True", reason="Defect"))


def without_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make children without the finalizer."""

    def without(source: Any, decision: Decision) -> Decision:
        return attrs.evolve(decision, finalizer=None) if decision.finalizer is Finalizer.ADD else decision

    decided(monkeypatch, without)


def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a value into a status."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, message=f"with {PASSWORD}"))


DEFECTS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "broken-PULL-4-37": forgetful,
    "broken-REC-7-3": ready_early,
    "broken-RES-5-3": without_finalizer,
    "broken-RES-7-3": talkative,
}


def test_there_are_seeds() -> None:
    """SIM-3."""
    assert set(DEFECTS) <= {path.stem for path in SEEDS}


@pytest.mark.parametrize("path", SEEDS, ids=told)
def test_a_run_that_broke_a_law_once_breaks_none(path: Path) -> None:
    """SIM-3: a shrunk run, named after the clause and the seed that it was found with."""
    script = read_script(path)
    assert len(script.steps) <= MOST_STEPS
    assert path.name == f"broken-{broken_in(path)['clause']}-{script.seed}.json"
    assert perform(script).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_seed_finds_the_defect_that_it_was_found_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3: the same law, about the same object."""
    path = next(path for path in SEEDS if path.stem == name)
    DEFECTS[name](monkeypatch)
    law = perform(read_script(path)).broken[0]
    broken = broken_in(path)
    assert (law.clause, law.law, law.object) == tuple(broken[key] for key in ("clause", "law", "object"))


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

"""Roll-outs of an applied box in the simulated world: the correct framework keeps their laws (SIM-5, PH-10).

Seeded defects of roll-outs are in `defects.py`.
"""

from pathlib import Path

import attrs
import pytest

from purekube_run.process.command_line import CommandError
from purekube_run.simulation.extensions.extension_world import Deed
from purekube_run.simulation.extensions.rollout_laws import RolloutLaws, mark_of
from purekube_run.simulation.extensions.rollout_world import Definitions, RolloutDeed
from purekube_run.simulation.script import Act, SimulationScript
from purekube_run.simulation.script_file import script_text
from purekube_run.simulation.world_faults import WORLD_FAULTS
from tests.app.simulation.defects import SETTINGS
from vworkspace_app.simulation.run import drawn, perform, script_in

ROOT = Path(__file__).parents[3]
SPEC = {"resources": [{"id": "settings", "template": {"metadata": {"name": "x"}}}]}
CREATED = (Act(20.0, Deed.CREATE, "object-0"), Act(25.0, Deed.CREATE, "object-1"))


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def script(seed: int, *acts: Act) -> SimulationScript:
    return SimulationScript(seed, 1, 120.0, boxes=(SETTINGS,), applied=True).with_steps(acts)


def applying(seed: int, number: int = 1) -> Act:
    return Act(60.0, RolloutDeed.CHANGE_BOX, "definition-0", number)


def seeds_with(words: str) -> list[int]:
    """The first seeds whose definition 1 has these words in it."""
    return [seed for seed in range(1, 60) if words in str(Definitions(SPEC, seed).spec_of(1))][:1]


@pytest.mark.slow
def test_roll_outs_hold_every_law_through_all_faults() -> None:
    """SIM-5, SIM-2, PH-10."""
    for seed in range(10, 13):
        named = SimulationScript(seed, 2, 900.0, boxes=(SETTINGS,), applied=True)
        outcome = perform(drawn(named, 4, tuple(WORLD_FAULTS)))
        assert outcome.broken == ()
        assert set(RolloutLaws.settles) <= outcome.laws
        assert outcome.checks["PH-10"] > len(RolloutLaws.settles)


@pytest.mark.slow
def test_an_example_box_rolls_out_through_all_faults() -> None:
    """SIM-5, PH-10."""
    named = SimulationScript(12, 2, 900.0, boxes=("examples/boxes/webapp.yaml",), applied=True)
    assert perform(drawn(named, 3, tuple(WORLD_FAULTS))).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("flaw", ["'onFailure': 'Undo'", "== ''", "example.com/refused"])
def test_a_definition_with_a_flaw_is_rolled_out_and_ends(flaw: str) -> None:
    """PH-10: one that is undone, one that stops, and one of which a write would be refused."""
    for seed in seeds_with(flaw):
        outcome = perform(script(seed, *CREATED, applying(seed)))
        assert outcome.broken == ()
        assert outcome.acts == 3


@pytest.mark.slow
def test_a_roll_out_is_a_function_of_its_seed() -> None:
    """SIM-3."""
    run = script(3, *CREATED, applying(3))
    assert perform(run).digest == perform(run).digest


def test_a_definition_marks_what_it_makes_and_the_first_has_no_flaw() -> None:
    """SIM-5: an earlier definition comes again under its own number."""
    for seed in range(20):
        definitions = Definitions(SPEC, seed)
        assert mark_of(definitions.spec_of(0)) == "0"
        assert "readyWhen" not in str(definitions.spec_of(0))
        assert {int(mark_of(definitions.spec_of(number))) <= number for number in range(9)} == {True}
    assert any(mark_of(Definitions(SPEC, seed).spec_of(5)) != "5" for seed in range(20))


def test_a_saved_run_says_that_its_box_is_applied() -> None:
    """SIM-3: and a run of another kind says nothing of it, with the seed 0 too."""
    run = script(0, *CREATED, applying(0))
    assert script_in(Path("x"), script_text(run).encode()) == run
    plain = attrs.evolve(run, applied=False).with_steps(CREATED)
    assert '"applied"' not in script_text(plain)
    assert script_in(Path("x"), script_text(plain).encode()) == plain


@pytest.mark.parametrize(
    ("boxes", "told"),
    [
        (("examples/boxes/registry.yaml",), "registry has several versions"),
        ((SETTINGS, "examples/boxes/webapp.yaml"), "one box is applied"),
    ],
)
def test_a_box_that_cannot_be_applied_here_is_refused(boxes: tuple[str, ...], told: str) -> None:
    """SIM-5."""
    with pytest.raises(CommandError, match=told):
        drawn(SimulationScript(1, 1, 60.0, boxes=boxes, applied=True), 1, ())

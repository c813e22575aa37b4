"""`simulate` and `simulate replay` as people use them, and the example (SIM-1, SIM-3, SIM-5)."""

import runpy
from pathlib import Path

import attrs
import pytest

from purekube_run.process.command_line import CommandError
from purekube_run.simulation.script import Act, SimulationScript
from purekube_run.simulation.script_file import script_text
from tests.app.simulation.defects import decided, with_condition
from vworkspace_app.commands.simulate.replay import ReplayRequest, replay
from vworkspace_app.commands.simulate.seeds import SimulateRequest, faults_named, simulate
from vworkspace_app.commands.simulate.simulate_flags import seconds_of_run
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.operator_faults import FAULTS
from vworkspace_app.simulation.run import draw, read_script
from vworkspace_app.simulation.verdict import read_verdict

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_simulation_says_what_was_tried_and_which_laws_were_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """SIM-1."""
    request = SimulateRequest(1, 120.0, 1, 1, ("watch-cut", "api-error"), 5, folder=tmp_path)
    assert simulate(request) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("seed 5   1 run ")
    for part in ("watch-cut", "checks", "RUN-4", "REC-6"):
        assert part in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_saved_run_is_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """SIM-3: a script survives its file."""
    path = tmp_path / "run.json"
    path.write_text(script_text(draw(5, seconds=60.0, instances=1, replicas=1, faults=())))
    assert replay(ReplayRequest(path)) == 0
    assert "no law is broken" in capsys.readouterr().out


@pytest.mark.parametrize("do", Do)
def test_every_act_survives_its_file(do: Do, tmp_path: Path) -> None:
    """SIM-3: as the member that a workload dispatches on by identity; a deletion was once replayed as an upgrade."""
    path = tmp_path / "run.json"
    script = SimulationScript(1, 1, 60.0, (Act(1.0, do, "app-0"),))
    path.write_text(script_text(script))
    (act,) = read_script(path).acts
    assert act.do is do


MISSPELT = {
    "folder": lambda request, path: attrs.evolve(request, folder=path),
    "verdict": lambda request, path: attrs.evolve(request, verdict=path),
}


@pytest.mark.parametrize("place", MISSPELT)
def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(place: str, tmp_path: Path) -> None:
    """SIM-1: the result of hours is not lost on a misspelt folder."""
    request = SimulateRequest(10**6, 3600.0, 1, 1, (), 5, folder=tmp_path)
    with pytest.raises(CommandError, match="absent") as caught:
        simulate(MISSPELT[place](request, tmp_path / "absent" / "x"))
    assert caught.value.status == 2


@pytest.mark.slow
def test_a_broken_run_that_cannot_be_saved_still_has_its_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """SIM-1: its seed finds it again."""
    decided(monkeypatch, lambda source, decision: with_condition(source, decision, status="True", reason="Defect"))

    def save(seed: int, text: str) -> str:
        raise CommandError("the API server does not answer")

    request = SimulateRequest(1, 60.0, 1, 1, (), 3, folder=tmp_path, verdict=tmp_path / "verdict", save=save)
    assert simulate(request) == 1
    assert "seed 3: " in capsys.readouterr().out
    (broken,) = read_verdict((tmp_path / "verdict").read_text()).broken
    assert (broken.seed, broken.saved) == (3, "(not saved: the API server does not answer)")


@pytest.mark.parametrize("time", ["90sec", "2m or so", "", "25h"])
def test_the_length_of_a_run_is_a_duration_and_nothing_else(time: str) -> None:
    with pytest.raises(CommandError, match="a duration from 1m to 24h"):
        seconds_of_run(time)


def test_faults_are_named_all_none_or_one_by_one() -> None:
    """SIM-2."""
    assert faults_named("all") == tuple(FAULTS)
    assert faults_named("none") == ()
    assert faults_named("watch-cut, api-error") == ("watch-cut", "api-error")
    with pytest.raises(CommandError, match="there is no fault oops; there are crash-before-write"):
        faults_named("watch-cut,oops")


@pytest.mark.slow
def test_the_example_finds_its_broken_law() -> None:
    """SIM-5: docs/simulation.md quotes what it prints."""
    smallest = runpy.run_path(str(ROOT / "examples" / "simulation.py"))["main"]()
    law = smallest.broken[0]
    assert (law.clause, law.law) == ("FREEZE", "no release after five minutes")
    printed = "\n".join(str(each) for each in (*smallest.script.steps, *smallest.broken))
    assert printed in (ROOT / "docs" / "simulation.md").read_text()

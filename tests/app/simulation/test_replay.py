"""`simulate replay`: any moment of a run, what decided, what changed, and the law that broke (SIM-3)."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from starlette.applications import Starlette

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.script import Act, SimulationScript
from purekube_run.simulation.script_file import script_text
from purekube_run.simulation.world import _version_of
from tests.app.simulation.defects import decided, with_condition
from tests.app.simulation.test_simulation import LIFE
from tests.support.browser import browser, missing, resize, until
from tests.support.page_site import get
from vworkspace_app.commands.simulate.replay import ReplayRequest, moment_of, replay
from vworkspace_app.observability import serving_in_thread
from vworkspace_app.page.drawing import TracePage
from vworkspace_app.page.site import Site
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.operator_world import PASSWORD
from vworkspace_app.simulation.run import drawn, perform
from vworkspace_app.simulation.run_history import RunDecision, RunHistory, RunRecorder
from vworkspace_app.simulation.run_trace import trace_of
from vworkspace_core.overview.trace import Moment, differences

SCRIPT = SimulationScript(7, 1, 100.0, (*LIFE, Act(30.0, Do.JOB, "job-2")))


def saved(folder: Path, script: SimulationScript = SCRIPT) -> Path:
    path = folder / "run.json"
    path.write_text(script_text(script))
    return path


def recorded(script: SimulationScript = SCRIPT) -> RunHistory:
    history = RunHistory()

    def attach(world: object, laws: object) -> None:
        RunRecorder(world, history)  # type: ignore[arg-type]  # the operator's world

    perform(script, attach)
    return history


@pytest.fixture(scope="module")
def history() -> RunHistory:
    return recorded()


def rows(moment: Moment, title: str) -> dict[str, tuple[str, ...]]:
    (table,) = (table for table in moment.tables if table.title == title)
    return {row[0]: row[1:] for row in table.rows}


@pytest.mark.slow
def test_a_moment_shows_objects_decisions_queue_lease_outbox_and_job_records(history: RunHistory) -> None:
    """SIM-3: half a second after the job was offered, it is applied, recorded, and waits for Flux."""
    moment = trace_of(history, "run").moments[history.number_at(31.0)]
    instance = "ApplicationInstance team-c/job-2"
    assert rows(moment, "Objects")[instance][1:3] == ("Progressing", "HelmReleaseInstalling")
    at, row, writes, *_ = rows(moment, "Last decisions")[instance]
    assert (at[:7], row) == ("0:00:30", "REC-5 row 1 Pending")
    assert "apply HelmRelease team-c/job-2" in writes
    assert rows(moment, "Replicas") == {"replica-1": ("leads",)}
    later = trace_of(history, "run").moments[history.number_at(33.0)]
    queues = [rows(each, "Queue")[f"replica-1 applicationinstance: {instance}"][0] for each in (moment, later)]
    assert queues == ["processing", "waiting"], "its decision is the last moment before: that pass has not ended"
    (lease,) = rows(moment, "Leases").values()
    assert lease[0].startswith("replica-1_")
    assert rows(moment, "Outbox")["replica-1"][0] == "connected"
    assert rows(moment, "Open jobs") == {"replica-1 job-1": ("waiting", instance)}
    ((job, state),) = rows(moment, "Job records").values()
    assert (job, state) == ("job-1", "intent")
    assert {"HelmRelease", "OCIRepository"} <= {node.kind for node in moment.object_graph.nodes}


@pytest.mark.slow
def test_every_decision_names_the_row_that_decided(history: RunHistory) -> None:
    """SIM-3: REC-5's rows for instances, in the order in which a release comes about; none is without a row."""
    decisions = [history.moments[number].decision for number in history.decisions()]
    told = [decision for decision in decisions if decision and decision.ref.name == "app-0"]
    rows_of_app = list(dict.fromkeys(decision.row for decision in told))
    assert rows_of_app[:3] == ["REC-5 row 1 Pending", "REC-5 row 8 Installing", "REC-5 row 5 Ready"]
    assert "REC-5 row 8 Upgrading" in rows_of_app
    assert [decision for decision in decisions if decision and decision.effects and not decision.row] == []


@pytest.mark.slow
def test_a_run_of_a_box_shows_its_objects_its_queue_and_its_decisions() -> None:
    """SIM-3: a user's box is replayed as the operator is; the row says what was decided about Ready."""
    box = str(Path(__file__).parents[3] / "examples" / "boxes" / "webapp.yaml")
    script = attrs.evolve(SimulationScript(3, 1, 300.0), boxes=(box,))
    history = recorded(drawn(script, 1, ()))
    moments = trace_of(history, "run").moments
    number = next(
        at for at in history.decisions() if (made := history.moments[at].decision) and "apply Deployment" in str(made)
    )
    moment = moments[number]
    (row,) = {cells[1] for cells in rows(moment, "Last decisions").values()}
    assert row.startswith("Ready=")
    assert any(name.startswith("Deployment ") for name in rows(moment, "Objects"))
    assert rows(moment, "Replicas") != {}
    assert any(rows(each, "Queue") for each in moments)


@pytest.mark.slow
def test_a_difference_names_what_appeared_and_changed(history: RunHistory) -> None:
    """SIM-3."""
    moments = trace_of(history, "run").moments
    before, after = (moments[history.number_at(at)] for at in (15.0, 60.0))
    found = {(each.table, each.sign, each.name) for each in differences(before, after)}
    assert ("Objects", "+", "HelmRelease team-a/app-0") in found
    assert any(table == "Leases" and sign == "~" for table, sign, _ in found)
    back = {(each.table, each.sign, each.name) for each in differences(after, before)}
    assert ("Objects", "-", "HelmRelease team-a/app-0") in back
    assert list(differences(after, after)) == []


def test_a_broken_law_is_marked_on_the_line_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIM-3: in the terminal, at its moment, and for the page."""
    decided(
        monkeypatch,
        lambda source, decision: with_condition(source, decision, status="True", reason="HelmReleaseReady"),
    )
    history = recorded(SimulationScript(7, 1, 60.0, LIFE))
    trace = trace_of(history, "run")
    ((number, mark),) = trace.marked.items()
    assert "REC-7 Ready only when Flux confirmed is broken" in mark
    assert trace.moments[number].mark == mark
    assert 20.0 < history.moments[number].at < 30.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"at": 31.0}, "Open jobs (1)"),
        ({"diff": (15.0, 60.0)}, "+ HelmRelease team-a/app-0"),
        ({"step": True}, "decision 1 of "),
        ({}, "[REC-5 row 5 Ready] status"),
    ],
)
def test_replay_prints_what_was_asked_for_and_no_secret(
    options: dict[str, object], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIM-3, RES-7: `--step` prints all where there is no terminal."""
    assert replay(ReplayRequest(saved(tmp_path), **options)) == 0  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert expected in printed
    assert printed.rstrip().splitlines()[-1].startswith("no law is broken")
    assert PASSWORD not in printed
    assert "tok-" not in printed


def test_a_decision_without_a_table_has_no_row_in_its_text() -> None:
    """SIM-3."""
    note = ObjectRef(Kind("example.com", "v1", "Note", "notes"), "team", "a")
    finalizer = RunDecision("note", note, "", ("add finalizer Note team/a", "status"))
    assert str(finalizer) == "decides Note team/a: add finalizer Note team/a, status"
    assert str(RunDecision("note", note, "")) == "decides Note team/a: writes nothing"
    assert str(RunDecision("note", note, "Ready=True", error="no")).endswith(
        ": [Ready=True] writes nothing; failed: no"
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"kind": "Note", "metadata": {"name": "a", "resourceVersion": "17"}}, "resourceVersion 17"),
        ({"kind": "Status", "metadata": {}, "status": "Success"}, "gone"),
        (None, "gone"),
    ],
)
def test_a_write_is_told_with_the_version_that_it_made_or_that_its_object_is_gone(answer: Any, told: str) -> None:
    """SIM-3."""
    assert _version_of(answer) == told


@pytest.mark.slow
def test_moments_between_which_no_object_changed_have_no_heading_for_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIM-3."""
    path = saved(tmp_path)
    assert replay(ReplayRequest(path, diff=(15.0, 15.0))) == 0
    assert "Fields" not in capsys.readouterr().out
    assert replay(ReplayRequest(path, diff=(15.0, 60.0))) == 0
    assert "\n\nFields\n" in capsys.readouterr().out


@pytest.mark.slow
def test_changed_fields_are_shown_with_their_paths_and_values_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIM-3, RES-7: the upgrade at 80 s changes the version, and a change of values shows no value."""
    script = SimulationScript(7, 1, 100.0, (*LIFE, Act(85.0, Do.VALUES, "app-0", 12345)))
    assert replay(ReplayRequest(saved(tmp_path, script), diff=(70.0, 99.0))) == 0
    printed = capsys.readouterr().out
    assert "    spec.chart.version: 1.0.0 → 1.2.0" in printed
    assert "12345" not in printed


@pytest.mark.slow
def test_steps_follow_keys_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIM-3: Enter goes on, b back, a shows everything, q ends."""
    keys = iter(["", "b", "a", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(keys))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    replay(ReplayRequest(saved(tmp_path), step=True))
    printed = capsys.readouterr().out
    numbers = re.findall(r"decision (\d+) of", printed)
    assert numbers == ["1", "2", "1", "1"]
    assert "Replicas (1)" in printed


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:41:07.5", 2467.5), ("41:07", 2467.0), ("61.4", 61.4), ("10m", 600.0), ("1h2m", 3720.0)]
)
def test_a_moment_is_a_clock_or_a_duration(text: str, seconds: float) -> None:
    """SIM-3."""
    assert moment_of(text, "--at") == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "9" * 40, "1:2:3:4", "\x1b[31m", "m"])
def test_what_is_no_moment_is_refused_in_one_line(text: str) -> None:
    """SIM-3."""
    with pytest.raises(CommandError) as caught:
        moment_of(text, "--at")
    assert caught.value.status == 2
    assert "\x1b" not in caught.value.message
    assert caught.value.message.startswith("--at ")


@pytest.mark.slow
def test_the_replay_is_the_same_in_another_process_with_another_hash_seed(tmp_path: Path) -> None:
    """SIM-3: byte for byte, decisions and tables included."""
    path = saved(tmp_path, SimulationScript(7, 2, 60.0, SCRIPT.acts))
    program = (
        "from pathlib import Path; from vworkspace_app.commands.simulate.replay import ReplayRequest as R, replay;"
        f"p = Path({str(path)!r}); replay(R(p, step=True)); replay(R(p, at=31.0)); replay(R(p, diff=(25.0, 50.0)))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(printed) == 1
    assert len(printed.pop()) > 5_000


@pytest.mark.slow
def test_the_page_has_a_slider_with_marks_tables_and_a_comparison(history: RunHistory) -> None:
    """SIM-3, SEE-3: one mechanism with the trace of `box test`."""
    trace = trace_of(history, "run")
    site = Site(TracePage(attrs.evolve(trace, marked={3: "PULL-4 <b> is broken"})), "simulate")
    number, since = history.number_at(60.0), history.number_at(15.0)
    with serving_in_thread(Starlette(routes=site.routes()), "127.0.0.1:0") as url:
        plain, compared = (get(url, f"/?at={number}{more}").text for more in ("", f"&from={since}"))
        beyond = get(url, "/?at=99999999&from=x")
    assert "Last decisions (" in plain
    assert "REC-5 row 5 Ready" in plain
    assert "PULL-4 &lt;b&gt; is broken" in plain
    assert '<option value="3">' in plain
    assert "What changed since" not in plain
    assert f"What changed since moment {since + 1}" in compared
    assert "HelmRelease team-a/app-0" in compared
    assert f'value="{since}"' in compared, "the comparison stays while the slider moves"
    assert beyond.status == 200


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_of_a_run_fits_a_narrow_window(history: RunHistory) -> None:
    """SIM-3: at 360 px nothing scrolls sideways but the tables themselves."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    site = Site(TracePage(trace_of(history, "run")), "simulate")
    number = history.number_at(60.0)
    with serving_in_thread(Starlette(routes=site.routes()), "127.0.0.1:0") as url, browser() as window:
        resize(window, 360, 700)
        window.get(f"{url}/?at={number}&from=0")
        wide = window.execute_script("return document.documentElement.scrollWidth > window.innerWidth")
        assert wide is False
        window.find_element(By.NAME, "at").send_keys(Keys.ARROW_RIGHT)
        until(lambda: f"Moment {number + 2} of" in window.find_element(By.ID, "moment").text, "the next moment")

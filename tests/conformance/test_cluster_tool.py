"""`make cluster` builds what its pins say, and where Go is missing it says so in one line (RUN-8)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.cluster import testing
from tools.cluster.build import WITHOUT_GO
from tools.cluster.charts import NAMES, packaged
from tools.cluster.components import COMPONENTS
from tools.cluster.pins import hash_of, read_pin, read_pins


def test_every_component_is_built_of_pins_that_are_there_RUN_8() -> None:
    pins = read_pins()
    assert {pin for component in COMPONENTS.values() for pin in component.pins} == pins.keys()
    assert [program.name for program in pins["kubernetes"].programs] == [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
    ]
    assert f"gitVersion={pins['kubernetes'].version}" in pins["kubernetes"].linker_flags


def test_another_sum_is_another_build_RUN_8(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n\ntool example.com/a/b\n\nrequire example.com/a v1.2.3\n")
    (tmp_path / "go.sum").write_text("first")
    pin = read_pin(tmp_path)
    before = hash_of(pin)
    (tmp_path / "go.sum").write_text("second")
    assert (pin.module, pin.version, hash_of(pin) == before) == ("example.com/a", "v1.2.3", False)


def test_the_oldest_versions_are_older_pins_of_the_same_programs_RUN_8() -> None:
    newest, oldest = read_pins(), read_pins(oldest=True)
    assert newest.keys() == oldest.keys()
    older = {name: pin for name, pin in oldest.items() if pin != newest[name]}
    assert {"kubernetes", "helm-controller"} <= older.keys()
    for name, pin in older.items():
        assert _numbers(pin.version) < _numbers(newest[name].version)
        assert [program.name for program in pin.programs] == [program.name for program in newest[name].programs]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.removeprefix("v").split(".")]


def test_a_program_of_ours_is_built_again_when_its_text_changes_RUN_8(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "go.mod").write_text("module x\n\nrequire (\n\texample.com/other v0.1.0\n\texample.com/thing v1.2.3\n)\n")
    (folder / "go.sum").write_text("")
    with pytest.raises(ValueError, match=r"no main\.go"):
        read_pin(folder)
    (folder / "main.go").write_text("package main")
    pin = read_pin(folder)
    before = hash_of(pin)
    assert [(program.name, program.package) for program in pin.programs] == [("thing", ".")]
    assert (pin.module, pin.version) == ("example.com/thing", "v1.2.3")
    (folder / "main.go").write_text("package main // another")
    assert hash_of(pin) != before


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_chart_is_the_same_bytes_each_time_RUN_8(name: str) -> None:
    assert packaged(name, "1.0.0") == packaged(name, "1.0.0") != packaged(name, "1.0.1")


@pytest.mark.slow
def test_without_go_one_line_says_what_is_missing_and_what_goes_on_RUN_8(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.cluster", "test"]
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(
        command, cwd=root, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{WITHOUT_GO}\n", "")


STARTER = """
import os, subprocess, sys, time
from tools.cluster import strays
strays.adopt()
subprocess.run(["sh", "-c", "setsid sleep 600 & trap '' TERM; (trap '' TERM; exec sleep 601) &"], check=True)
while len(ids := strays.descendants(os.getpid())) < 2:
    time.sleep(0.01)
strays.end(ids, grace=0.5)
print(len(ids), strays.descendants(os.getpid()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux alone")
def test_processes_end_whose_parent_is_gone_and_that_ignore_a_signal_RUN_8() -> None:
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run([sys.executable, "-c", STARTER], cwd=root, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("2 []\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("later", [False, True])
def test_a_test_that_fails_is_run_once_more_and_named_RUN_8(tmp_path: Path, later: bool) -> None:
    (tmp_path / "test_races.py").write_text(
        "import pathlib\n"
        "def test_first():\n    seen = pathlib.Path(__file__).with_name('seen')\n"
        "    was_there = seen.exists()\n    seen.touch()\n    assert was_there\n"
        "def test_second():\n    pass\n"
    )
    said: list[str] = []
    with testing._Run("races", tmp_path, [str(tmp_path)], workers=0, later=later) as run:
        status = run.wait(said.append)

    assert status == 0
    # The path before the name depends on whether the checkout and the temporary folder have a common parent.
    assert re.search(r"exit status 0 at a second attempt: [^,]*test_races\.py::test_first$", said[-1])


@pytest.mark.slow
def test_a_test_that_fails_twice_is_red_RUN_8(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("def test_always():\n    assert False\n")
    said: list[str] = []
    with testing._Run("broken", tmp_path, [str(tmp_path)], workers=0) as run:
        assert run.wait(said.append) == 1
    assert "test_broken.py::test_always" in said[-1]

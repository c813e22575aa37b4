"""docs/simulation.md: every command of its sections on replay, recordings and machines does what the page says."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from kubelab.cluster.definitions import install
from kubelab.flux.crds import flux_crds
from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from tests.docs.markdown import ROOT
from tests.support.server_thread import served, wall_clock
from vworkspace_core.api.crd import crd_manifests

PAGE: Final = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
SEED: Final = ROOT / "tests" / "seeds" / "broken-PULL-4-37.json"


def section(title: str) -> str:
    """The text of a section."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def commands(title: str) -> list[str]:
    """The commands of a section."""
    blocks = re.findall(r"```sh\n(.*?)```", section(title), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def carried_out(line: str, folder: Path, *, status: int = 0) -> str:
    """Run a command of the page; return what it prints."""
    name, *arguments = shlex.split(line.partition(" | ")[0])
    assert name == "vworkspace-operator"
    ended = subprocess.run(
        [sys.executable, "-m", "vworkspace_app", *arguments],
        cwd=folder,
        env={"PATH": "", "KUBECONFIG": str(folder / "config")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == status, (line, ended.stdout[-2000:], ended.stderr)
    return ended.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the run that the page names, and a cluster without objects."""
    shutil.copy(SEED, tmp_path)
    server = ApiServer(now=wall_clock)
    install(server, (*crd_manifests(), *flux_crds()))
    with served(server) as url:
        (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(url)))
        yield tmp_path


@pytest.mark.slow
def test_the_first_command_prints_what_the_page_shows(folder: Path) -> None:
    """SIM-1: a run depends on its seed alone. The page leaves the ends of lines out."""
    command, shown = re.findall(r"```(?:sh)?\n(.*?)```", PAGE, re.DOTALL)[:2]
    printed = carried_out(command, folder)
    for part in filter(None, re.split(r"\s*…,?\s*|\n", shown)):
        assert part in printed


@pytest.mark.slow
def test_time_travel_prints_what_the_page_shows(folder: Path) -> None:
    """SIM-3."""
    given = [line.replace("FILE", SEED.name) for line in commands("Time travel")]
    everything, moment, difference, steps = (carried_out(line, folder) for line in given)
    (shown,) = re.findall(r"\n\n```\n(.*?)```", section("Time travel"), re.DOTALL)
    for line in shown.splitlines():
        assert line in everything
    assert "Job records (1)" in moment
    assert "ApplicationInstance team-c/job-2" in difference
    assert "decision 1 of " in steps


@pytest.mark.slow
def test_a_cluster_is_recorded_replayed_and_used_as_the_page_says(folder: Path) -> None:
    """SIM-3: the cluster is empty, and the recording short; people do something in the workload alone."""
    record, replay, workload = commands("A recorded cluster")
    assert "simulate replay day.jsonl" in carried_out(record.replace("--for 10m", "--for 2s"), folder)
    assert "the recorded objects show what this version decides" in carried_out(replay, folder)
    shutil.copy(SEED, folder / "day.jsonl")
    assert " 1 run " in carried_out(workload, folder)


@pytest.mark.slow
def test_the_job_is_printed_as_the_page_says(folder: Path) -> None:
    """SIM-1: a Job that does not exist cannot be collected."""
    manifests, collect = commands("Many machines")
    printed = list(yaml.safe_load_all(carried_out(manifests, folder)))
    assert [each["kind"] for each in printed] == ["ServiceAccount", "Role", "RoleBinding", "Job"]
    assert printed[-1]["spec"]["parallelism"] == 200
    carried_out(collect, folder, status=2)

"""`bench.neighbours` measures operators that do the same: parents become Ready, a changed definition reaches all."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.neighbours import BUILT
from tests.support.patience import PATIENCE
from tools.cluster.build import is_built
from tools.cluster.up import pins_of

pytestmark = [pytest.mark.slow, pytest.mark.benchmark]

ROOT = Path(__file__).resolve().parents[2]


def measured(*operators: str) -> dict[str, dict[str, float]]:
    environment = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    command = [sys.executable, "-m", "bench.neighbours", "--parents", "2", "--operators", *operators]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=4 * PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"| what | {' | '.join(operators)} |" in done.stdout
    return {name: json.loads(row) for name, row in re.findall(r"^(\S+)-2-0: (\{.*)$", done.stdout, re.MULTILINE)}


def test_boxes_and_kopf_are_measured_on_the_embedded_server() -> None:
    found = measured("box", "applied", "kopf")

    assert {name: row["changed: writes a changed child"] for name, row in found.items()} == {
        "box": 1,
        "applied": 1,
        "kopf": 1,
    }
    assert (found["box"]["restart: writes"], found["applied"]["restart: writes"]) == (0, 0)
    assert found["box"]["created: writes a parent"] <= found["kopf"]["created: writes a parent"]


@pytest.mark.skipif(
    not is_built(pins_of(BUILT).values()), reason="not built: tools.cluster build --with kro,controller-runtime"
)
def test_kro_and_controller_runtime_are_measured_on_a_kube_apiserver() -> None:
    found = measured("box", "kro", "controller-runtime")

    assert found["box"]["restart: writes"] == 0
    assert all(row["created: writes a parent"] > 5 for row in found.values())
    assert all(row["changed: writes a changed child"] >= 1 for row in found.values())

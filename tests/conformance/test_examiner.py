"""The examiner examined: seeded defects are caught by the clause that they break, and by no other (CONF-2).

`test_operator_examined.py` shows that the correct operator passes. Each defect meets the checks of its own clause and
of some others. It has to fail a check of its clause, and none of another one.
"""

import json
import sys
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import pytest

from purekube_run.examination.operator_process import OperatorCommand
from tests.support.commands import run
from tests.support.seeded_defects import DEFECTS
from vworkspace_app.examination.run import ExaminationProfile, ExaminationRequest

pytestmark = pytest.mark.slow

AGENT = "--control-plane-url {control_plane} --token-file {token_file} --cluster-id {cluster_id}"
OTHERS = 3
"""How many further clauses each defect meets."""


def beside() -> Sequence[str]:
    """The clauses whose checks run beside each other, so that further ones cost little."""
    checks = ExaminationRequest(OperatorCommand("-"), ExaminationProfile.FULL).checks
    return sorted({check.clause for check in checks} - {check.clause for check in checks if check.alone})


def met_by(number: int) -> Sequence[str]:
    """The clauses that a defect meets: its own, and some of the others in turn."""
    defect = list(DEFECTS.values())[number]
    return [defect.clause, *islice(cycle(beside()), OTHERS * number, OTHERS * (number + 1))]


def failures(name: str, clauses: Sequence[str], folder: Path, patience: str) -> dict[str, list[str]]:
    """The checks of some clauses that the operator with a defect fails, by clause, each with what was seen."""
    report = folder / "report.json"
    command = f"{sys.executable} -m tests.support.seeded_defects {name} run --kubeconfig {{kubeconfig}} {AGENT}"
    words = [word for clause in clauses for word in ("--clause", clause)]
    ended = run(
        "conformance", "operator", "--operator", command, "--profile", "full", "--timeout", patience, *words,
        "--report", report, cold=True, seconds=600, PYTHONPATH=str(Path(__file__).parents[2]), PYTHONWARNINGS="default",
    )  # fmt: skip
    assert report.exists(), ended.err
    found: dict[str, list[str]] = {}
    for check in json.loads(report.read_text())["checks"]:
        if check["verdict"] == "FAIL":
            found.setdefault(check["clause"], []).append(f"{check['sentence']}: {check['message']}")
    return found


def test_there_are_forty_defects_and_more_which_together_meet_the_clauses() -> None:
    assert len(DEFECTS) >= 40
    assert {clause for number in range(len(DEFECTS)) for clause in met_by(number)} >= set(beside())


@pytest.mark.seeded
@pytest.mark.parametrize("name", DEFECTS)
def test_a_seeded_defect_is_caught_by_the_clause_that_it_breaks(name: str, tmp_path: Path) -> None:
    """On a machine that is too slow for the first patience the second one counts."""
    seeded, clauses = DEFECTS[name], met_by(list(DEFECTS).index(name))
    for patience in ("15s", "60s"):
        failed = failures(name, clauses, tmp_path, patience)
        if {seeded.clause} <= failed.keys() <= {seeded.clause, *seeded.also}:
            return
    pytest.fail(f"{name} breaks {seeded.clause}; of {clauses} failed: {json.dumps(failed, indent=2)}")

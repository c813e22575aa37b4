"""The examiner examined: seeded defects are caught by the clause that they break, and by no other (CONF-2).

`test_operator_examined.py` shows that the correct operator passes. Each defect meets the checks of its clause, and of
REC-11, which few break. It has to fail a check of its clause, and none of another one.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.seeded_defects import DEFECTS

pytestmark = pytest.mark.slow

AGENT = "--control-plane-url {control_plane} --token-file {token_file} --cluster-id {cluster_id}"
CONTROL = "REC-11"
"""A clause that few defects break: each run shows that it still passes."""


def verdicts(name: str, clauses: list[str], folder: Path) -> dict[str, set[str]]:
    """The verdicts of the checks of some clauses on the operator with a defect."""
    report = folder / "report.json"
    command = f"{sys.executable} -m tests.support.seeded_defects {name} run --kubeconfig {{kubeconfig}} {AGENT}"
    words = [word for clause in clauses for word in ("--clause", clause)]
    ended = run(
        "conformance", "operator", "--operator", command, "--profile", "full", "--timeout", "8s", *words,
        "--report", report, cold=True, PYTHONPATH=str(Path(__file__).parents[2]), PYTHONWARNINGS="default",
    )  # fmt: skip
    assert report.exists(), ended.err
    found: dict[str, set[str]] = {}
    for check in json.loads(report.read_text())["checks"]:
        found.setdefault(check["clause"], set()).add(check["verdict"])
    return found


def test_there_are_forty_defects_and_more() -> None:
    assert len(DEFECTS) >= 40


@pytest.mark.seeded
@pytest.mark.parametrize("name", DEFECTS)
def test_a_seeded_defect_is_caught_by_the_clause_that_it_breaks(name: str, tmp_path: Path) -> None:
    seeded = DEFECTS[name]
    found = verdicts(name, [seeded.clause, CONTROL], tmp_path)

    assert "FAIL" in found[seeded.clause], f"{name} passes {seeded.clause}: {found}"
    assert {clause for clause, ends in found.items() if "FAIL" in ends} <= {seeded.clause, *seeded.also}

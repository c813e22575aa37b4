"""Operators written with kopf get the verdicts that reading them predicts (CONF-1, CONF-2)."""

import json
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.support.commands import run

pytestmark = pytest.mark.slow

KOPF = f"{Path(sys.executable).with_name('kopf')} run --standalone --all-namespaces"
PREDICTED = {
    "converges": "pass",
    "observed_generation": "pass",
    "foreign_metadata": "pass",  # it applies its own fields only
    "source_is_immutable": "FAIL",  # a version is a new tag of the same source
    "one_switch": "FAIL",  # and reaches Flux before the values do
    "conflict": "FAIL",  # 409 is an error like others to it
    "placeholder": "FAIL",  # it reads spec.chart of every instance
    "gate": "FAIL",  # it knows no gate, no cluster and no label
    "unmanaged": "FAIL",
    "wrong_cluster": "FAIL",
    "finalizer_first": "FAIL",  # kopf's finalizer has another name
    "deletion": "FAIL",  # it deletes by name
    "deletion_waits": "FAIL",  # and does not wait for Flux
}


def test_an_operator_of_this_api_gets_the_verdicts_that_reading_predicts(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = [word for name in PREDICTED for word in ("--clause", name)]
    ended = run(
        "conformance", "operator", "--operator", f"{KOPF} {ROOT / 'bench' / 'kopf_operator.py'}", "--timeout", "30s",
        *words, "--report", report, cold=True, PYTHONWARNINGS="default",
    )  # fmt: skip

    assert ended.status == 1, ended.err
    checks = json.loads(report.read_text())["checks"]
    assert {check["check"]: check["verdict"] for check in checks} == PREDICTED
    assert all(check["message"] for check in checks if check["verdict"] == "FAIL")

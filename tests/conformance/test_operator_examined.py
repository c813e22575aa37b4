"""`conformance operator` on our own operator, in its own form (CONF-1)."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import kubelab
from kubelab.downstream.crds import downstream_crds
from kubelab.flux import flux_crds
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.process.command_line import INTERRUPTED
from tests.docs.spec_pages import clauses
from tests.support.commands import COMMAND, Ended, Running, run
from tests.support.patience import until
from vworkspace_app.examination.played import ENGINES
from vworkspace_app.examination.run import CODES, UNSEEN, ExaminationProfile, ExaminationRequest
from vworkspace_core.api.crd import crd_manifests

GITOPS = f"{COMMAND} run --kubeconfig {{kubeconfig}} --no-agent --cluster-id {{cluster_id}}"

SNAPSHOTS = "snapshot.storage.k8s.io"

ENDING = ("OPS-8", "OPS-11", "OPS-12")
"""The clauses with a check whose Job hangs."""


def examined(*words: str | Path, operator: str = GITOPS) -> Ended:
    return run("conformance", "operator", "--operator", operator, *words, cold=True, PYTHONWARNINGS="default")


def test_every_clause_has_a_check_or_the_reason_why_it_shows_nowhere_outside() -> None:
    """CONF-1: and no clause has both."""
    every = ExaminationRequest(OperatorCommand("-"), ExaminationProfile.FULL)
    checked = {check.clause for check in every.checks}
    named = {code for code in clauses() if code.partition("-")[0] in CODES[ExaminationProfile.FULL]}

    assert checked | UNSEEN.keys() == named
    assert not checked & UNSEEN.keys()


def test_the_list_names_every_check_and_what_it_needs() -> None:
    listed = run("conformance", "list")

    assert listed.status == 0, listed.err
    assert "REC-7      Ready=True waits for Flux to confirm this generation" in listed.out
    assert "needs --replicas" in listed.out
    assert "not seen from outside" in listed.out


def test_a_command_with_an_unknown_name_in_braces_is_refused() -> None:
    refused = run("conformance", "operator", "--operator", "mine --kubeconfig {kubekonfig}")

    assert refused.status == 2
    assert "kubekonfig" in refused.err
    assert "{kubeconfig}" in refused.err


def test_a_clause_that_no_check_is_of_is_refused() -> None:
    refused = run("conformance", "operator", "--operator", GITOPS, "--clause", "PULL-4")

    assert (refused.status, "no such check in profile gitops" in refused.err) == (2, True)


@pytest.mark.slow
def test_an_operator_that_ends_at_once_is_told_with_its_last_lines() -> None:
    refused = examined("--clause", "REC-1", operator=f"{sys.executable} -c 'print(41+1)' {{kubeconfig}}")

    assert refused.status == 1
    assert "the operator ended with status 0" in refused.err
    assert "42" in refused.err


@pytest.mark.slow
def test_an_examination_that_is_interrupted_leaves_no_operator_running(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    operator = shlex.join([sys.executable, "-c", program, "{kubeconfig}"])
    words = ("conformance", "operator", "--clause", "REC-1", "--operator", operator)
    with Running(tmp_path / "files", *words, cold=True) as examiner:
        until(lambda: pid.exists() and bool(pid.read_text()), "the operator runs")
        examiner.send(signal.SIGTERM)
        ended = examiner.end()

    assert ended.status == INTERRUPTED, ended.err
    assert "interrupted" in ended.err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.slow
def test_our_operator_passes_and_the_reports_say_so(tmp_path: Path) -> None:
    files = tmp_path / "report.json", tmp_path / "report.xml"
    chosen = ("RES-5", "REC-5", "REC-6", "REC-7", "REC-8", "OPS-1")
    words = [word for code in chosen for word in ("--clause", code)]
    ended = examined(*words, "--report", files[0], "--report", files[1])

    assert ended.status == 0, ended.out
    assert " FAIL  " not in ended.out
    report = json.loads(files[0].read_text())
    assert {check["clause"] for check in report["checks"]} == set(chosen)
    assert {check["verdict"] for check in report["checks"]} == {"pass"}
    suite = ElementTree.parse(files[1]).getroot()
    assert (suite.get("failures"), suite.get("tests")) == ("0", str(len(report["checks"])))


@pytest.mark.slow
def test_a_cluster_that_runs_the_jobs_is_no_fault_of_the_operator(tmp_path: Path) -> None:
    """CONF-1: where a controller of the cluster ends the Job that should hang or fail, its check is not tried."""
    report, words = tmp_path / "report.json", [word for code in ENDING for word in ("--clause", code)]
    crds = (*crd_manifests(), *flux_crds())
    with kubelab.serve(simulate="job", crds=crds) as server:
        examined("--kubeconfig", server.kubeconfig, "--report", report, *words)

    verdicts = {check["check"]: check["verdict"] for check in json.loads(report.read_text())["checks"]}
    assert verdicts.keys() >= {"external_deletion", "cancel", "delete_running", "deadline"}
    assert set(verdicts.values()) <= {"pass", "not tried"}, "which controller is faster is left open"


@pytest.mark.slow
def test_a_cluster_with_velero_and_without_snapshots_is_no_fault_of_the_operator(tmp_path: Path) -> None:
    """CONF-1: what a check needs is what it uses."""
    report = tmp_path / "report.json"
    engines = [crd for crd in downstream_crds(ENGINES) if SNAPSHOTS not in crd["metadata"]["name"]]
    with kubelab.serve(crds=(*crd_manifests(), *flux_crds(), *engines)) as server:
        words = ("--kubeconfig", server.kubeconfig, "--report", report, "--timeout", "5s")
        examined(*words, "--clause", "OPS-7", "--clause", "OPS-10")

    verdicts = {check["check"]: check["verdict"] for check in json.loads(report.read_text())["checks"]}
    assert verdicts == {"backup_stays": "pass", "snapshot": "not tried"}

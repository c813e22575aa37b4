"""docs/conformance-verdicts.md shows the verdicts that the tests of the examiner predict (CONF-1, CONF-2)."""

from typing import Any

from bench.verdicts import failures, verdict_table
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.examination.verdicts import Check
from tests.conformance import test_controller_runtime_examined as examined_go
from tests.conformance.test_kopf_examined import PREDICTED
from tests.docs.markdown import ROOT
from vworkspace_app.examination.run import UNSEEN, ExaminationProfile, ExaminationRequest


def ours(check: Check[Any]) -> str:
    return "pass"


def without_agent(check: Check[Any]) -> str:
    return "not tried" if "control-plane" in check.needs else "pass"


def kopf(check: Check[Any]) -> str:
    return PREDICTED[check.name]


def controller_runtime(check: Check[Any]) -> str:
    return examined_go.PREDICTED[check.name]


def report(profile: ExaminationProfile, verdict: Any) -> dict[str, Any]:
    """What `--report` holds of the checks of a profile, each with the verdict that `verdict` says."""
    request = ExaminationRequest(OperatorCommand("-"), profile)
    found = [(check.clause, check.name, check.sentence, verdict(check)) for check in request.checks]
    unseen = [(clause, "", "", "not tried") for clause in UNSEEN]
    fields = ("clause", "check", "sentence", "verdict")
    return {"checks": [{**dict(zip(fields, row, strict=True)), "message": "as seen"} for row in (*found, *unseen)]}


def test_the_table_of_the_page_is_that_of_the_verdicts() -> None:
    reports = {
        "ours": report(ExaminationProfile.FULL, ours),
        "ours, `--no-agent`": report(ExaminationProfile.GITOPS, without_agent),
        "kopf": report(ExaminationProfile.GITOPS, kopf),
        "controller-runtime": report(ExaminationProfile.GITOPS, controller_runtime),
    }
    page = (ROOT / "docs" / "conformance-verdicts.md").read_text(encoding="utf-8")

    assert verdict_table(reports) in page


def test_each_failure_is_listed_with_what_was_seen() -> None:
    listed = failures(report(ExaminationProfile.GITOPS, kopf)).splitlines()

    assert len(listed) == sum(
        verdict == "FAIL" for verdict in map(kopf, ExaminationRequest(OperatorCommand("-")).checks)
    )
    assert (
        "* REC-8, a field of another manager is not taken by force, and Blocked names that manager: as seen" in listed
    )

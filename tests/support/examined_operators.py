"""What `conformance operator` says of a program, and what reading the program predicts (CONF-1)."""

import json
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from tests.support.commands import run


def prediction(passes: str, fails: Iterable[str], not_tried: Iterable[str]) -> Mapping[str, str]:
    """The predicted verdicts by check, from names of checks in texts."""
    lists = (("pass", [passes]), ("FAIL", fails), ("not tried", not_tried))
    return {name: verdict for verdict, texts in lists for names in texts for name in names.split()}


def assert_gets(
    predicted: Mapping[str, str], operator: str, report: Path, *, unsettled: Set[str] = frozenset()
) -> None:
    """Examine an operator, and compare the verdicts, but for those of the checks `unsettled`.

    On a machine that is too slow for the first patience the second one counts.
    """
    expected = {name: {verdict} for name, verdict in predicted.items() if name not in unsettled}
    found: dict[str, set[str]] = {}
    for patience in ("10s", "30s"):
        seen = _examined(operator, patience, report)
        found = {name: verdicts for name, verdicts in seen.items() if name not in unsettled}
        if found == expected:
            return
    assert found == expected


def _examined(operator: str, patience: str, report: Path) -> dict[str, set[str]]:
    """The verdicts by check: one name may be that of checks of two clauses."""
    ended = run(
        "conformance", "operator", "--operator", operator, "--profile", "gitops", "--timeout", patience,
        "--report", report, cold=True, seconds=1800, PYTHONWARNINGS="default",
    )  # fmt: skip
    assert ended.status == 1, ended.err
    found: dict[str, set[str]] = {}
    for check in json.loads(report.read_text())["checks"]:
        if check["check"]:  # a clause that does not show from outside has none
            found.setdefault(check["check"], set()).add(check["verdict"])
            assert check["message"] or check["verdict"] == "pass"
    return found

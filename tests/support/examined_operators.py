"""What `conformance operator` says of a program, and what reading the program predicts (CONF-1)."""

import json
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Final

from tests.support.commands import run

TUTORIAL_FAILS: Final[Mapping[str, str]] = {
    "Ready=False is Installing to it, whatever Flux reports": "failed_install chart_unreachable failed_upgrade",
    "what Flux said of the former source it reports for the new generation": "generation_gate",
    "it knows no gate, no cluster, no label and no annotation": "gate wrong_cluster unmanaged labels_downstream abandon"
    " orphan retry",
    "its finalizer has another name": "finalizer_first",
    "it reads spec.chart of every instance": "placeholder",
    "it knows no account, no policy, no reference to a Secret": "release accounts forbidden_version inline_secret"
    " values_secret",
    "it changes the source in place, before the values": "source_is_immutable one_switch",
    "it does not know the condition Suspended": "suspended",
    "it does nothing with Operations": "one_run phases bad_parameters target_missing capability approval"
    " no_second_release backup_stays failing_job snapshot upgrade failed_upgrade conflict",
}
"""The checks that a program fails which does what a tutorial teaches and no more, by the reason."""
TUTORIAL_NOT_TRIED: Final[Mapping[str, str]] = {
    "its release has one generation for ever, since only the source changes, in place": "prune stale_cache",
    "there was no conflict that could end": "conflict_ends",
    "it tells no failure and no suspension": "long_message transition_times",
    "no engine object was made": "death_after_create engine_object restricted_job external_deletion cancel"
    " delete_running deadline",
    "there is one replica, and no control plane": "replicas forged_annotation",
}
"""The checks that cannot be tried with such a program, by the reason."""


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

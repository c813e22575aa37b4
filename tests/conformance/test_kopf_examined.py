"""An operator of this API written with kopf gets the verdict that reading it predicts, from every check (CONF-1).

The program is `bench/kopf_operator.py`: handlers of an instance and of its release, as kopf's documentation teaches.
"""

import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.support.examined_operators import TUTORIAL_FAILS, TUTORIAL_NOT_TRIED, assert_gets, prediction

KOPF = f"{Path(sys.executable).with_name('kopf')} run --standalone --all-namespaces"
PASSES = (
    "converges restart equal_releases installing no_flapping one_manager observed_generation foreign_metadata"
    " one_release form_of_conditions events cut_watches expired_watches conflicting_edit unreadable_neighbour sigterm"
    " immutable suspended_by_hand"
)
"""What kopf does for every program, what applying one's own fields brings, and a rule that the CRD has."""

FAILS = {
    **TUTORIAL_FAILS,
    "it writes generation and two conditions, and no other field of the status": "status_fields reason_of_status",
    "it writes the list of conditions as a whole": "foreign_conditions",
    "it deletes the release by its name, and does not wait for Flux": "deletion deletion_waits deletion_survives",
    "an error of the API server ends its try for a minute, and stands in its log": "conflict name_taken missing_flux"
    " refused_write invalid_write missing_right conflicts",
    "a deleted release is no event for which it has a handler": "deleted_release",
    "kopf writes its bookkeeping, and again after a restart": "silence silence_after_restart",
}
NOT_TRIED = {**TUTORIAL_NOT_TRIED, "kopf tries again after a minute": "backoff"}

PREDICTED = prediction(PASSES, FAILS.values(), NOT_TRIED.values())
"""The verdicts by check; docs/conformance-verdicts.md shows them by clause."""


@pytest.mark.slow
@pytest.mark.seeded
def test_an_operator_of_this_api_gets_the_verdicts_that_reading_predicts(tmp_path: Path) -> None:
    assert_gets(PREDICTED, f"{KOPF} {ROOT / 'bench' / 'kopf_operator.py'}", tmp_path / "report.json")

"""An operator of this API written with controller-runtime gets the verdicts that reading it predicts (CONF-1).

The program is `tools/cluster/controller-runtime/instances.go`, as the tutorials of controller-runtime teach it.
"""

from pathlib import Path

import pytest

from tests.support.examined_operators import TUTORIAL_FAILS, TUTORIAL_NOT_TRIED, assert_gets, prediction
from tools.cluster.build import build, is_built
from tools.cluster.pins import read_pins

GO = read_pins()["controller-runtime"]
PASSES = (
    "form_of_conditions foreign_conditions immutable restart deleted_release equal_releases suspended_by_hand"
    " installing no_flapping one_manager silence silence_after_restart observed_generation foreign_metadata one_release"
    " deletion_survives cut_watches expired_watches backoff conflicting_edit conflicts sigterm unreadable_neighbour"
)
"""What level-triggered reconciling brings, SetStatusCondition, and updates that a conflict refuses."""
UNSETTLED = {"backoff"}
"""A queue that begins with 5 ms makes eleven tries in six seconds, then ever fewer: how long it is watched decides."""

FAILS = {
    **TUTORIAL_FAILS,
    "it writes generation, two conditions and a reference": "status_fields reason_of_status",
    "it deletes the release by its name, and says nothing while it waits": "deletion deletion_waits",
    "CreateOrUpdate takes what it finds, and an error stands in its log": "conflict name_taken missing_flux"
    " refused_write invalid_write missing_right",
    "it records no Event": "converges events",
}

PREDICTED = prediction(PASSES, FAILS.values(), TUTORIAL_NOT_TRIED.values())
"""The verdicts by check; docs/conformance-verdicts.md shows them by clause."""


@pytest.mark.slow
@pytest.mark.seeded
@pytest.mark.skipif(not is_built([GO]), reason="not built: python -m tools.cluster build --with controller-runtime")
def test_the_operator_in_go_gets_the_verdicts_that_reading_predicts(tmp_path: Path) -> None:
    program = build([GO], print) / "controller-runtime"
    command = f"{program} instances --kubeconfig {{kubeconfig}}"
    assert_gets(PREDICTED, command, tmp_path / "report.json", unsettled=UNSETTLED)

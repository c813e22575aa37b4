"""An operator of this API written with controller-runtime gets the verdicts that reading it predicts (CONF-1).

The program is `tools/cluster/controller-runtime/instances.go`, as the tutorials of controller-runtime teach it.
"""

from pathlib import Path

import pytest

from tests.support.examined_operators import assert_gets, prediction
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
    "it writes generation, two conditions and a reference": "status_fields reason_of_status",
    "Ready=False is Installing to it, whatever Flux reports": "failed_install chart_unreachable failed_upgrade",
    "what Flux said of the former source it reports for the new generation": "generation_gate",
    "it knows no gate, no cluster, no label and no annotation": "gate wrong_cluster unmanaged labels_downstream abandon"
    " orphan retry",
    "its finalizer has another name": "finalizer_first",
    "it deletes the release by its name, and says nothing while it waits": "deletion deletion_waits",
    "it reads spec.chart of every instance": "placeholder",
    "it knows no account, no policy, no reference to a Secret": "release accounts forbidden_version inline_secret"
    " values_secret",
    "it changes the source in place, before the values": "source_is_immutable one_switch",
    "CreateOrUpdate takes what it finds, and an error stands in its log": "conflict name_taken missing_flux"
    " refused_write invalid_write missing_right",
    "it does not know the condition Suspended": "suspended",
    "it records no Event": "converges events",
    "it has no controller of Operations": "one_run phases bad_parameters target_missing capability approval"
    " no_second_release backup_stays failing_job snapshot upgrade failed_upgrade conflict",
}
NOT_TRIED = {
    "its release has one generation for ever, since only the source changes, in place": "prune stale_cache",
    "there was no conflict that could end": "conflict_ends",
    "it tells no failure and no suspension": "long_message transition_times",
    "no engine object was made": "death_after_create engine_object restricted_job external_deletion cancel"
    " delete_running deadline",
    "there is one replica, and no control plane": "replicas forged_annotation",
}

PREDICTED = prediction(PASSES, FAILS.values(), NOT_TRIED.values())
"""The verdicts by check; docs/conformance-verdicts.md shows them by clause."""


@pytest.mark.slow
@pytest.mark.seeded
@pytest.mark.skipif(not is_built([GO]), reason="not built: python -m tools.cluster build --with controller-runtime")
def test_the_operator_in_go_gets_the_verdicts_that_reading_predicts(tmp_path: Path) -> None:
    program = build([GO], print) / "controller-runtime"
    command = f"{program} instances --kubeconfig {{kubeconfig}}"
    assert_gets(PREDICTED, command, tmp_path / "report.json", unsettled=UNSETTLED)

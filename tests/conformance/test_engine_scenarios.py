"""The simulated controllers of the engines do what the real ones were recorded to do, or a table says why not (RUN-9)."""

import pytest

from tests.support.engine_recordings import recorded
from tests.support.engine_scenarios import SCENARIOS
from tests.support.engine_sequence import sequences_of
from tests.support.engine_simulated_stage import SimulatedEngineStage
from tests.support.flux_sequence import differences

_RETRIES = "the simulated Argo knows no retryStrategy: it has one node where Argo has a Retry node with a pod for each try"
DIFFERENT = {"workflow_retries": _RETRIES, "workflow_fails_after_a_retry": _RETRIES}
"""What differs, and why."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_controllers_do_what_was_recorded_of_the_real_ones_RUN_9(name: str) -> None:
    stage = SimulatedEngineStage()
    SCENARIOS[name].play(stage)
    assert bool(differences(recorded(name), sequences_of(stage))) == (name in DIFFERENT)

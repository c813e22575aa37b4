"""The simulated controllers of the engines do what the real ones were recorded to do, or a table says why not (RUN-9)."""

import pytest

from tests.support.engine_recordings import recorded
from tests.support.engine_scenarios import SCENARIOS
from tests.support.engine_sequence import sequences_of
from tests.support.engine_simulated_stage import SimulatedEngineStage
from tests.support.flux_sequence import differences


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_controllers_do_what_was_recorded_of_the_real_ones_RUN_9(name: str) -> None:
    stage = SimulatedEngineStage()
    SCENARIOS[name].play(stage)
    assert not differences(recorded(name), sequences_of(stage))

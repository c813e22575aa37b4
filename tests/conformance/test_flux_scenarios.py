"""The simulated Flux does what the real one was recorded to do, or says in a table why not (RUN-9)."""

import pytest

from tests.support.flux_recordings import recorded
from tests.support.flux_scenarios import SCENARIOS
from tests.support.flux_sequence import differences, sequences_of
from tests.support.flux_simulated_stage import SimulatedStage


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_flux_does_what_was_recorded_of_the_real_one_RUN_9(name: str) -> None:
    stage = SimulatedStage()
    SCENARIOS[name](stage)
    assert not differences(recorded(name), sequences_of(stage))

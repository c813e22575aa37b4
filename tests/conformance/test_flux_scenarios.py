"""The simulated Flux does what the real one was recorded to do, or says in a table why not (RUN-9)."""

import pytest

from tests.support.flux_recordings import FLUX
from tests.support.flux_scenarios import SCENARIOS, SLOW, played
from tests.support.flux_sequence import differences
from tests.support.flux_simulated_stage import SimulatedStage

_NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SCENARIOS]


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_simulated_flux_does_what_was_recorded_of_the_real_one_RUN_9(name: str) -> None:
    assert not differences(FLUX.of(name), played(name, SimulatedStage()))

"""The operator's reading of the end of each scenario of Flux, whose states are those of the real one (REC-5, RUN-9)."""

import pytest

from tests.support.flux_readings import END, READY, reading
from tests.support.flux_scenarios import SCENARIOS, SLOW
from tests.support.flux_simulated_stage import SimulatedStage


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in SLOW])
def test_the_operator_reads_what_real_flux_reports_REC_5(name: str) -> None:
    stage = SimulatedStage()
    SCENARIOS[name](stage)
    read = reading(stage, stage.now)
    assert (read.state, read.stalled_reason) == END.get(name, READY)
    assert bool(read.drift) is (name == "drift_is_warned_of")

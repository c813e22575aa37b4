"""What was recorded of the real controllers of the engines is what they do (RUN-8, RUN-9)."""

import pytest

from tests.support.engine_real_stage import played
from tests.support.engine_recordings import ENGINES
from tests.support.engine_scenarios import SCENARIOS
from tools.cluster.up import Cluster


@pytest.mark.parametrize("name", SCENARIOS)
def test_real_controllers_of_engines_do_what_was_recorded_of_them_RUN_9(name: str, cluster: Cluster) -> None:
    scenario = SCENARIOS[name]
    if scenario.component not in ("", *cluster.components):
        pytest.skip(f"the cluster runs without {scenario.component}")
    assert not ENGINES.differences(name, played(scenario, cluster), cluster)

"""What was recorded of Flux's real controllers is what they do (RUN-8, RUN-9)."""

import pytest

from tests.support.flux_real_stage import real_stage
from tests.support.flux_recordings import FLUX
from tests.support.flux_scenarios import SCENARIOS, played
from tests.support.flux_sequence import differences
from tools.cluster.up import Cluster


@pytest.mark.parametrize("name", SCENARIOS)
def test_real_controllers_do_what_was_recorded_of_them_RUN_9(name: str, request: pytest.FixtureRequest) -> None:
    cluster: Cluster = request.getfixturevalue("lone_cluster" if name.startswith("killed") else "cluster")
    with real_stage(cluster) as stage:
        assert not differences(FLUX.of(name, oldest=cluster.oldest), played(name, stage))

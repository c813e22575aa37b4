"""Flux's real controllers do what was recorded of them, and the operator reads its end (REC-5, RUN-8, RUN-9)."""

from datetime import UTC, datetime

import pytest

from tests.support.flux_readings import END, READY, reading
from tests.support.flux_real_stage import real_stage
from tests.support.flux_recordings import FLUX
from tests.support.flux_scenarios import SCENARIOS, SLOW, played
from tools.cluster.up import Cluster

_KILL = pytest.mark.lone
_NAMES = [pytest.param(name, marks=_KILL if name.startswith("killed") else ()) for name in SCENARIOS]


@pytest.mark.parametrize("name", _NAMES)
def test_real_controllers_do_what_was_recorded_of_them_RUN_9(name: str, cluster: Cluster) -> None:
    with real_stage(cluster) as stage:
        assert not FLUX.differences(name, played(name, stage), cluster)
        if name in SLOW:
            return  # a hundred releases have a hundred ends
        read = reading(stage, datetime.now(UTC))
    assert (read.state, read.stalled_reason) == END.get(name, READY)
    # helm-controller 1.4 has no condition Drifted.
    assert bool(read.drift) is (name == "drift_is_warned_of" and not cluster.oldest)

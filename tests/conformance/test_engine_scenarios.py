"""The simulated controllers of the engines do what was recorded of the real ones, or a table says why not (RUN-9)."""

import pytest

from tests.support.engine_recordings import ENGINES
from tests.support.engine_scenarios import SCENARIOS
from tests.support.engine_sequence import sequences_of
from tests.support.engine_simulated_stage import SimulatedEngineStage
from tests.support.flux_sequence import differences

_RETRIES = "the simulated Argo knows no retryStrategy: it has one node where Argo has a Retry node and a pod a try"
_LOST = "the simulated snapshotter leaves a ready snapshot alone; the real one cuts it again when its content is gone"
_AT_ONCE = "the simulated snapshotter takes content and snapshot away in one pass, the real one after one another"
_AT_EIGHT = "the real VolSync says that a mover failed after its eighth pod, some twenty minutes later, ours at once"
DIFFERENT = {
    "workflow_retries": _RETRIES,
    "workflow_fails_after_a_retry": _RETRIES,
    "snapshot_content_is_deleted": _LOST,
    "snapshot_is_deleted": _AT_ONCE,
    "sync_mover_fails": _AT_EIGHT,
}
"""What differs, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_controllers_do_what_was_recorded_of_the_real_ones_RUN_9(name: str) -> None:
    stage = SimulatedEngineStage()
    SCENARIOS[name].play(stage)
    assert bool(differences(ENGINES.of(name), sequences_of(stage))) == (name in DIFFERENT)

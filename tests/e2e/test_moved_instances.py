"""An application whose label moves to another cluster, and comes back, while an operator runs (RES-5)."""

import pytest

from tests.support.e2e_world import CLUSTER, INSTANCE, LATER, World
from tests.support.servers import IN_PROCESS
from vworkspace_core.api.labels import CLUSTER_ID

ANOTHER = {"metadata": {"labels": {CLUSTER_ID: "another"}}}
THIS_ONE = {"metadata": {"labels": {CLUSTER_ID: CLUSTER}}}


def _is_ready(world: World) -> bool:
    return world.conditions().get("Ready", "").startswith("True")


@pytest.mark.slow
def test_a_label_that_moves_away_blocks_at_once_and_one_that_comes_back_goes_on_RES_5() -> None:
    async def story(world: World) -> None:
        await world.ready()
        world.edit(INSTANCE, ANOTHER)
        await world.until(lambda: world.conditions().get("Blocked") == "True/WrongCluster", "WrongCluster")
        world.forget_writes()
        world.edit(INSTANCE, {"spec": {"chart": {"version": LATER}}})
        await world.clock.sleep(60)
        world.edit(INSTANCE, THIS_ONE)
        world.edit(INSTANCE, ANOTHER)
        await world.clock.sleep(60)
        assert world.conditions()["Blocked"] == "True/WrongCluster"
        others = [write.path for write in world.writes() if not write.path.endswith(f"/{INSTANCE.name}/status")]
        assert others == [], "nothing is done for another cluster"

        world.edit(INSTANCE, THIS_ONE)
        await world.until(lambda: world.conditions().get("Blocked") == "False/Unblocked" and _is_ready(world), "Ready")
        assert world.get(INSTANCE)["status"]["deployedChart"]["version"] == LATER

    IN_PROCESS.run(story)

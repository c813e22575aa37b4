"""PULL-4: etcd is restored from a snapshot of before a job that is under way: what was applied is applied again."""

import pytest

from tests.support.e2e_world import INSTANCE, World
from tests.support.servers import IN_PROCESS
from vworkspace_core.apimachinery.manifest import get_path

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_job_whose_effect_is_lost_with_the_restored_storage_has_it_again(writes: int) -> None:
    """It waited for the status of a generation that was no more, until its time had run out."""

    async def story(world: World) -> None:
        await world.ready()
        snapshot = world.cluster.store.snapshot()
        world.forget_writes()
        job = world.ask("6.7.2", 8)
        await world.until(lambda: len(world.writes()) >= writes, "so many writes")
        assert job.result is None
        world.cluster.restore(snapshot)
        await world.until(lambda: job.result is not None, "the result", seconds=600)

        assert job.result is not None
        assert job.result["outcome"] == "succeeded"
        assert get_path(world.find(INSTANCE), "spec", "chart", "version") == "6.7.2"
        assert world.conditions()["Ready"] == "True/HelmReleaseReady"

    IN_PROCESS.run(story)


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_deletion_that_is_lost_with_the_restored_storage_is_asked_for_again(writes: int) -> None:
    async def story(world: World) -> None:
        await world.ready()
        snapshot = world.cluster.store.snapshot()
        world.forget_writes()
        job = world.ask_deletion(8)
        await world.until(lambda: len(world.writes()) >= writes, "so many writes")
        assert job.result is None
        world.cluster.restore(snapshot)
        await world.until(lambda: job.result is not None, "the result", seconds=600)

        assert job.result is not None
        assert job.result["outcome"] == "succeeded"
        assert world.find(INSTANCE) is None

    IN_PROCESS.run(story)

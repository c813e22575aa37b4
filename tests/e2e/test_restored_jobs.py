"""PULL-4: etcd is restored from a snapshot of before a job that is under way: what was applied is applied again."""

from collections.abc import Callable

import pytest

from purekube.apimachinery.manifest import get_path
from tests.support.e2e_world import INSTANCE, World
from tests.support.servers import IN_PROCESS
from vworkspace_fake.controlplane import JobEntry

pytestmark = pytest.mark.slow


def restored_during(ask: Callable[[World], JobEntry], writes: int, check: Callable[[World], None]) -> None:
    """Restore the storage of before a job once it has made so many writes: the job has its effect all the same."""

    async def story(world: World) -> None:
        await world.ready()
        snapshot = world.cluster.store.snapshot()
        world.forget_writes()
        job = ask(world)
        await world.until(lambda: len(world.writes()) >= writes, "so many writes")
        assert job.result is None
        world.cluster.restore(snapshot)
        await world.until(lambda: job.result is not None, "the result", seconds=600)
        assert job.result is not None
        assert job.result["outcome"] == "succeeded"
        check(world)

    IN_PROCESS.run(story)


@pytest.mark.parametrize("writes", range(1, 5))  # the result follows the fifth write
def test_a_job_whose_effect_is_lost_with_the_restored_storage_has_it_again(writes: int) -> None:
    """It waited for the status of a generation that was no more, until its time had run out."""

    def check(world: World) -> None:
        assert get_path(world.find(INSTANCE), "spec", "chart", "version") == "6.7.2"
        assert world.conditions()["Ready"] == "True/HelmReleaseReady"

    restored_during(lambda world: world.ask("6.7.2", 8), writes, check)


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_deletion_that_is_lost_with_the_restored_storage_is_asked_for_again(writes: int) -> None:
    def check(world: World) -> None:
        assert world.find(INSTANCE) is None

    restored_during(lambda world: world.ask_deletion(8), writes, check)

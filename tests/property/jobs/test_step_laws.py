"""Single steps of a job's life that no fault is needed to judge (PULL-3, PULL-4)."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from tests.property.jobs.test_machine import drain, enqueue, enqueue_delete, live_of, outcome
from tests.support.job_world import World
from tests.support.jobs import CLUSTER_ID, instance
from vworkspace_core.jobs.awaiting_status import RECHECK
from vworkspace_core.jobs.job_store import UNAPPLIED
from vworkspace_core.jobs.plan import EffectIntent
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobStage, JobState, accept, tombstone_of
from vworkspace_core.jobs.steps import JobStepContext, supersede
from vworkspace_core.jobs.wire import BadJob

SCOPE = JobScope(CLUSTER_ID)
GOOD: dict[str, Any] = {
    "id": "j-1",
    "kind": "apply",
    "idempotencyKey": "key-1",
    "createdAt": "2026-01-01T00:00:00Z",
    "expiresAt": "2026-01-01T01:00:00Z",
    "payload": instance(),
}


def test_a_good_job_is_accepted_under_its_key_PULL_4() -> None:
    job = accept(GOOD, 3, SCOPE)

    assert isinstance(job, JobState)
    assert (job.id, job.key, job.arrival, job.stage, job.result) == ("j-1", "key-1", 3, JobStage.RECORDING, None)


@pytest.mark.parametrize(
    "change",
    [{"kind": "upgrade"}, {"payload": []}, {"payload": {}}, {"expiresAt": "soon"}, {"payload": 1}],
    ids=["kind", "list", "empty", "time", "number"],
)  # fmt: skip
def test_a_bad_job_with_a_readable_key_is_refused_under_that_key_PULL_7(change: dict[str, Any]) -> None:
    """So that the answer is remembered, and the key asked again gets the same."""
    job = accept({**GOOD, **change}, 0, SCOPE)

    assert isinstance(job, JobState)
    assert (job.id, job.key) == ("j-1", "key-1")
    assert job.result is not None
    assert job.task is None
    assert job.result.error


def test_a_job_without_a_usable_key_is_refused_under_none_PULL_7() -> None:
    job = accept({**GOOD, "idempotencyKey": 7}, 0, SCOPE)
    assert isinstance(job, JobState)
    assert job.key == ""
    assert job.result is not None
    assert isinstance(accept({**GOOD, "id": ""}, 0, SCOPE), BadJob)


@pytest.mark.parametrize("finalized", [True, False])
def test_after_an_accepted_delete_the_job_settles_without_a_recheck_PULL_3(finalized: bool) -> None:
    """The informer's word that the object is gone is enough: no clock is moved here."""
    world = World()
    enqueue(world, 1)
    world.settle()
    if not finalized:
        world.release(live_of(world))
    else:
        world.hold(live_of(world))
    job = enqueue_delete(world, 2)
    before = world.clock.now()
    drain(world)
    if finalized:
        assert job.result is None
        world.release(live_of(world))
        drain(world)

    assert outcome(job) == ("succeeded", "")
    assert live_of(world) is None
    assert world.clock.now() == before


def test_what_was_terminating_is_looked_at_again_where_nobody_told_that_it_went_PULL_4() -> None:
    world = World()
    enqueue(world, 1)
    world.settle()
    old = live_of(world)
    world.hold(old)
    world.remove(old)
    job = enqueue(world, 2)
    drain(world)
    assert job.statuses[-1]["message"].startswith("waits for the terminating ApplicationInstance")

    world.release(old)
    for _, watch in world.watches:
        watch.drain()
    world.advance(RECHECK.total_seconds() - 1)
    assert world.pending == []
    world.advance(1)
    drain(world)

    assert live_of(world)["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.mark.parametrize("began", [False, True])
def test_a_superseded_job_is_remembered_whether_or_not_its_effect_began_PULL_4(began: bool) -> None:
    world = World()
    enqueue(world, idempotency_key="hash-1")
    world.fetch()
    (job,) = world.state.jobs.values()
    job = attrs.evolve(job, stage=JobStage.READY, intent=EffectIntent() if began else None)

    ended, _ = supersede(
        job, job, JobStepContext(world.state.scope, world.clock.now(), world.clock.now(), timedelta(0))
    )

    tombstone = tombstone_of(ended)
    assert tombstone is not None
    assert tombstone.outcome == ("failed" if began else UNAPPLIED)

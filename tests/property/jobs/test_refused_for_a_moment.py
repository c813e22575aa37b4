"""A right or kind that is missing for a moment fails no job (PULL-4).

A kube-apiserver that has just started answers 403 until it knows its roles: a job that came then was answered `failed`
with Forbidden, found by the kill storms on a real cluster (tests/cluster/test_kill_storms.py).
"""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.job_world import World
from tests.support.jobs import CLUSTER_ID, instance
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_stages import REFUSALS
from vworkspace_core.jobs.result import Reason
from vworkspace_fake.controlplane import JobEntry

_REASONS = st.sampled_from([Reason.FORBIDDEN, Reason.KIND_MISSING])
_MESSAGE = 'namespaces "org-myteam" is forbidden: User "operator" cannot get resource "namespaces"'


def _asked(world: World) -> JobEntry:
    key = "ApplicationInstance/org-myteam/shop@1"
    return world.control_server.enqueue(CLUSTER_ID, kind="apply", payload=instance(), idempotency_key=key)


def _play(world: World, job: JobEntry, refused: type, times: int, reason: Reason) -> int:
    """Have the first `times` effects of a type refused for that reason; return how many were."""
    count = 0
    for _ in range(400):
        if job.result is not None:
            break
        if not world.pending:
            world.advance(60)
            continue
        effect = world.pending[0]
        if isinstance(effect, refused) and count < times:
            count += 1
            world.pending.pop(0)
            world.feed(m.EffectRefused(effect.job_id, reason, _MESSAGE))
        else:
            world.perform(0)
            if isinstance(effect, m.ApplyForJob):
                return count
    return count


@given(st.sampled_from([m.Inspect, m.ApplyForJob]), st.integers(0, REFUSALS - 1), _REASONS)
@example(m.Inspect, 1, Reason.FORBIDDEN)
@example(m.ApplyForJob, 1, Reason.KIND_MISSING)
def test_a_job_that_is_refused_for_a_moment_is_carried_out_PULL_4(refused: type, times: int, reason: Reason) -> None:
    world = World()
    job = _asked(world)
    world.fetch()

    assert _play(world, job, refused, times, reason) == times
    assert job.result is None, "it was applied, and waits for its object"


@given(st.sampled_from([m.Inspect, m.ApplyForJob]), _REASONS)
def test_a_job_that_stays_refused_fails_with_the_servers_words(refused: type, reason: Reason) -> None:
    world = World()
    job = _asked(world)
    world.fetch()

    assert _play(world, job, refused, 10 * REFUSALS, reason) == REFUSALS
    assert job.result is not None
    assert (job.result["outcome"], job.result["error"]) == ("failed", f"{reason}: {_MESSAGE}")

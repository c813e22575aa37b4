"""PULL-3: a job that is asked again under the same key changes nothing, and does nothing to the jobs beside it."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.property.jobs.test_machine import drain, enqueue, live_of, outcome
from tests.support.effort import effort
from tests.support.job_world import World


@settings(max_examples=effort(4))
@given(st.lists(st.integers(0, 5), max_size=16))
@example([1, 1, 0, 0, 0])
@example([1, 1, 0, 0, 1, 0])
@pytest.mark.slow
def test_a_replay_supersedes_no_open_job_in_whatever_order_they_are_worked_on(order: list[int]) -> None:
    """The tombstone is lost, so that only the object tells that it is a replay; keys without generations, so that the
    order of arrival says which job is older."""
    world = World()
    enqueue(world, idempotency_key="hash-before", chart="6.6.0")
    world.settle()
    world.store.tombstones.clear()
    asked = enqueue(world, idempotency_key="hash-new", chart="6.7.0")
    replay = enqueue(world, idempotency_key="hash-before", chart="6.6.0")
    before = len(world.deeds)

    world.fetch()
    for number in order:
        if world.pending:
            world.perform(number % len(world.pending))
    drain(world)
    world.settle()

    if outcome(replay) == ("noop", ""):
        assert outcome(asked) == ("succeeded", "")
        assert live_of(world)["spec"]["chart"]["version"] == "6.7.0"
    else:
        assert [deed.job_id for deed in world.deeds[before:]] == [asked.id, replay.id], "each had its effect, in turn"

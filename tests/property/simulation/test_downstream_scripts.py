"""Whatever happens, the simulated controllers stay within what the real ones can write, come to rest, and recover."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubelab.downstream import (
    CONTROLLERS,
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    DownstreamSimulator,
    Ending,
)
from purekube.apimachinery.manifest import Manifest
from tests.support.downstream_stories import BEHAVIOURS, STEPS, SUBJECTS, Step, Story
from tests.support.downstream_world import DownstreamWorld
from tests.support.effort import effort

pytestmark = pytest.mark.slow

_SLOW = (HealthCheck.too_slow,)


@given(BEHAVIOURS, st.lists(STEPS, max_size=14))
@settings(max_examples=effort(1), deadline=None, suppress_health_check=_SLOW)
@example(DownstreamBehaviour(), [("create", "b"), ("run", 1), ("delete", "b"), ("crash", None), ("run", 300)])
@example(DownstreamBehaviour(), [("create", "j"), ("run", 3), ("crash", None), ("run", 1), ("delete", "j")])
@example(DownstreamBehaviour(), [("create", "v"), ("run", 0), ("delete", "v"), ("create", "v"), ("crash", None)])
def test_every_state_is_one_that_can_be_and_all_comes_to_rest(
    behaviour: DownstreamBehaviour, steps: list[Step]
) -> None:
    story = Story(DownstreamWorld())
    story.world.behave(behaviour)
    for step in steps:
        story.take(step)
    story.heal()
    story.world.writes()
    story.world.simulator.tick(story.world.clock.now())
    story.world.run(50)
    assert story.world.writes() == 0, "quiet means that nothing is written"


@pytest.mark.parametrize("times", [None, 1])
@pytest.mark.parametrize("ending", list(Ending))
def test_each_ending_of_every_kind_survives_restarts_and_comes_to_rest(ending: Ending, times: int | None) -> None:
    story = Story(DownstreamWorld())
    story.world.behave(DownstreamBehaviour((DownstreamRule(DownstreamOutcome(ending, times=times)),)))
    creations: list[Step] = [("create", name) for name in SUBJECTS]
    for step in (*creations, ("run", 2), ("crash", None), ("run", 100), ("crash", None), ("run", 300)):
        story.take(step)
    story.heal()
    assert len(story.ended) == 4, "a backup, a restore, a workflow and a job come to an end"


@given(BEHAVIOURS, st.lists(STEPS, max_size=8))
@settings(max_examples=effort(0.5), deadline=None, suppress_health_check=_SLOW)
def test_a_story_told_twice_is_the_same_story(behaviour: DownstreamBehaviour, steps: list[Step]) -> None:
    def tell() -> list[Manifest]:
        story = Story(DownstreamWorld())
        story.world.behave(behaviour)
        for step in steps:
            story.take(step)
        kinds = [(kind, name, namespace) for name, (kind, namespace, _) in SUBJECTS.items()]
        return [story.world.find(kind, name, namespace) or {} for kind, name, namespace in kinds]

    assert tell() == tell()


@given(st.sets(st.sampled_from(sorted(CONTROLLERS))))
@settings(max_examples=effort(0.4), deadline=None)
def test_a_controller_that_is_left_out_does_nothing(names: set[str]) -> None:
    world = DownstreamWorld(names=sorted(names))
    other = DownstreamSimulator(world.api, names=sorted(set(CONTROLLERS) - names))
    for kind, _, make in SUBJECTS.values():
        world.create(make(), kind)
    world.run(5)
    mine = {kind for kind, _ in world.simulator.watched} & {
        kind for item in other.controllers for kind in item.subjects
    }
    subjects = {kind for item in world.simulator.controllers for kind in item.subjects}
    untouched = [
        name
        for name, (kind, namespace, _) in SUBJECTS.items()
        if kind not in subjects and world.status(kind, name, namespace)
    ]
    assert untouched == []
    assert not mine & subjects

"""The list of scenarios, and what they have in common."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.support.flux_sequence import Sequences, ends_of, events_of, sequences_of
from tests.support.flux_stage import Holds, Stage, is_ready

Scenario = Callable[[Stage], None]
SCENARIOS: Final[dict[str, Scenario]] = {}
BY_THEIR_END: Final[set[str]] = set()
"""Scenarios of which only the end is compared."""
SLOW: Final = {"hundred_releases"}
"""Scenarios that cost more than a second of processor time."""


def scenario(play: Scenario) -> Scenario:
    """Take a scenario into the list."""
    SCENARIOS[play.__name__] = play
    return play


def scenario_by_its_end(play: Scenario) -> Scenario:
    """Take a scenario into the list that has many ways to the same end."""
    BY_THEIR_END.add(play.__name__)
    return scenario(play)


def played(name: str, stage: Stage) -> Sequences:
    """Play a scenario and return what of it is compared."""
    SCENARIOS[name](stage)
    if name in BY_THEIR_END:
        return ends_of(stage)
    states = sequences_of(stage)
    stage.let_events_arrive()
    return {**states, **events_of(stage)}


def ready(version: str) -> Holds:
    """Return whether the release is Ready at that version."""
    return partial(is_ready, version=version)

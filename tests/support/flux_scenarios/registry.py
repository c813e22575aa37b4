"""The list of scenarios, and what they have in common."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.support.flux_stage import Holds, Stage, is_ready

__all__ = ["SCENARIOS", "Scenario", "ready", "scenario"]

Scenario = Callable[[Stage], None]
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(play: Scenario) -> Scenario:
    """Take a scenario into the list."""
    SCENARIOS[play.__name__] = play
    return play


def ready(version: str) -> Holds:
    """Return whether the release is Ready at that version."""
    return partial(is_ready, version=version)

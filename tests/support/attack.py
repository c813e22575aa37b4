"""State machines attacked in chunks, each with a seed of its own, so that a failure is quickly played again.

`make test` runs a sample, the same in every run; `make test-long` two thousand runs, from the seed that it prints.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.support.effort import EFFORT, of_both

CHUNK = 25
STEPS = 50
WHOLE = 2000


def in_chunks(sample: int, at_once: int = CHUNK) -> Callable[[Callable[[int, int], None]], Any]:
    """Parametrize a test with number and size of each chunk: `sample` runs in `make test`, `WHOLE` in the long one.

    Chunks of at most `at_once` runs keep workers busy side by side where each run takes long.
    """
    total = of_both(sample, WHOLE)
    size = min(total, of_both(at_once, CHUNK))
    return pytest.mark.parametrize(("chunk", "runs"), [(number, size) for number in range(-(-total // size))])


def attack(machine: type[RuleBasedStateMachine], chunk: int, runs: int, *, steps: int = STEPS) -> None:
    """Attack `machine` with `runs` runs of so many steps, from the chunk's own seed."""
    desired = settings(max_examples=runs, stateful_step_count=steps, derandomize=False, database=None)
    run_state_machine_as_test(seed(EFFORT.seed_of(chunk))(machine), settings=desired)

"""State machines attacked in chunks, each with a seed of its own, so that a failure is quickly played again.

`CHAOS_EXAMPLES` is how many runs there are in all (`make test-long` sets it), `CHAOS_SEED` the seed of the one chunk to
play again. Where Hypothesis is told to be deterministic, so are the seeds.
"""

import os
from collections.abc import Callable
from random import randrange
from typing import Any

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["attack", "in_chunks"]

CHUNK = 25
STEPS = 50


def in_chunks(sample: int) -> Callable[[Callable[[int, int], None]], Any]:
    """Parametrize a test with number and size of each chunk: `sample` runs unless the environment wants more."""
    total = int(os.environ.get("CHAOS_EXAMPLES") or sample)
    size = min(total, CHUNK)
    chunks = 1 if "CHAOS_SEED" in os.environ else -(-total // size)
    return pytest.mark.parametrize(("chunk", "runs"), [(number, size) for number in range(chunks)])


def attack(machine: type[RuleBasedStateMachine], chunk: int, runs: int, test: str) -> None:
    """Attack `machine` with `runs` runs of 50 steps. What fails carries the command that plays it again."""
    given = os.environ.get("CHAOS_SEED")
    number = int(given) if given else chunk if settings().derandomize else randrange(2**32)
    wanted = settings(max_examples=runs, stateful_step_count=STEPS, deadline=None, derandomize=False)
    try:
        run_state_machine_as_test(seed(number)(machine), settings=wanted)
    except BaseException as error:
        command = f"CHAOS_SEED={number} CHAOS_EXAMPLES={runs} .venv/bin/python -m pytest {test}"
        error.add_note(f"to play it again: {command}")
        raise

"""What all tests share: how hard Hypothesis tries, and what keeps `make test` under three minutes.

Where `CI` is set the examples are the same in every run, so that a change is judged by its own merits; everywhere
else each run attacks anew. `HYPOTHESIS_PROFILE=long` (`make test-long`) attacks for as long as it takes. Hypothesis
judges laws, not the speed of the machine it runs on.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("laws", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "laws"))

TESTS = Path(__file__).parent
WAITING = (
    "e2e/test_two_replicas.py",
    "e2e/test_command_processes.py",
    "e2e/test_informer_faults.py",
    "e2e/test_registration.py",
    "e2e/test_sealed_jobs.py",
    "e2e/test_sigkill.py",
    "e2e/test_soak.py",
    "e2e/test_conformance_command.py",
    "conformance/test_control_plane.py",
    "conformance/test_kube_port.py",
)
"""Tests that wait for processes and for time to pass: first, so that others compute beside them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that wait first; all others stay where they are."""
    ranks = {TESTS / name: rank for rank, name in enumerate(WAITING)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)

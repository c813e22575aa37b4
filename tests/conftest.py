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

WAITING = (
    "e2e/test_two_replicas.py",
    "e2e/test_command_processes.py",
    "e2e/test_informer_faults.py",
    "e2e/test_conformance_command.py",
    "e2e/test_registration.py",
    "e2e/test_replay.py",
    "e2e/test_observed_process.py",
    "conformance/test_control_plane.py",
    "e2e/test_sealed_jobs.py",
    "e2e/test_sigkill.py",
    "conformance/test_kube_port.py",
    "e2e/test_soak.py",
    "conformance/test_real_server.py",
)
"""Tests that wait for processes and for time to pass more than they compute, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let half of the workers begin with tests that wait, and the others compute beside them.

    Workers begin with equal shares of the tests as they are ordered here, and then take from each other.
    """
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(WAITING)}
    waiting = sorted((item for item in items if item.path in ranks), key=lambda item: ranks[item.path])
    first, second = ([item for item in waiting if ranks[item.path] % 2 == half] for half in (0, 1))
    rest = [item for item in items if item.path not in ranks]
    share = max(0, len(items) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) - len(first))
    items[:] = [*first, *rest[:share], *second, *rest[share:]]


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)

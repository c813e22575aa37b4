"""Every run of `make test` tries the same, whatever the environment says; `--long` and a seed draw anew.

A law that fails for one person fails for everybody, at once, and a change is judged by its own merits.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.support.effort import EFFORT, PROFILES, Effort, long_examples

ROOT = Path(__file__).parents[1]
RECORDER = ROOT / "tests/corpus/harvest.py"
"""No test: what the corpus is recorded with."""
VIRTUAL = "from tests.support.virtual_time import"
PROBES = ("tests/property/controller/test_packing.py", "tests/property/apiserver/test_ssa_ownership_machine.py")
"""Plain laws, and a state machine."""

OF_THE_MACHINE = {
    "KRO_REPOSITORY",
    "CEL_CASES",
    "DOCKER_HOST",
    "E2E_CLUSTER",
    "E2E_OPERATOR_CONTEXT",
    "HELM",
    "KUBEBUILDER_ASSETS",
    "KUBECONFIG",
    "KUBERNETES_EXEC_INFO",
    "PATH",
    "SSL_CERT_FILE",
    "TESTS_WORKER",
}
"""What a test may ask the environment for: which cluster, which programs. Nothing of it says what to try."""

only_where_nothing_is_random = pytest.mark.skipif(EFFORT.seed is not None, reason="this run was asked to draw anew")


def tried(*options: str, **environment: str) -> str:
    """What a pytest of its own draws for the probes."""
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
    bare = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTHONHASHSEED")}
    done = subprocess.run(
        [*command, "--hypothesis-verbosity=verbose", *PROBES, *options],
        cwd=ROOT,
        env={**bare, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    drawn = [line for line in done.stdout.splitlines() if not line.startswith(("=", "platform", "rootdir", "plugins"))]
    assert len(drawn) > 200, done.stdout[-3000:]
    return re.sub(r" in [\d.]+s.*", "", "\n".join(drawn))


@pytest.mark.parametrize(
    ("asked", "profile"),
    [
        (Effort(brief=True), "brief"),
        (Effort(), "same"),
        (Effort(brief=True, seed=1), "seeded"),
        (Effort(brief=True, long=True, seed=1), "long"),
    ],
)
def test_only_a_run_that_names_nothing_and_no_seed_is_brief(asked: Effort, profile: str) -> None:
    assert asked.profile == profile
    assert PROFILES["brief"].max_examples < PROFILES["same"].max_examples < PROFILES["long"].max_examples


@pytest.mark.parametrize(
    ("minutes", "processors", "examples"), [(60, 2, 480), (2, 2, 200), (60, 8, 1000), (30, 2, 240), (0.5, 1, 200)]
)
def test_a_long_run_tries_so_many_examples_that_every_law_has_its_turn(
    minutes: float, processors: int, examples: int
) -> None:
    assert long_examples(minutes, processors) == examples


@pytest.mark.slow
@only_where_nothing_is_random
def test_the_same_examples_with_CI_and_without_whatever_is_set_and_imported() -> None:
    hostile = {
        "CI": "true",
        "PYTHONHASHSEED": "4711",
        "HYPOTHESIS_PROFILE": "long",
        "RECONCILE_EXAMPLES": "1",
        "CHAOS_EXAMPLES": "1",
        "CHAOS_SEED": "99",
    }
    assert tried(PYTHONHASHSEED="1") == tried("-p", "kubelab.server", **hostile)


@pytest.mark.slow
def test_a_seed_draws_other_examples_and_the_same_ones_again() -> None:
    first, again, other = (tried(f"--hypothesis-seed={seed}") for seed in (7, 7, 8))
    assert first == again
    assert first != other


@only_where_nothing_is_random
def test_no_law_of_this_run_is_random_has_a_deadline_or_remembers(request: pytest.FixtureRequest) -> None:
    found = [settings(), *filter(None, (_settings_of(item) for item in request.session.items))]
    assert {(each.derandomize, each.deadline, each.database) for each in found} == {(True, None, None)}


def _settings_of(item: pytest.Item) -> settings | None:
    obj: Any = getattr(item, "obj", None)
    if obj is not None and is_hypothesis_test(obj):
        chosen = getattr(obj, "_hypothesis_internal_use_settings", None)
        return chosen if isinstance(chosen, settings) else None
    return None


def test_no_test_asks_the_environment_how_hard_to_try() -> None:
    asked = re.compile(
        r"environ(?:\.get\(|\[|\.setdefault\()\"(\w+)\"|\"(\w+)\" (?:not )?in os\.environ|getenv\(\"(\w+)"
    )
    found = {
        (name, str(file.relative_to(ROOT)))
        for file in (ROOT / "tests").rglob("*.py")
        if file not in (Path(__file__), RECORDER)
        for names in asked.findall(file.read_text(encoding="utf-8"))
        for name in names
        if name and name not in OF_THE_MACHINE
    }
    assert not found


def test_every_number_of_examples_grows_with_the_effort() -> None:
    """What is fixed would not be tried harder by `make test-long`."""
    fixed = re.compile(r"max_examples=\d+")
    files = (file for file in (ROOT / "tests").rglob("*.py") if file.name != "effort.py")
    found = [str(file.relative_to(ROOT)) for file in files if fixed.search(file.read_text(encoding="utf-8"))]
    assert not found, f"say a share of the profile's, as tests/support/effort.py has it: {found}"


def test_no_test_of_servers_and_processes_has_a_limit_of_its_own() -> None:
    """`tests/support/patience.py` has the one that holds on a machine whose every core is busy otherwise.

    Under virtual time a second is the same on every machine.
    """
    hasty = re.compile(r"fail_after\(\d+|mark\.timeout\(\d{1,3}\)|perf_counter\(\)|process_time\(\)")
    found = [
        f"{file.relative_to(ROOT)}: {match}"
        for folder in ("app", "conformance", "docs", "e2e")
        for file in (ROOT / "tests" / folder).rglob("*.py")
        if VIRTUAL not in (text := file.read_text(encoding="utf-8"))
        for match in hasty.findall(text)
    ]
    assert not found


A_SLOW_FILE = "tests/e2e/test_soak.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "are_taken"),
    [((), False), (("-k", "soak"), True), (("-m", "slow"), True), (("--everything",), True), ((A_SLOW_FILE,), True)],
)
def test_a_plain_run_leaves_out_what_is_slow_and_whoever_names_it_gets_it(
    options: tuple[str, ...], are_taken: bool
) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", f"testpaths={A_SLOW_FILE}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (A_SLOW_FILE in done.stdout) is are_taken, done.stdout + done.stderr
    assert ("deselected" in done.stdout) is not are_taken

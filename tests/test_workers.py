"""A run with `--workers` reports what a run in one process reports, whatever a worker does."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import until

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
CONFTEST = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
from tests.support.forked_workers import ForkedWorkers


def pytest_addoption(parser):
    parser.addoption("--workers", type=int)


def pytest_configure(config):
    config.pluginmanager.register(ForkedWorkers(config.getoption("--workers")))
"""
ALL_KINDS = """
import os
import pytest


@pytest.mark.parametrize("number", range(100))
def test_that_passes(number, tmp_path):
    print(f"printed by {number}")


@pytest.fixture(scope="module")
def broken():
    yield
    raise ValueError("at its end")


def test_that_fails():
    print("only here")
    os.system("echo by a child")
    try:
        raise KeyError("first")
    except KeyError as error:
        raise ValueError("second") from error


def test_that_is_skipped():
    pytest.skip("for this reason")


@pytest.mark.xfail(reason="known")
def test_that_is_expected_to_fail():
    assert False


def test_whose_fixture_fails(broken):  # the last, or whichever test follows it in its worker is blamed
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.mark.slow
def test_every_outcome_is_reported_with_its_own_output(project: pytest.Pytester) -> None:
    project.makepyfile(ALL_KINDS)
    ended = project.runpytest_subprocess("--workers=4", "-ra")

    ended.assert_outcomes(passed=101, failed=1, skipped=1, xfailed=1, errors=1)
    ended.stdout.fnmatch_lines(["*KeyError: 'first'*", "*ValueError: second*", "*only here*", "by a child"])
    ended.stdout.fnmatch_lines(["*SKIPPED*for this reason*", "*XFAIL*known*"])
    ended.stdout.no_fnmatch_line("*printed by*")
    assert ended.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_a_worker_that_dies_fails_its_test_and_no_other(project: pytest.Pytester) -> None:
    others = "import pytest\n@pytest.mark.parametrize('number', range(50))\ndef test_other(number):\n    pass\n"
    killed = "import os, signal\ndef test_killed():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    project.makepyfile(test_a=others, test_b=killed, test_c=others)
    ended = project.runpytest_subprocess("--workers=2")

    ended.assert_outcomes(passed=100, failed=1)
    ended.stdout.fnmatch_lines(["*test_killed*", "*ended within this test, with exit status -9*"])


@pytest.mark.slow
def test_what_fails_at_the_end_of_a_worker_fails_the_run(project: pytest.Pytester) -> None:
    leaves = "import atexit, os\ndef test_it():\n    atexit.register(os._exit, 3)\n"
    project.makepyfile(test_a=leaves, test_b="def test_other():\n    pass\n")
    ended = project.runpytest_subprocess("--workers=2")

    assert ended.ret != 0
    ended.stdout.fnmatch_lines(["*a worker process ended with exit status 3*"])


@pytest.mark.slow
def test_a_run_that_stops_at_the_first_failure_begins_no_more_tests(project: pytest.Pytester) -> None:
    project.makepyfile(ALL_KINDS.replace('print(f"printed by {number}")', "assert not number + 1"))
    ended = project.runpytest_subprocess("--workers=2", "-x")

    assert 1 <= ended.parseoutcomes()["failed"] <= 4, "each worker ends its test, and the next one that it has"
    assert ended.ret != 0


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(project: pytest.Pytester) -> None:
    """They would run the rest of the tests for nobody. Each holds a lock until it ends."""
    project.makepyfile(
        "import fcntl, os, pathlib, time, pytest\n"
        "HELD = {}\n"
        "@pytest.mark.parametrize('number', range(1000))\n"
        "def test_with_a_lock(number):\n"
        "    if os.getpid() not in HELD:\n"
        "        HELD[os.getpid()] = open('lock', 'a')\n"
        "        fcntl.flock(HELD[os.getpid()], fcntl.LOCK_SH)\n"
        "        pathlib.Path(f'locked-{os.getpid()}').touch()\n"
        "    time.sleep(0.01)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "--workers=3"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL) as parent:
        until(lambda: len(list(project.path.glob("locked-*"))) == 3, "three workers run")
        parent.kill()
    until(lambda: is_free(project.path / "lock"), "no worker is left")


def is_free(file: Path) -> bool:
    with file.open("a") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.slow
def test_a_module_that_cannot_be_imported_stops_the_run(project: pytest.Pytester) -> None:
    project.makepyfile(test_a="import nothing_of_the_kind", test_b="def test_other():\n    pass\n")
    ended = project.runpytest_subprocess("--workers=2")

    ended.assert_outcomes(errors=1)
    assert ended.ret == pytest.ExitCode.INTERRUPTED

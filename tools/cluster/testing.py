"""The tests of `make test-cluster`: a run of pytest for each kind of server, with a folder for its temporary files."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tools.cluster import strays
from tools.cluster.build import Say, build
from tools.cluster.up import VARIABLE, Cluster, pins_of, running

_BARE: Final = ("--on-server", "-m", "not benchmark", "tests/e2e", "tests/conformance")
"""Tests that use a kube-apiserver: each worker has one."""
_SHARED: Final = ("-m", "not lone and not operator", "tests/cluster")
"""Tests that share a cluster: scenarios, each in a namespace of its own."""
_OPERATOR: Final = ("-m", "operator", "tests/cluster", "tests/e2e/test_pull_sequence.py")
"""Tests that run an operator, which sees every namespace: one after the other on the same cluster."""
_LONE: Final = ("-m", "lone", "tests/cluster", "tests/e2e/test_uninstalling.py")
"""Tests that kill controllers or take definitions away, one after the other on a second cluster."""
_OF_LONE: Final = ("flux", "cert-manager")
"""The components that these tests use."""


def run_tests(components: Sequence[str], arguments: Sequence[str], say: Say, *, keep: bool, oldest: bool) -> int:
    """Run all tests that want real servers and controllers, or those that the arguments name; return the exit status.

    Raises CannotBuild, CannotStart.
    """
    programs = build(pins_of(components, oldest=oldest).values(), say)
    start = partial(running, say=say, keep=keep, oldest=oldest)
    if arguments:
        with start(components) as cluster, _Run("the tests", programs, arguments, cluster) as run:
            return run.wait(say)
    with (
        start([name for name in components if name in _OF_LONE]) as own,
        _Run("alone on a cluster", programs, _LONE, own, workers=0, later=True) as lone,
    ):
        with _Run("on a kube-apiserver", programs, _BARE) as bare:
            status = bare.wait(say)
        with (
            start([name for name in components if name != "cert-manager"]) as shared,
            _Run("with an operator", programs, _OPERATOR, shared, workers=0, later=True) as operator,
            _Run("on a shared cluster", programs, _SHARED, shared) as together,
        ):
            return max(together.wait(say), operator.wait(say), lone.wait(say), status)


def _workers() -> int:
    return int(os.environ.get("WORKERS", 2 * (os.cpu_count() or 1)))


class _Run:
    """One run of pytest, which ends with the block, as does everything that it has started.

    With `later` its output is shown at its end. Tests that failed are run once more, one after the other: real
    controllers have races of their own. A test that fails twice is red; one that passes then is named.
    """

    def __init__(
        self,
        name: str,
        programs: Path,
        arguments: Sequence[str],
        cluster: Cluster | None = None,
        *,
        workers: int | None = None,
        later: bool = False,
    ) -> None:
        self._name, self._began = name, time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="vw-tests-", ignore_cleanup_errors=True)
        self._log = Path(self._folder.name, "pytest.log") if later else None
        count = _workers() if workers is None else workers
        self._command = [sys.executable, "-m", "pytest", "--durations=10", *arguments]
        self._command += ["-o", f"cache_dir={Path(self._folder.name, 'cache')}"]
        self._environment = {**os.environ, **_environment(programs, cluster), "TMPDIR": self._folder.name}
        self._process = self._start(*([f"--workers={count}"] if count else []))

    def _start(self, *options: str) -> "subprocess.Popen[bytes]":
        with nullcontext() if self._log is None else self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._command, *options],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        strays.end([*strays.descendants(self._process.pid), self._process.pid])
        self._folder.cleanup()

    def wait(self, say: Say) -> int:
        """Wait for its end; return the exit status."""
        status, again = self._process.wait(), ""
        if status == pytest.ExitCode.TESTS_FAILED:
            again = f" at a second attempt: {', '.join(self._failed())}"
            self._process = self._start("--last-failed")
            status = self._process.wait()
        if self._log is not None:
            say(self._log.read_text(encoding="utf-8", errors="replace"))
        say(f"{self._name}: {time.monotonic() - self._began:.0f} s, exit status {status}{again}")
        return status

    def _failed(self) -> Sequence[str]:
        """Return the tests that failed, as pytest's cache has them."""
        found: Mapping[str, bool] = json.loads(Path(self._folder.name, "cache/v/cache/lastfailed").read_bytes())
        return sorted(found)


def _environment(programs: Path, cluster: Cluster | None) -> Mapping[str, str]:
    """Return the variables that name the servers; kubectl is the one of the cluster."""
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    named = {} if cluster is None else {VARIABLE: str(cluster.folder)}
    return {"KUBEBUILDER_ASSETS": str(programs), "PATH": path, "PYTHONHASHSEED": "0", **named}

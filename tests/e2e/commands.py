"""The installed command as a process: run to its end, or started, watched and stopped.

Every process gets an environment of its own: no kubeconfig of whoever runs the tests, and Python's warnings
as errors. Deadlines are generous, since only what hangs may meet them.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

COMMAND = Path(sys.executable).with_name("vworkspace-operator")
PATIENCE = 120.0
"""Seconds after which something has certainly gone wrong, also on a slow machine that does much else."""


@attrs.frozen
class Ended:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def problems(self) -> list[str]:
        """Lines of standard error that tell an error."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def run(*words: str | Path, stdin: str = "", home: Path | None = None, **environment: str) -> Ended:
    """Run the command to its end: in an interpreter of its own where it gets an environment, else in a warm one."""
    if home is None and not environment:
        return warm().run([str(word) for word in words], stdin)
    done = subprocess.run(
        [COMMAND, *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        env=_environment(home, environment),
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Warm:
    """`tests.e2e.warm` as a process that serves this one."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="vworkspace-warm-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        atexit.register(self.end)

    def run(self, words: list[str], stdin: str) -> Ended:
        files = [Path(self._folder.name, name) for name in ("in", "out", "err")]
        files[0].write_text(stdin, encoding="utf-8")
        asked = {"words": words, "environment": _environment(None, {}), "files": [str(file) for file in files]}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], PATIENCE)[0], f"{words} did not end"
        status = self._process.stdout.readline()
        return Ended(int(status), *(file.read_text(encoding="utf-8") for file in files[1:]))

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


@cache
def warm() -> Warm:
    """The one of this process."""
    return Warm()


def one_line(ended: Ended, status: int) -> str:
    """The one line that a failed command wrote, and nothing else. AssertionError otherwise."""
    assert (ended.status, ended.out) == (status, ""), ended
    (line,) = ended.err.splitlines()
    assert line.startswith("error: "), line
    return line.removeprefix("error: ")


class Running:
    """A command that runs until it is stopped; its output goes to files, so that it never waits for a reader."""

    def __init__(self, folder: Path, *words: str | Path, stdout: int | None = None, **environment: str) -> None:
        """Start it with its files in `folder`. `stdout` is a descriptor that it gets instead; it is closed here."""
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [COMMAND, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=err,
                env=_environment(folder, environment),
            )
        if stdout is not None:
            os.close(stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._err.read_text(encoding="utf-8")

    def log(self, event: str) -> list[dict[str, Any]]:
        """Log lines of that event."""
        lines = [json.loads(line) for line in self.err.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """What `found` finds, as soon as it finds something. AssertionError when the process ends before."""
        limit = time.monotonic() + PATIENCE
        while not (result := found()):
            assert self._process.poll() is None, f"{what}: ended with {self._process.returncode}\n{self.out}{self.err}"
            assert time.monotonic() < limit, f"{what}: not within {PATIENCE:g} s\n{self.out}{self.err}"
            time.sleep(0.05)
        return result

    def ready(self) -> str:
        """The URL that a server says it serves."""
        lines: list[str] = self.until(lambda: [line for line in self.out.splitlines() if line[:6] == "ready "], "ready")
        return lines[0].removeprefix("ready ")

    def end(self) -> Ended:
        """Wait for its own end."""
        return Ended(self._process.wait(PATIENCE), self.out, self.err)

    def send(self, number: signal.Signals) -> None:
        """Send a signal and go on."""
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, seconds: float = 20.0) -> Ended:
        """Send a signal and wait for the end, which must come within `seconds`."""
        self._process.send_signal(number)
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended {seconds:g} s after {number.name}\n{self.out}{self.err}") from None
        return Ended(status, self.out, self.err)


def _environment(home: Path | None, more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    return {**kept, "HOME": str(home or "/nonexistent"), "PYTHONWARNINGS": "error", **more}


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def call(method: str, url: str, body: Any = None, *, token: str = "", content: str = "application/json") -> Any:
    """One HTTP request as a user would make it with curl; the JSON of the answer, None for 404."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": content} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 404:
                raise AssertionError(f"{method} {url}: {error.code} {error.read().decode()}") from error
            return None


def merge(url: str, change: dict[str, Any], *, token: str = "") -> None:
    """A JSON merge patch, as `kubectl patch --type merge` sends it: whoever else writes is no conflict."""
    call("PATCH", url, change, token=token, content="application/merge-patch+json")

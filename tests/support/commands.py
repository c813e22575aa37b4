"""The command as a process: run to its end, or started, watched and stopped.

Where a test does not ask for a `cold` start, of the installed command in an interpreter of its own, it is forked from
one that has loaded it (`warm.py`). Every process gets an environment of its own: no kubeconfig of whoever runs the
tests, and Python's warnings as errors. Deadlines are generous, since only what hangs may meet them.
"""

import atexit
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import attrs

from tests.support.patience import PATIENCE

COMMAND = Path(sys.executable).with_name("vworkspace-operator")


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


def run(
    *words: str | Path,
    stdin: str = "",
    home: Path | None = None,
    cold: bool = False,
    seconds: float = PATIENCE,
    **environment: str,
) -> Ended:
    """Run the command to its end, for at most so many seconds."""
    with tempfile.TemporaryDirectory(prefix="vworkspace-run-") as folder:
        given = Path(folder, "in")
        given.write_text(stdin, encoding="utf-8")
        files = (given, Path(folder, "out"), Path(folder, "err"))
        process = start(words, clean_environment(home, environment), files, cold=cold)
        try:
            status = process.wait(seconds)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return Ended(status, *(file.read_text(encoding="utf-8") for file in files[1:]))


class Process(Protocol):
    """What is asked of a process here, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int) -> None: ...

    def kill(self) -> None: ...


def start(
    words: Sequence[str | Path],
    environment: dict[str, str],
    files: Sequence[Path],
    *,
    cold: bool,
    command: Path = COMMAND,
) -> Process:
    """The command with standard input, output and error; unless `cold`, without waiting for its imports.

    An environment that says something to Python itself takes an interpreter of its own; so does another `command`.
    """
    said = {name for name in environment if name.startswith("PYTHON")} - {"PYTHONWARNINGS"}
    if not cold and not said and command == COMMAND:
        return Forked([str(word) for word in words], environment, files)
    with files[0].open("rb") as given, files[1].open("wb") as out, files[2].open("wb") as err:
        return subprocess.Popen([command, *map(str, words)], stdin=given, stdout=out, stderr=err, env=environment)


class Warm:
    """`tests.support.forkserver` as a process that serves this one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forkserver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=clean_environment(None, {}),
        )
        self._turn = threading.Lock()
        atexit.register(self.end)

    def ask(self, question: dict[str, Any]) -> Any:
        """The answer; threads ask one after the other. AssertionError without one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            assert select.select([self._process.stdout], [], [], PATIENCE)[0], f"no answer to {question}"
            return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@cache
def warm() -> Warm:
    """The one of this process."""
    return Warm()


class Forked:
    """A process that `tests.support.forkserver` started."""

    def __init__(self, words: list[str], environment: dict[str, str], files: Sequence[Path]) -> None:
        for file in files[1:]:
            file.write_bytes(b"")
        asked = {"words": words, "environment": environment, "files": [str(file.resolve()) for file in files]}
        self.pid: int = warm().ask(asked)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        if self._status is None:
            self._status = warm().ask({"pid": self.pid})
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. `subprocess.TimeoutExpired` after `timeout` seconds."""
        limit = time.monotonic() + (PATIENCE if timeout is None else timeout)
        while (status := self.poll()) is None:
            if time.monotonic() > limit:
                raise subprocess.TimeoutExpired(str(self.pid), limit)
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def one_line(ended: Ended, status: int) -> str:
    """The one line that a failed command wrote, and nothing else. AssertionError otherwise."""
    assert (ended.status, ended.out) == (status, ""), ended
    (line,) = ended.err.splitlines()
    assert line.startswith("error: "), line
    return line.removeprefix("error: ")


class Running:
    """A command that runs until it is stopped; its output goes to files, so that it never waits for a reader."""

    def __init__(
        self, folder: Path, *words: str | Path, cold: bool = False, command: Path = COMMAND, **environment: str
    ) -> None:
        """Start it with its files in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "out", folder / "err"
        files = (Path(os.devnull), self._out, self._err)
        self._process = start(words, clean_environment(folder, environment), files, cold=cold, command=command)

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
        return [line for line in lines if line["msg"] == event]

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """What `found` finds, as soon as it finds something. AssertionError when the process ends before."""
        limit = time.monotonic() + PATIENCE
        while not (result := found()):
            assert self._process.poll() is None, f"{what}: ended with {self._process.poll()}\n{self.out}{self.err}"
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


def clean_environment(home: Path | None, more: Mapping[str, str]) -> dict[str, str]:
    """What a process gets to know of this one's environment, and what is given to it."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
    counted = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    return {**kept, **counted, "HOME": str(home or "/nonexistent"), "PYTHONWARNINGS": "error", **more}


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def call(
    method: str,
    url: str,
    body: Any = None,
    *,
    token: str = "",
    content: str = "application/json",
    trust: ssl.SSLContext | None = None,
) -> Any:
    """One HTTP request as a user would make it with curl; the JSON of the answer, None for 404."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": content} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 404:
                raise AssertionError(f"{method} {url}: {error.code} {error.read().decode()}") from error
            return None


def merge(url: str, change: dict[str, Any], *, token: str = "") -> None:
    """A JSON merge patch, as `kubectl patch --type merge` sends it: whoever else writes is no conflict."""
    call("PATCH", url, change, token=token, content="application/merge-patch+json")

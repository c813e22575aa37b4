"""The processes of a cluster: started in order, restarted when they die, as by a kubelet, ended by their ids."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

GRACE: Final = 10.0
"""The seconds that a process gets to end after SIGTERM."""
AGAIN: Final = 1.0
"""The seconds until a process that died is started again."""
PATIENCE: Final = 240.0
"""The seconds that a process gets to answer: far more than it needs, even on a busy machine."""


class CannotStart(Exception):
    """The failure of a process to start; the message has its name and the end of its log."""


@attrs.frozen
class Command:
    """A named command; `is_ready` reports whether the process answers."""

    name: str
    arguments: Sequence[str]
    is_ready: Callable[[], bool]
    environment: Mapping[str, str] = attrs.field(factory=dict)


@attrs.define
class _Running:
    command: Command
    process: "subprocess.Popen[bytes]"
    died: float | None = None


class Processes:
    """The processes of one cluster, with a log each in `folder`; `folder/processes.json` has their ids."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[_Running] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._watch = threading.Thread(target=self._revive, name="revive", daemon=True)
        self._watch.start()

    def start(self, command: Command) -> None:
        """Start a process and return when it answers. Raises CannotStart."""
        with self._lock:
            running = _Running(command, self._launch(command))
            self._running.append(running)
            self._write()
        limit = time.monotonic() + PATIENCE
        while not command.is_ready():
            if running.died is not None or running.process.poll() is not None:
                raise CannotStart(
                    f"{command.name} ended with status {running.process.returncode}:\n{self.tail(command)}"
                )
            if time.monotonic() > limit:
                raise CannotStart(f"{command.name} does not answer after {PATIENCE:g} s:\n{self.tail(command)}")
            time.sleep(0.1)

    def tail(self, command: Command) -> str:
        """Return the end of a process's log."""
        return "\n".join(self._log(command).read_text(encoding="utf-8", errors="replace").splitlines()[-20:])

    def end(self) -> None:
        """End all processes, the last one first, each by its id."""
        self._ending.set()
        self._watch.join()
        for running in reversed(self._running):
            _end(running.process)

    def _log(self, command: Command) -> Path:
        return self._folder / f"{command.name}.log"

    def _launch(self, command: Command) -> "subprocess.Popen[bytes]":
        with self._log(command).open("ab") as log:
            return subprocess.Popen(
                list(command.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **command.environment},
                start_new_session=True,  # Ctrl-C must reach only this process, which ends the others in order
            )

    def _revive(self) -> None:
        while not self._ending.wait(0.2):
            with self._lock:
                revived = [running for running in self._running if self._revive_one(running)]
                if revived:
                    self._write()

    def _revive_one(self, running: _Running) -> bool:
        """Restart a process some time after it died; return whether it was restarted."""
        if running.process.poll() is None:
            return False
        running.died = running.died or time.monotonic()
        if time.monotonic() - running.died < AGAIN:
            return False
        running.process, running.died = self._launch(running.command), None
        return True

    def _write(self) -> None:
        ids = {running.command.name: running.process.pid for running in self._running}
        fresh = self._folder / ".processes.json"
        fresh.write_text(json.dumps(ids, indent=1), encoding="utf-8")
        fresh.replace(self._folder / "processes.json")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

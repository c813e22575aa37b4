"""The operator under examination: a process started by a given command, which the examiner can kill at any time."""

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import attrs

from purekube_run.process.command_line import USAGE, CommandError

_LAST_LINES: Final = 8


@attrs.frozen
class OperatorCommand:
    """The command line of an operator, with placeholders such as `{kubeconfig}` that the examiner replaces."""

    text: str

    @classmethod
    def of(cls, text: str, names: frozenset[str], option: str = "--operator") -> "OperatorCommand":
        """Parse the command line `text`.

        Its placeholders must be among `names`. Raises CommandError if the text is invalid. `option` is the option by
        which the user gave the text, for the error message.
        """
        command = cls(text)
        try:
            command.words(dict.fromkeys(names, "x"))
        except (KeyError, ValueError, IndexError) as error:
            known = ", ".join(f"{{{name}}}" for name in sorted(names))
            raise CommandError(f"{option}: {error} cannot be filled in; there is: {known}", status=USAGE) from None
        if not shlex.split(text):
            raise CommandError(f"{option} names no program", status=USAGE)
        return command

    def names(self, *names: str) -> bool:
        """Report whether the command has placeholders with all these names."""
        return all(f"{{{name}}}" in self.text for name in names)

    def words(self, values: Mapping[str, str]) -> list[str]:
        """Return the command as a list of words, each placeholder replaced by its value.

        Raises KeyError if `values` has no value for a placeholder.
        """
        return [word.format(**values) for word in shlex.split(self.text)]


class OperatorProcess:
    """A process of the examined operator, with its child processes. Its output goes to the file `log`."""

    def __init__(self, number: int, words: list[str], environment: Mapping[str, str], log: Path) -> None:
        """Start the command `words`, with `environment` added to the environment of this process.

        Raises CommandError if the program does not exist.
        """
        self.number = number
        self.log = log
        self._is_killed = False
        try:
            with log.open("ab") as out:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={**os.environ, **environment},
                    # A session has a process group of its own, by which killpg reaches the children of a shell
                    # (setsid(2)).
                    start_new_session=True,
                )
        except OSError as error:
            raise CommandError(f"--operator: {words[0]}: {error.strerror}", status=USAGE) from None

    @property
    def status(self) -> int | None:
        """The exit status, or None while the process runs."""
        return self._process.poll()

    @property
    def last_lines(self) -> str:
        """The last lines of the operator's output, or a remark that there is none."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:]) or "(it printed nothing)"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group, if the process still runs."""
        if self.status is None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the process and its children at once, as a power failure would, and wait for its end.

        The children are killed even if the process has ended before them, as a shell or `go run` does.
        """
        if not self._is_killed:
            self._is_killed = True  # a later process may have the number of a group that is empty
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """Stop the process by SIGSTOP until `resume`, like a suspended machine or a starved container."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue."""
        self.send(signal.SIGCONT)

    async def end(self, seconds: float) -> int | None:
        """Send SIGTERM and wait for the process. Return its exit status, or None if it still runs after `seconds`."""
        self.send(signal.SIGTERM)
        with anyio.move_on_after(seconds):
            while self.status is None:
                await anyio.sleep(0.05)
        return self.status

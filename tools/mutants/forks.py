"""Tasks in forks of this process: what one does to the core, no other sees."""

import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import attrs


class Fork:
    """A task that runs in a fork; its result is what it returns, or None if it was ended by a signal."""

    def __init__(self, task: Callable[[], Any]) -> None:
        reading, writing = os.pipe()
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _run(task, writing)
        os.close(writing)
        self.pipe: IO[bytes] = os.fdopen(reading, "rb")

    def result(self) -> Any:
        """Wait for the result."""
        with self.pipe:
            content = self.pipe.read()
        _, status = os.waitpid(self.pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
            raise RuntimeError("a fork failed: its traceback is above")
        return pickle.loads(content) if content else None

    def end(self) -> None:
        """End the process."""
        os.kill(self.pid, signal.SIGKILL)


def _run(task: Callable[[], Any], writing: int) -> None:
    """Run a task in this process, which is the fork's, and end it."""
    try:
        content = pickle.dumps(task())
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(content)
    os._exit(0)


@attrs.frozen
class Task:
    """A task with the key of its result and the longest time on the clock that it may take."""

    key: Any
    run: Callable[[], Any]
    longest: float


def in_forks(tasks: Iterable[Task], processes: int) -> Iterator[tuple[Any, Any]]:
    """Run tasks, some at the same time; yield key and result of each as it ends, None of one that was ended."""
    waiting, running = iter(tasks), list[tuple[Task, Fork]]()
    while True:
        while len(running) < processes and (task := next(waiting, None)) is not None:
            running.append((task, Fork(task.run)))
        if not running:
            return
        ready, _, _ = select.select([fork.pipe for _, fork in running], [], [], 1.0)
        for task, fork in list(running):
            if fork.pipe in ready:
                running.remove((task, fork))
                yield task.key, fork.result()
            elif time.monotonic() - fork.began > task.longest:
                fork.end()

"""What a newcomer does with the commands of a page: run them in a folder, and leave some at work."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.commands import clean_environment
from tests.support.patience import PATIENCE


@contextmanager
def started(folder: Path, line: str) -> Iterator["subprocess.Popen[str]"]:
    """A command at work in a folder."""
    command = shlex.split(line)
    words = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
    environment = clean_environment(folder, {})
    process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
        assert process.poll() is None, "it goes on"
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def shell(folder: Path, commands: str) -> str:
    """What commands print, on either output, once all have succeeded."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = clean_environment(folder, {"PATH": path})
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout

"""The command, loaded once and forked for each use: processes otherwise spend their time on imports, mostly.

    python -m tests.support.forkserver

reads one JSON object a line and answers each with one line. `{"words": […], "environment": {…}, "files": [stdin,
stdout, stderr]}` starts the command in a process of its own with these files: the answer is its pid. `{"pid": …}` asks
how that process ended: the answer is its exit status, minus the signal that killed it, or null while it runs. Until
then the pid is nobody else's.
"""

import gc
import importlib.util
import json
import os
import sys
import tempfile
from typing import Any

from vworkspace_app.__main__ import main as command

LATER = (
    "anyio._backends._asyncio",
    "httpcore2",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.websockets.auto",
    *(f"vworkspace_app.commands.{name}" for name in ("program", "run_flags")),
)
"""What the command line, servers and the operator load once they run."""
MODES = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "pid" in asked:
            answer = ended(asked["pid"])
        else:
            load(asked["words"])
            answer = os.fork()
            if answer == 0:
                take(asked)
                break
        print(json.dumps(answer), flush=True)
    else:
        return
    command()


def ended(pid: int) -> int | None:
    """How the process ended; None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def load(words: list[str]) -> None:
    """What the command will import, so that no fork has to."""
    name = f"vworkspace_app.commands.{words[0].replace('-', '_')}" if words else ""
    if name not in sys.modules and words and importlib.util.find_spec(name):
        for module in (name, *LATER):
            importlib.import_module(module)
        gc.freeze()


def take(asked: Any) -> None:
    """Environment, words and files, as a new process would have them."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None
    sys.argv = ["vworkspace-operator", *asked["words"]]
    for number, (path, mode) in enumerate(zip(asked["files"], MODES, strict=True)):
        opened = os.open(path, mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)


if __name__ == "__main__":
    main()

"""The command, loaded once and forked for each use: tests of the command line otherwise wait for imports, mostly.

    python -m tests.e2e.warm

reads one JSON object a line, `{"words": […], "environment": {…}, "files": [stdin, stdout, stderr]}`, runs the command
in a process of its own with these files, and answers with its exit status.
"""

import json
import os
import sys
import traceback
from typing import Any, NoReturn

import vworkspace_app.commands.cluster
import vworkspace_app.commands.manifests
import vworkspace_app.commands.plan  # noqa: F401 - loaded, so that no fork has to
from vworkspace_app.__main__ import main as command

MODES = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(asked)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(asked: Any) -> NoReturn:
    """Be the command, to its end."""
    status = 1
    try:
        take(asked)
        command()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def take(asked: Any) -> None:
    """Environment, words and files, as a new process would have them."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["vworkspace-operator", *asked["words"]]
    for number, (path, mode) in enumerate(zip(asked["files"], MODES, strict=True)):
        opened = os.open(path, mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)


if __name__ == "__main__":
    main()

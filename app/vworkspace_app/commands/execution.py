"""The execution of a command line: it runs the command, prints an error as one line, and returns the exit status.

The exit status is 2 for wrong usage and 1 for a failure, or 2 for both where 1 is a verdict. This module imports no
packages except those of the core, so that it can report that other packages are not installed.
"""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from purekube.apimachinery.errors import unwrap_group
from purekube_run.process.command_line import FAILURE, INTERRUPTED, CommandError
from purekube_run.process.terminal import VisibleStream
from vworkspace_app.missing_packages import install_hint

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The numbers of the errors of a write for which the file system has no room."""


def guard_streams() -> None:
    """Replace standard output and error by streams that show control sequences instead of obeying them."""
    sys.stdout, sys.stderr = VisibleStream(sys.stdout), VisibleStream(sys.stderr)


def execute(arguments: Sequence[str], failure: int = FAILURE) -> int:
    """Run one command and return its exit status. An expected error is printed as one line on standard error.

    Expected are, for example, a CommandError, a missing package, and an interruption by the user. An unexpected error
    is raised unchanged. `failure` is the exit status of an error that has none of its own.
    """
    # The parser reads a lone `-` as an option; the readers know standard input by this name too.
    words = ["/dev/stdin" if word == "-" else word for word in arguments]
    try:
        status = _parser()(words)
        sys.stdout.flush()
    except BaseException as error:
        known = _ended_by(unwrap_group(error), failure)
        if known is None:
            raise
        return known
    return status if isinstance(status, int) else 0


def _parser() -> Callable[..., Any]:
    """Return the function that parses and runs a command. Raises ImportError if Python packages for it are missing."""
    from vworkspace_app.commands.program import parse

    return parse


def _ended_by(error: BaseException, failure: int) -> int | None:
    """Print an expected error and return the exit status.

    Return None for an unexpected error, whose traceback is needed.
    """
    match error:
        case CommandError():
            return _print_error(error.message, failure if error.status == FAILURE else error.status)
        case ImportError():
            problem = install_hint(error)
            return None if problem is None else _print_error(problem, failure)
        case KeyboardInterrupt():
            return _print_error("interrupted", INTERRUPTED)
        case BrokenPipeError():
            # The reader has gone (`… | head`): print nothing more, not even at interpreter exit.
            _discard_output()
            return failure
        case OSError() if error.errno in _FULL:
            _discard_output()
            return _print_error(f"cannot write: {error.strerror}", failure)
        case _:
            return None


def _discard_output() -> None:
    """Send to nowhere what is still to be written to standard output, also at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status

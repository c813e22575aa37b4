"""The entry of the command line: one line on standard error for every error, exit status 2 for usage, 1 for failure.

This module needs no packages except the core's, so that it can report that others are missing.
"""

import codecs
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from purekube.apimachinery.errors import unwrap_group
from purekube_run.process.command_line import FAILURE, INTERRUPTED, USAGE, CommandError
from purekube_run.process.terminal import VisibleStream
from vworkspace_app.missing_packages import answered, install_hint

_ESCAPED = "vworkspace.escaped"


def main() -> None:
    """Run the command that the arguments name, and exit with its status."""
    codecs.register_error(_ESCAPED, _escape)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors=_ESCAPED)  # type: ignore[union-attr]
    sys.stdout, sys.stderr = VisibleStream(sys.stdout), VisibleStream(sys.stderr)
    sys.exit(run_command(sys.argv[1:]))


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escape characters that the terminal cannot show as JSON does, so that JSON stays JSON and printing works."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{text[i : i + 2].hex()}" for i in range(0, len(text), 2)), error.end


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; problems are printed in one line on standard error."""
    if (answer := answered(arguments, complete=_has_parser())) is not None:
        print(answer)
        return 0
    # The parser reads a lone `-` as an option; the readers know standard input by this name too.
    words = ["/dev/stdin" if word == "-" else word for word in arguments]
    try:
        status = _parser()(words)
    except BaseException as error:
        known = _ended_by(unwrap_group(error), arguments)
        if known is None:
            raise
        return known
    return status if isinstance(status, int) else 0


def _has_parser() -> bool:
    """Report whether the packages of the command line are installed, without importing one."""
    try:
        return find_spec("cyclopts") is not None
    except ModuleNotFoundError:
        return False


def _parser() -> Callable[..., Any]:
    """Return the function that parses and runs a command. Raises ImportError if its packages are not installed."""
    from vworkspace_app.commands.program import parse

    return parse


def _ended_by(error: BaseException, arguments: Sequence[str]) -> int | None:
    """Print the error and return the exit status; None for a defect, which shows its traceback."""
    match error:
        case CommandError():
            return _print_error(error.message, error.status)
        case ImportError():
            problem = install_hint(error) or install_hint(
                error.__cause__
            )  # the parser wraps what importing a command raises
            return None if problem is None else _print_error(problem, FAILURE)
        case KeyboardInterrupt():
            return _print_error("interrupted", INTERRUPTED)
        case BrokenPipeError():
            # The reader has gone (`… | head`): print nothing more, not even at interpreter exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILURE
        case _:
            return _misused(error)


def _misused(error: BaseException) -> int | None:
    """Print the error of a misused command line and return the exit status; None for other errors."""
    from vworkspace_app.commands.program import misuse

    problem = misuse(error)
    return None if problem is None else _print_error(problem, USAGE)


def _print_error(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()

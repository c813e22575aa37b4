"""The command line's entry: one line on standard error for every error, exit status 2 for usage, 1 for failure."""

import os
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError

from vworkspace_app.cli import app
from vworkspace_app.problems import FAILURE, INTERRUPTED, USAGE, CommandError, alone

__all__ = ["main", "run_command"]


def main() -> None:
    """Run the command that the arguments name, and exit with its status."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; problems are told in one line on standard error."""
    # The parser takes a lone `-` for an option; the readers know standard input by this name too.
    words = ["/dev/stdin" if word == "-" else word for word in arguments]
    try:
        status = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except BaseException as error:
        known = _ended_by(alone(error))
        if known is None:
            raise
        return known
    return status if isinstance(status, int) else 0


def _ended_by(error: BaseException) -> int | None:
    """The exit status, once the error is told; None for a defect, which shows its traceback."""
    match error:
        case CommandError():
            return _told(error.message, error.status)
        case CycloptsError():
            chain = " ".join(("vworkspace-operator", *(error.command_chain or ())))
            return _told(f"{' '.join(str(error).split())} (see {chain} --help)", USAGE)
        case KeyboardInterrupt():
            return _told("interrupted", INTERRUPTED)
        case BrokenPipeError():
            # The reader has gone (`… | head`): say nothing more, not even at interpreter exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILURE
        case _:
            return None


def _told(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()

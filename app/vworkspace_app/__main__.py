"""The entry point of the command line. `--version`, `--help` and `completion` need only the standard library.

Every other command is run by `vworkspace_app.commands.execution`.
"""

import codecs
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from vworkspace_app.missing_packages import answered, failure_status, install_hint

_ESCAPED: Final = "vworkspace.escaped"


def main() -> None:
    """Run the command that the arguments name, and exit with its status."""
    codecs.register_error(_ESCAPED, _escape)
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors=_ESCAPED)  # type: ignore[union-attr]
    status = run_command(sys.argv[1:], guarded=True)
    # Python looks for garbage when it ends: in all that was imported, for a tenth of the time of a short command.
    gc.freeze()
    sys.exit(status)


def open_missing_streams() -> None:
    """Replace each standard stream that the caller has closed by one that is empty and discards what is written."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the process ends)


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Return the characters that the terminal's encoding lacks as JSON escapes, and the position to continue at."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{text[i : i + 2].hex()}" for i in range(0, len(text), 2)), error.end


def run_command(arguments: Sequence[str], *, guarded: bool = False) -> int:
    """Run one command and return its exit status. An error is printed as one line on standard error.

    If `guarded` is True, control sequences in the output of this process are printed as visible text, so that a
    terminal does not obey them, and an unexpected error is printed with its traceback. Otherwise it is raised.
    """
    missing = _missing_package()
    if (answer := answered(arguments, complete=missing is None)) is not None:
        return _print_answer(answer)
    failure = failure_status(arguments)
    if missing is not None:
        print(f"error: {install_hint(missing)}", file=sys.stderr)
        return failure
    from vworkspace_app.commands.execution import execute, guard_streams  # slow to import

    if not guarded:
        return execute(arguments, failure)
    guard_streams()
    try:
        return execute(arguments, failure)
    except Exception:
        # Python itself would exit with 1, which is a verdict of some commands.
        traceback.print_exc()
        return failure


def _print_answer(answer: str) -> int:
    try:
        print(answer, flush=True)
    except OSError as error:
        # The reader has gone (`… | head`), or the disk is full: print nothing more, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"error: cannot write: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _missing_package() -> ModuleNotFoundError | None:
    """Return the error about the missing package anyio, or None if anyio is installed. The package is not imported.

    All commands need anyio, except the simple ones that this module answers itself.
    """
    try:
        there = find_spec("anyio") is not None
    except ModuleNotFoundError as error:
        return error
    return None if there else ModuleNotFoundError(name="anyio")


if __name__ == "__main__":
    main()

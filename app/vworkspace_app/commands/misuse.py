"""Errors of the command line for people: one line for each way to misuse the parser."""

from typing import Final

from cyclopts import Argument, CycloptsError, MissingArgumentError
from cyclopts.exceptions import UnusedCliTokensError

_PROGRAM: Final = "vworkspace-operator"


def misuse(error: BaseException) -> str | None:
    """Return one line that names the help to read, for an error of usage; None for other errors."""
    if not isinstance(error, CycloptsError):
        return None
    chain = " ".join((_PROGRAM, *(error.command_chain or ())))
    return f"{_problem(error)} (see {chain} --help)"


def _named(argument: Argument) -> str:
    """Return an argument as the help names it: a positional one without dashes, in capitals."""
    return argument.name if argument.index is None else argument.name.lstrip("-").replace("-", "_").upper()


def _problem(error: CycloptsError) -> str:
    match error:
        case UnusedCliTokensError(unused_tokens=[*unused]) if unused:
            return f"unexpected argument{'s' * (len(unused) > 1)}: {' '.join(unused)}"
        case MissingArgumentError(argument=argument) if argument is not None and not argument.tokens:
            return f"{error.keyword}: a value is missing" if error.keyword else f"{_named(argument)} is missing"
        case _:
            return " ".join(str(error).split())

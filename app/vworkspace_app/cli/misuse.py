"""What is wrong with the words of a command, as a person reads it: one line for each way to misuse the parser."""

from typing import Final

from cyclopts import Argument, CycloptsError, MissingArgumentError
from cyclopts.exceptions import UnusedCliTokensError

_PROGRAM: Final = "vworkspace-operator"


def misuse(error: BaseException) -> str | None:
    """One line with the help to look at; None for what is no misuse."""
    if not isinstance(error, CycloptsError):
        return None
    chain = " ".join((_PROGRAM, *(error.command_chain or ())))
    return f"{_problem(error)} (see {chain} --help)"


def _named(argument: Argument) -> str:
    """Return an argument as the help has it: what is given by its place is no option."""
    return argument.name if argument.index is None else argument.name.lstrip("-").replace("-", "_").upper()


def _problem(error: CycloptsError) -> str:
    match error:
        case UnusedCliTokensError(unused_tokens=[*unused]) if unused:
            return f"unexpected argument{'s' * (len(unused) > 1)}: {' '.join(unused)}"
        case MissingArgumentError(argument=argument) if argument is not None and not argument.tokens:
            return f"{error.keyword}: a value is missing" if error.keyword else f"{_named(argument)} is missing"
        case _:
            return " ".join(str(error).split())

"""The table of all commands and options that shells complete, from the signatures that the parser reads."""

import json
from collections.abc import Iterable, Iterator
from textwrap import shorten
from typing import Final

from vworkspace_app.arguments import Argument, arguments_of
from vworkspace_app.commands import program
from vworkspace_app.commands.program import PROGRAM
from vworkspace_app.completion import CommandWords, Option
from vworkspace_app.missing_packages import COMMANDS

_WIDTH: Final = 76
"""The columns that a description may take, since shells list each in one line."""


def completion_table() -> str:
    """Return the table of all commands as JSON, one command in a line."""
    rows = (json.dumps(command._asdict(), ensure_ascii=False) for command in _commands(PROGRAM, ()))
    return "[\n" + ",\n".join(rows) + "\n]\n"


def _commands(of: program.Command, words: tuple[str, ...]) -> Iterator[CommandWords]:
    arguments = arguments_of(of.function()) if of.place else ()
    yield CommandWords(
        words,
        {name: _about(command, (*words, name)) for name, command in of.below.items()},
        (*_options(arguments), Option(("--help",), "Describe the command."), *(() if words else (_VERSION,))),
        tuple(value for argument in arguments if argument.positional for value in argument.choices),
    )
    for name, command in of.below.items():
        yield from _commands(command, (*words, name))


_VERSION: Final = Option(("--version",), "Print the version.")


def _about(command: program.Command, words: tuple[str, ...]) -> str:
    return COMMANDS[words[0]] if len(words) == 1 else _short(command.help().partition("\n\n")[0])


def _options(arguments: Iterable[Argument]) -> Iterator[Option]:
    for argument in arguments:
        if not argument.positional:
            values = tuple(filter(None, argument.choices))
            yield Option(argument.options, _short(argument.about), argument.flag, values)


def _short(text: str) -> str:
    return shorten(text, _WIDTH, placeholder=" ...")

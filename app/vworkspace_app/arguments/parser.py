"""The parser of a command's arguments, based on argparse, and the text of the command's help.

argparse only splits the words into options and values. This module converts the values and reports what is missing or
unknown, so that every error is one line that names the help to read.
"""

import argparse
import inspect
import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

import attrs

from vworkspace_app.arguments.signature import REQUIRED, Argument, UsageError, arguments_of

_WIDEST: Final = 100


class _Words(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def call(function: Callable[..., Any], words: Sequence[str]) -> Any:
    """Call the function of a command with the arguments parsed from the words of a command line; return its result.

    Raises UsageError for unknown, missing and malformed arguments.
    """
    arguments = arguments_of(function)
    given = _given(arguments, words)
    return function(*_positional(arguments, given), **_options(function, arguments, given))


def _given(arguments: Sequence[Argument], words: Sequence[str]) -> dict[int, Any]:
    """Return the parsed value of each argument that `words` give, keyed by the argument's index. Raises UsageError."""
    parser = _Words(add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
    for number, argument in enumerate(arguments):
        if not argument.positional:
            _add(parser, argument, str(number))
    end = words.index("--") if "--" in words else len(words)
    try:
        known, others = parser.parse_known_args(words[:end])
    except argparse.ArgumentError as error:
        raise UsageError(f"{error.argument_name}: {_plain(error.message)}") from None
    if options := [word for word in others if word.startswith("-")]:
        raise UsageError(_unknown(options[0].partition("=")[0], arguments))
    texts = {int(number): value for number, value in vars(known).items()}
    texts |= _placed(arguments, [*others, *words[end + 1 :]])
    for number, argument in enumerate(arguments):
        if argument.env_var and number not in texts and os.environ.get(argument.env_var):
            texts[number] = os.environ[argument.env_var]
        if argument.required and number not in texts:
            raise UsageError(f"{argument.label} is missing")
    return {number: _read(arguments[number], value) for number, value in texts.items()}


def _placed(arguments: Sequence[Argument], words: Sequence[str]) -> dict[int, Any]:
    """Assign the words to positional arguments, and return their values, keyed by the argument's index.

    Raises UsageError if words are left over.
    """
    placed: dict[int, Any] = {}
    for number, argument in enumerate(arguments):
        if argument.positional and words:
            placed[number], words = (words, ()) if argument.many else (words[0], words[1:])
    if words:
        raise UsageError(f"unexpected argument{'s' * (len(words) > 1)}: {' '.join(words)}")
    return placed


def _add(parser: argparse.ArgumentParser, argument: Argument, number: str) -> None:
    if argument.flag:
        unsets = argument.default is True and not argument.negative
        parser.add_argument(*argument.names, dest=number, action="store_false" if unsets else "store_true")
        if argument.negative:
            parser.add_argument(argument.negative, dest=number, action="store_false")
    else:
        action = "append" if argument.many else "store"
        parser.add_argument(*argument.names, dest=number, action=action, nargs=2 if argument.pair else None)


def _plain(message: str) -> str:
    return "a value is missing" if message == "expected one argument" else message


def _read(argument: Argument, given: Any) -> Any:
    value = _value(argument, given)
    return value if argument.read is None else argument.read(value)


def _value(argument: Argument, given: Any) -> Any:
    if isinstance(given, str):
        return argument.value(given)
    if isinstance(given, list):
        values = [argument.value(each) for each in given]
        return tuple(values) if argument.pair else values
    return given


def _unknown(option: str, arguments: Iterable[Argument]) -> str:
    names = [name for argument in arguments if not argument.positional for name in argument.options]
    return f"unknown option: {option}{alike(option, names)}"


def alike(word: str, known: Iterable[str]) -> str:
    """Return the hint "; did you mean X?" with the known word X that is most similar to `word`.

    Return "" if no known word is similar.
    """
    return "".join(f"; did you mean {match}?" for match in get_close_matches(word, [*known], 1))


def _positional(arguments: Sequence[Argument], given: dict[int, Any]) -> Iterator[Any]:
    for number, argument in enumerate(arguments):
        if argument.positional:
            value = given.get(number, argument.default)
            yield from value if argument.default == () else (value,)


def _options(function: Callable[..., Any], arguments: Sequence[Argument], given: dict[int, Any]) -> dict[str, Any]:
    """Return the given values of options, keyed by the parameter of `function` that gets the value.

    If options are fields of an attrs class, the value is the parameter's default with these fields replaced.
    """
    options = {arguments[number].parameter: value for number, value in given.items() if _is_plain(arguments[number])}
    for parent in {argument.parameter for argument in arguments if argument.field}:
        fields = {arguments[n].field: value for n, value in given.items() if arguments[n].parameter == parent}
        options[parent] = attrs.evolve(inspect.signature(function).parameters[parent].default, **fields)
    return options


def _is_plain(argument: Argument) -> bool:
    return not argument.positional and not argument.field


def width() -> int:
    """Return the width of help texts in columns: the terminal's width, at most 100, or 80 without a terminal."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


def command_help(chain: str, function: Callable[..., Any], commands: Iterable[str] = ()) -> str:
    """Return the help text of a command: usage, the function's docstring, subcommands, arguments and options.

    `chain` has the words by which the command is called. `commands` are the paragraphs about its subcommands; empty if
    it has none.
    """
    arguments = arguments_of(function)
    places = [_place(argument) for argument in arguments if argument.positional]
    usage = " ".join((f"Usage: {chain}", *(["COMMAND"] * bool(commands)), "[OPTIONS]", *places))
    rows = [(_names(argument), _meaning(argument)) for argument in arguments]
    split = sum(argument.positional for argument in arguments)
    parts = [usage, *description(inspect.getdoc(function) or ""), *commands]
    parts += [titled("Arguments", rows[:split])] * (split > 0)
    parts.append(titled("Options", [*rows[split:], ("--help, -h", "Show this help.")]))
    return "\n\n".join(parts)


def first_line(text: str) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(text.partition("\n\n")[0].replace("`", "").split())


def _place(argument: Argument) -> str:
    many = f"{argument.label}{'...' * argument.many}"
    return many if argument.default is REQUIRED else f"[{many}]"


def description(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring, wrapped to the width of help texts. Indented paragraphs, which are examples,
    are not wrapped.
    """
    for paragraph in text.replace("`", "").split("\n\n"):
        yield paragraph if paragraph.startswith("    ") else textwrap.fill(paragraph, width(), break_on_hyphens=False)


def _names(argument: Argument) -> str:
    if argument.positional:
        return argument.label
    names = ", ".join(argument.options)
    return names if argument.flag else " ".join((names, *[argument.takes] * (1 + argument.pair)))


def _meaning(argument: Argument) -> str:
    hints = [f"env: {argument.env_var}"] if argument.env_var else []
    if argument.default is REQUIRED:
        hints.append("required")
    elif argument.default not in (None, "", b"", False, ()) and not argument.flag:
        hints.append(f"default: {getattr(argument.default, 'value', argument.default)}")
    return f"{argument.about} [{'; '.join(hints)}]" if hints else argument.about


def titled(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return `title`, and below it a table of `rows`, each with a name and its description. Lines are wrapped as in
    help texts.
    """
    column = min(max((len(name) for name, _ in rows), default=0), 30) + 4
    return "\n".join((f"{title}:", *(line for name, about in rows for line in _row(name, about, column))))


def _row(name: str, about: str, column: int) -> list[str]:
    fits = len(name) + 4 <= column
    first = f"  {name}".ljust(column) if fits else " " * column
    folded = textwrap.wrap(
        about, width(), initial_indent=first, subsequent_indent=" " * column, break_on_hyphens=False
    ) or [first.rstrip()]
    return folded if fits else [f"  {name}", *folded]

"""The arguments of a command, from the signature of its function, their parser, and the text of the command's help.

A parameter before `*` becomes a positional argument, a parameter after it an option. The type `bool` makes a flag with
a `--no-` form, `list[X]` an option that may be repeated, `tuple[X, X]` an option with two values, and `Literal` or an
enum an option with fixed choices. If a parameter is annotated with `Parameter(name="*")`, its type is an attrs class,
and each field of the class is an option.

argparse only splits the words into options and values. This module converts the values and reports what is missing or
unknown, so that every error is one line that names the help to read.
"""

import argparse
import inspect
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NoReturn, get_args, get_origin

import attrs

REQUIRED: Final = inspect.Parameter.empty
"""The value of `Argument.default` that marks an argument without a default, which must be given."""
_TAKES: Final = {str: "TEXT", int: "NUMBER", float: "NUMBER"}
_WIDEST: Final = 100


def flag_of(name: str) -> str:
    """Return the flag of a setting or parameter, such as `--log-level` of `log_level`."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """Return the environment variable of a setting, such as `VWORKSPACE_LOG_LEVEL` of `log_level`."""
    return f"VWORKSPACE_{name.upper()}"


class UsageError(Exception):
    """The error raised for a wrong call of a command, such as an unknown option or a missing argument."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@attrs.frozen
class Parameter:
    """The description of one command-line argument, in the `Annotated` type of a parameter of the command's function.

    It has the argument's names and help text, and the environment variable that is read if the argument is not given.
    `negative` is the name of the option that unsets a flag: None means the usual `--no-` form, "" means that there is
    none. `read` converts the parsed value; the argument is then parsed as the type of the parameter of `read`. If
    `parse` is False, the parameter cannot be given on the command line and keeps its default.
    """

    name: str | Sequence[str] = ()
    help: str = ""
    negative: str | None = None
    env_var: str = ""
    read: Callable[[Any], Any] | None = None
    parse: bool = True


@attrs.frozen
class Argument:
    """One command-line argument, read from the parameter `parameter` of the command's function.

    If the type of that parameter is an attrs class, each field of the class is an argument, and `field` is the name of
    this one's field; otherwise it is "". A flag sets the value True; if True is the default and there is no `negative`,
    the flag sets False. An argument with `many` takes several values; one with `pair` takes two.
    """

    parameter: str
    names: tuple[str, ...]
    about: str
    default: Any
    kind: Any
    """The type of the value, or of each value if the argument has several (`many` or `pair`)."""
    positional: bool = False
    many: bool = False
    pair: bool = False
    negative: str = ""
    env_var: str = ""
    field: str = ""
    read: Callable[[Any], Any] | None = None

    @property
    def label(self) -> str:
        """The name of the argument in error messages."""
        return self.names[0]

    @property
    def options(self) -> tuple[str, ...]:
        """All names of the option, including the one that unsets a flag."""
        return (*self.names, self.negative) if self.negative else self.names

    @property
    def flag(self) -> bool:
        """Report whether the argument is a flag, which takes no value."""
        return self.kind is bool

    @property
    def required(self) -> bool:
        """Report whether the argument must be given: it has no default, and its environment variable is not set."""
        return self.default is REQUIRED and not os.environ.get(self.env_var)

    @property
    def choices(self) -> tuple[str, ...]:
        """The accepted values; empty if any text is accepted."""
        if get_origin(self.kind) is Literal:
            return get_args(self.kind)
        is_enum = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        return tuple(str(each.value) for each in self.kind) if is_enum else ()

    @property
    def takes(self) -> str:
        """The text for the value in help: the choices, such as `{text,json}`, or a placeholder, such as PATH."""
        return "{" + ",".join(filter(None, self.choices)) + "}" if self.choices else _TAKES.get(self.kind, "PATH")

    def value(self, text: str) -> Any:
        """Return a word of the command line as a value of the argument's type. Raises UsageError if it is invalid."""
        if self.choices and text not in self.choices:
            known = ", ".join(filter(None, self.choices))
            raise UsageError(f"{self.label} {text}: give one of {known}")
        if get_origin(self.kind) is Literal:
            return text
        try:
            return self.kind(text)
        except ValueError:
            raise UsageError(f"{self.label} {text}: not a number") from None


def arguments_of(function: Callable[..., Any]) -> tuple[Argument, ...]:
    """Return the arguments of a command's function, in the order of its signature."""
    return tuple(argument for each in inspect.signature(function).parameters.values() for argument in _of(each))


def _of(parameter: inspect.Parameter) -> Iterator[Argument]:
    kind, words = _unwrapped(parameter.annotation)
    if words.name == "*":
        yield from arguments_of_fields(kind, parameter.name)
        return
    yield from _argument(parameter.name, kind, words, parameter.default, "", parameter.kind)


def arguments_of_fields(cls: type[Any], parameter: str) -> Iterator[Argument]:
    """Yield one argument for each field of the attrs class `cls`, the type of the function's parameter `parameter`."""
    for field in attrs.fields(cls):
        kind, of_field = _unwrapped(field.type)
        words = attrs.evolve(of_field, help=of_field.help or field.metadata.get("help", ""), negative="")
        default = None if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        yield from _argument(field.name, kind, words, default, parameter)


def _argument(
    name: str, kind: Any, words: Parameter, default: Any, parent: str, place: Any = inspect.Parameter.KEYWORD_ONLY
) -> Iterator[Argument]:
    if not words.parse:
        return
    positional = place is not inspect.Parameter.KEYWORD_ONLY
    names = (words.name,) if isinstance(words.name, str) else tuple(words.name)
    unset = "no_" if default is True and words.negative == "" else ""
    names = names or (name.upper() if positional else flag_of(unset + name),)
    variadic = place is inspect.Parameter.VAR_POSITIONAL
    many = variadic or get_origin(kind) is list
    pair = get_origin(kind) is tuple
    yield Argument(
        parent or name,
        names,
        words.help,
        () if variadic else default,
        get_args(kind)[0] if (many and not variadic) or pair else kind,
        positional,
        many,
        pair,
        "" if kind is not bool else f"--no-{names[0][2:]}" if words.negative is None else words.negative,
        words.env_var,
        name if parent else "",
        words.read,
    )


def _unwrapped(annotation: Any) -> tuple[Any, Parameter]:
    """Return the argument's type in an annotation, without `| None`, and its `Parameter` or an empty one."""
    words = Parameter()
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        words = next((each for each in metadata if isinstance(each, Parameter)), words)
    if words.read is not None:
        annotation = next(iter(inspect.signature(words.read).parameters.values())).annotation
    if isinstance(annotation, UnionType):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    return annotation, words


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
    from difflib import get_close_matches  # a fiftieth of the start of a command, for none that is spelt right

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
    from shutil import get_terminal_size  # slow to import, and only help is folded

    return min(get_terminal_size().columns, _WIDEST)


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

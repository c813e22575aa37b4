"""The arguments of a command, read from the signature of its function.

A parameter before `*` becomes a positional argument, a parameter after it an option. The type `bool` makes a flag with
a `--no-` form, `list[X]` an option that may be repeated, `tuple[X, X]` an option with two values, and `Literal` or an
enum an option with fixed choices. If a parameter is annotated with `Parameter(name="*")`, its type is an attrs class,
and each field of the class is an option.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import attrs

REQUIRED: Final = inspect.Parameter.empty
"""The value of `Argument.default` that marks an argument without a default, which must be given."""

_TAKES: Final = {str: "TEXT", int: "NUMBER", float: "NUMBER"}


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
    unset = "no-" if default is True and words.negative == "" else ""
    names = names or (name.upper() if positional else f"--{unset}{name.replace('_', '-')}",)
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

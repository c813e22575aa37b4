"""The page docs/cli.md: every command with its options, from the signatures that the parser reads."""

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from vworkspace_app.arguments import REQUIRED, Argument, arguments_of
from vworkspace_app.commands.program import PROGRAM, Command

_PROGRAM: Final = "vworkspace-operator"
_ORDER: Final = (
    "run",
    "manifests",
    "register",
    "uninstall",
    "status",
    "check",
    "diff",
    "retry",
    "suspend",
    "resume",
    "cancel",
    "approve",
    "logs",
    "version",
    "completion",
    "demo",
    "plan",
    "cluster",
    "control-plane",
    "conformance control-plane",
)


def commands_page() -> str:
    """Return the page as Markdown."""
    return _PAGE + "\n".join(_command(name) for name in _names())


def _names() -> list[str]:
    """Return the commands in the order in which users need them, new ones last."""
    names = [*_below(PROGRAM)]
    return [*(name for name in _ORDER if name in names), *(name for name in names if name not in _ORDER)]


def _below(group: Command, words: str = "") -> Iterator[str]:
    for name, command in group.below.items():
        if command.place:
            yield f"{words}{name}"
        yield from _below(command, f"{words}{name} ")


def _command(name: str) -> str:
    command = PROGRAM
    for word in name.split():
        command = command.below[word]
    about, examples = _text(command.help())
    parts = [f"## `{_PROGRAM} {name}`", about]
    if examples:
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    if name == "run":
        parts.append("Its options are the settings: [settings.md](settings.md).")
    else:
        rows = "\n".join(map(_row, arguments_of(command.function())))
        parts.append(f"| option | default | meaning |\n|---|---|---|\n{rows}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(help_: str) -> tuple[str, list[str]]:
    """Return a help text without its examples, and the commands below `Examples:`."""
    lines = inspect.cleandoc(help_).splitlines()
    paragraphs = [line for line in lines if not line.startswith("    ")]
    examples = [line[4:] for line in lines if line.startswith("    ")]
    about = "\n".join(paragraphs).replace(" Examples:", "").replace("Examples:", "").replace("Example:", "").strip()
    return about, examples


def _row(argument: Argument) -> str:
    names = ", ".join(f"`{name}`" for name in argument.names)
    shown = "needed" if argument.default is REQUIRED else _default(argument.default)
    return f"| {names} | {shown} | {argument.about.replace('|', chr(92) + '|')} |"


def _default(value: Any) -> str:
    return "" if value in (None, "", b"", False, ()) else f"`{value.value if isinstance(value, Enum) else value}`"


_PAGE: Final = """# The command line

Generated from `app/vworkspace_app/commands/` by `make manifests`; do not edit. `--help` on each command says the same.

Errors are one line on standard error. Exit status: 0, 1 for a failure, 2 for words that are no command, 130 when
interrupted.

"""

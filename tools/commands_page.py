"""The page docs/cli.md: every command with its options, from the signatures that the parser reads."""

import inspect
from enum import Enum
from typing import Any, Final

from cyclopts import App

from vworkspace_app.commands.program import app

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
    names = [f"{name} {sub}".strip() for name in _of(app) for sub in _below(name)]
    return [*(name for name in _ORDER if name in names), *(name for name in names if name not in _ORDER)]


def _below(name: str) -> list[str]:
    """Return the subcommands of a command; an empty one is the command without any."""
    subcommands = _of(app[name])
    return subcommands if subcommands and app[name].default_command is None else ["", *subcommands]


def _of(program: App) -> list[str]:
    return [name for name in program if not name.startswith("-")]


def _command(name: str) -> str:
    command: Any = app
    for word in name.split():
        command = command[word]
    about, examples = _text(str(command.help or inspect.getdoc(command.default_command) or ""))
    parts = [f"## `{_PROGRAM} {name}`", about]
    if examples:
        parts.append("```sh\n" + "\n".join(examples) + "\n```")
    if name == "run":
        parts.append("Its options are the settings: [settings.md](settings.md).")
    else:
        rows = "\n".join(_row(argument) for argument in command.assemble_argument_collection() if argument.show)
        parts.append(f"| option | default | meaning |\n|---|---|---|\n{rows}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(help_: str) -> tuple[str, list[str]]:
    """Return a help text without its examples, and the commands below `Examples:`."""
    lines = inspect.cleandoc(help_).splitlines()
    paragraphs = [line for line in lines if not line.startswith("    ")]
    examples = [line[4:] for line in lines if line.startswith("    ")]
    about = "\n".join(paragraphs).replace(" Examples:", "").replace("Examples:", "").replace("Example:", "").strip()
    return about, examples


def _row(argument: Any) -> str:
    names = ", ".join(f"`{name}`" for name in argument.names if not name.startswith("--no-") or name == argument.name)
    default = argument.field_info.default
    shown = "needed" if argument.required else _default(default)
    return f"| {names} | {shown} | {str(argument.parameter.help or '').replace('|', chr(92) + '|')} |"


def _default(value: Any) -> str:
    if value in (None, "", False, inspect.Parameter.empty) or value == ():
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


_PAGE: Final = """# The command line

Generated from `app/vworkspace_app/commands/` by `make manifests`; do not edit. `--help` on each command says the same.

Errors are one line on standard error. Exit status: 0, 1 for a failure, 2 for words that are no command, 130 when
interrupted.

"""

"""The table of all commands of the command line. The function of a command is imported only when it is called."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Final, Literal

import attrs

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.arguments import UsageError, alike, call, command_help, description, first_line, titled
from vworkspace_app.commands.shared.quick_imports import quick_imports
from vworkspace_app.completion import completion_script
from vworkspace_app.missing_packages import ABOUT, COMMANDS, install_hint

_PROGRAM: Final = "vworkspace-operator"
_HELP: Final = ("--help", "-h")


@attrs.frozen
class Command:
    """A command: its function as `module:function` (`place`), and its subcommands by name (`below`).

    A group of commands has no function; `about` is its help text.
    """

    place: str = ""
    about: str = ""
    below: Mapping[str, "Command"] = attrs.field(factory=dict)

    def function(self) -> Callable[..., Any]:
        """Import and return the command's function. Raises ImportError if its packages are not installed."""
        module, _, name = self.place.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
        return function

    def help(self) -> str:
        """Return the help text of the command."""
        return self.about or inspect.getdoc(self.function()) or ""


_FUNCTIONS: Final = {
    "run": "run_flags:run",
    "register": "register:register_cluster",
    "cluster": "servers:serve_cluster",
    "control-plane": "servers:control_plane",
    "version": "versions:version",
    "plan": "plan:print_plan",
    "simulate": "simulate.simulate_flags:simulate_runs",
    "completion": "program:completion",
    **{name: f"verbs:{name}" for name in ("retry", "suspend", "resume", "cancel", "approve", "logs")},
}
"""The function of each command whose module or function is not named like the command, as `module:function`."""

_BELOW: Final = {
    "box": {
        "check": "box.check:check",
        "graph": "box.pages:graph",
        "docs": "box.pages:docs",
        "plan": "box.plan:plan",
        "test": "box.test:play_box",
        "rollout": "box.rollout:rollout",
        "rbac": "box.manifests:rbac",
        "forget": "uninstall:forget_objects_of_box",
        "manifests": "box.manifests:manifests",
        "run": "run_flags:run_boxes",
        "init": "box.init:init",
        "convert": "box.convert:convert_box",
    },
    "controllers": {
        "run": "run_flags:run_controllers",
        "list": "controllers:list_controllers",
        "crds": "controllers:crds",
        "rbac": "controllers:rbac",
        "manifests": "controllers:manifests",
        "forget": "uninstall:forget_objects",
    },
    "versions": {"list": "versions:list_versions", "migrate": "versions:migrate_versions"},
    "conformance": {
        "control-plane": "conformance.control_plane:examine_control_plane",
        "operator": "conformance.operator:examine_operator",
        "controller": "conformance.controller:examine_controller",
        "list": "conformance.operator:list_checks",
    },
    "init": {"box": "box.init:init", "reconciler": "init_reconciler:reconciler"},
    "simulate": {name: f"simulate.simulate_flags:{name}" for name in ("replay", "record", "manifests", "collect")},
}

_WITH_CODE_OF_USERS: Final = frozenset({"controllers", "run", "simulate"})
"""The commands that may import Python modules of users."""

_ABOUT_GROUPS: Final = {
    "box": "Operators from a file: check them, show them, begin one, convert those of others.",
    "controllers": "Reconcilers and watchers in Python: list, run, and print what they need.",
    "versions": "In which versions objects are stored, and moving them to the storage version.",
    "conformance": "Examine an operator, a controller of any kind, or a control plane.",
    "init": "Begin an operator: a reconciler in Python, or a box.",
}


def _tree() -> dict[str, Command]:
    tree = {}
    for name in COMMANDS:
        below = {part: Command(place) for part, place in _BELOW.get(name, {}).items()}
        if name in _ABOUT_GROUPS:
            tree[name] = Command("", _ABOUT_GROUPS[name], below)
        else:
            plain = name.replace("-", "_")
            module, _, function = _FUNCTIONS.get(name, plain).partition(":")
            tree[name] = Command(f"{module}:{function or plain}", "", below)
    return tree


PROGRAM: Final = Command("", ABOUT, _tree())
"""The root of the tree of commands; its subcommands are all commands of the program."""


def parse(words: Sequence[str]) -> Any:
    """Run the command that the words of a command line name, and return its result.

    With `--help`, print the help of the command instead. Raises CommandError for wrong usage, such as an unknown
    command, and the errors of the command.
    """
    chain, command, rest = [_PROGRAM], PROGRAM, list(words)
    while rest and rest[0] in command.below:
        command = command.below[rest[0]]
        chain.append(rest.pop(0))
    try:
        if any(word in _HELP for word in rest[: rest.index("--") if "--" in rest else None]):
            return print(_help(" ".join(chain), command))
        if command.place:
            return call(_imported(command, chain[1]), rest)
        if not rest:
            return print(_help(" ".join(chain), command))
        kind = "option" if rest[0].startswith("-") else "command"
        raise UsageError(f"unknown {kind}: {rest[0]}{alike(rest[0], command.below)}")
    except UsageError as error:
        raise CommandError(f"{error.message} (see {' '.join(chain)} --help)", status=USAGE) from None


def _imported(command: Command, name: str) -> Callable[..., Any]:
    """Return the function of a command that is `name`, or below the group of that name."""
    with nullcontext() if name in _WITH_CODE_OF_USERS else quick_imports():
        return command.function()


def _help(chain: str, command: Command) -> str:
    below = [titled("Commands", [*_lines(command)])] if command.below else []
    if command.place:
        return command_help(chain, command.function(), below)
    return "\n\n".join((f"Usage: {chain} COMMAND", *description(command.about), *below))


def _lines(group: Command) -> Iterator[tuple[str, str]]:
    """Yield name and first paragraph of help for each command in a group.

    Commands whose packages are not installed are skipped.
    """
    for name, command in group.below.items():
        try:
            yield name, first_line(command.help())
        except ImportError as error:
            if install_hint(error) is None:
                raise


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the shell script that completes commands and options.

    Examples:

        source <(vworkspace-operator completion bash)
        vworkspace-operator completion zsh > "${fpath[1]}/_vworkspace-operator"
        vworkspace-operator completion fish > ~/.config/fish/completions/vworkspace-operator.fish
    """
    print(completion_script(shell))

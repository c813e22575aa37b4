"""The command line: every command by its name, and the function that carries it out, imported when it is called."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from cyclopts import App, Argument, CycloptsError, MissingArgumentError
from cyclopts.exceptions import UnusedCliTokensError

from vworkspace_app import VERSION
from vworkspace_app.missing_packages import ABOUT, COMMANDS, completion_script

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


app = App(name="vworkspace-operator", help=ABOUT, version=VERSION, help_format="markdown")
"""The parser of the whole command line."""

_FUNCTIONS: Final = {
    "run": "run_flags:run",
    "register": "register:register_cluster",
    "cluster": "servers:serve_cluster",
    "control-plane": "servers:control_plane",
    "version": "versions:version",
    "plan": "plan:print_plan",
    "simulate": "simulate.simulate_flags:simulate",
    **dict.fromkeys(("retry", "suspend", "resume", "cancel", "approve", "logs"), "verbs"),
}
"""The functions of commands whose module or function does not have the command's name."""

_OF_GROUPS: Final = {
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
}

_ABOUT_GROUPS: Final = {
    "box": "Operators from a file: check them, show them, begin one, convert those of others.",
    "controllers": "Reconcilers and watchers in Python: list, run, and print what they need.",
    "versions": "In which versions objects are stored, and moving them to the storage version.",
    "conformance": "Examine an operator, a controller of any kind, or a control plane.",
    "init": "Begin an operator: a reconciler in Python, or a box.",
}


def _register() -> None:
    for name in COMMANDS:
        if name in _OF_GROUPS:
            group = App(name=name, help=_ABOUT_GROUPS[name])
            for part, function in _OF_GROUPS[name].items():
                group.command(f"{__package__}.{function}", name=part)
            app.command(group)
        elif name != "completion":
            module, _, function = _FUNCTIONS.get(name, name.replace("-", "_")).partition(":")
            app.command(f"{__package__}.{module}:{function or name.replace('-', '_')}", name=name)


_register()


def parse(words: Sequence[str]) -> Any:
    """Run the command that the words name, and return its result.

    The help of a group shows the first line of each of its commands, so they are imported for it.
    """
    if len(words) <= 2 and words[0] in _OF_GROUPS and words[-1] in (words[0], "--help", "-h"):
        _import(app[words[0]])
    return app(words, exit_on_error=False, print_error=False, result_action="return_value")


def _import(group: App) -> None:
    """Import the commands of a group, and leave out those whose packages are not installed."""
    for name in [name for name in group if not name.startswith("-")]:
        try:
            _ = group[name]  # looked up, a command is imported
        except ImportError:
            del group[name]


@app.command
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what a shell needs to complete commands and options.

    Examples:

        source <(vworkspace-operator completion bash)
        vworkspace-operator completion zsh > "${fpath[1]}/_vworkspace-operator"
        vworkspace-operator completion fish > ~/.config/fish/completions/vworkspace-operator.fish
    """
    print(completion_script(shell))

"""The parts of the command line that need no package: --version, --help, completion, and hints on what to install.

`pip install vworkspace-operator` installs only what the core needs, for programs that embed it. The installed command
still runs this module, which reports what is missing. In the operator's image, which has no embedded servers, the
commands `cluster`, `control-plane` and `demo` report that.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from vworkspace_app import VERSION

INSTALL: Final = "pip install 'vworkspace-operator[operator]'"
INSTALL_EMBEDDED: Final = "pip install 'vworkspace-operator[embedded]'"
LABORATORY: Final = ("kubelab", "purekube_convert", "vworkspace_fake")
"""The import packages that the operator's image lacks: embedded servers, simulated controllers, and `box convert`."""

ONLY_EMBEDDED: Final = ("cryptography", "httptools", "rich")
"""The packages of the extra `embedded` that the extra `operator` lacks."""

ABOUT: Final = "One object for each application, on a cluster that has Flux: the operator, and its servers and tools."
GROUPS: Final = {
    "Look": {
        "status": "the state of every object, why, and what would help",
        "check": "whether everything is there that the operator needs",
        "diff": "what applying manifests would change in a cluster",
        "plan": "what the operator would do, offline",
        "logs": "what the operator, or the pods of an object, wrote",
        "trace": "a recorded run in a browser, with a slider for its time",
        "version": "versions of this command, the API server, and what is installed there",
        "demo": "a job on its way from the control plane to Flux and back, live and checked",
    },
    "Act": {
        "retry": "requests a retry of a stalled application",
        "suspend": "pauses an application",
        "resume": "resumes a suspended application",
        "approve": "agrees to one run of an Operation",
        "cancel": "asks an Operation to stop",
    },
    "Install": {
        "manifests": "prints what is to be installed in a cluster",
        "register": "exchanges a one-time token for this cluster's credential",
        "versions": "in which versions objects are stored, and moving them",
        "uninstall": "takes the operator out of a cluster",
        "completion": "what a shell needs to complete commands and options",
    },
    "Build": {
        "init": "files to begin an operator with: a reconciler in Python, or a box",
        "box": "operators from files: check, run, plan, test, convert",
        "controllers": "reconcilers and watchers in Python: list, run, and print what they need",
        "conformance": "examines an operator or a control plane, ours or another",
        "simulate": "the operator with its whole world under virtual time, with faults and laws",
    },
    "Serve": {
        "run": "the operator",
        "cluster": "the embedded Kubernetes API server",
        "control-plane": "the embedded control plane",
    },
}
"""The commands by the group in which help lists them, each with its description."""

COMMANDS: Final = {name: about for group in GROUPS.values() for name, about in group.items()}


def failure_status(arguments: Sequence[str]) -> int:
    """Return the exit status with which a command fails.

    It is 1, but 2 where 1 is a verdict: with `diff` and `--exit-code`, as with `kubectl diff`, 1 says that something
    would change (SEE-2), with `simulate` that a law was broken (SIM-3), and with `box rollout status` that the roll-out
    is not complete.
    """
    awaits_rollout = list(arguments[:2]) == ["box", "rollout"] and "status" in arguments
    is_verdict = not {"diff", "simulate"}.isdisjoint(arguments[:1]) or "--exit-code" in arguments
    return 2 if is_verdict or awaits_rollout else 1


def install_hint(error: BaseException | None) -> str | None:
    """Return a message on the package to install if `error` is about a missing package, or None for any other error.

    A missing module of this project is a defect, not a missing package.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    if error.name in LABORATORY:
        return (
            f"this command needs packages that the operator's image leaves out "
            f"({error.name} is missing); where they are wanted: {INSTALL_EMBEDDED}"
        )
    package = error.name.partition(".")[0]
    if package.startswith(("vworkspace_", "purekube", "kubelab")) or package in sys.stdlib_module_names:
        return None
    install = INSTALL_EMBEDDED if package in ONLY_EMBEDDED else INSTALL
    return f"the command line needs more packages ({package} is missing): {install}"


def answered(arguments: Sequence[str], *, complete: bool) -> str | None:
    """Return the answer to `--version`, `--help` or `completion`; None for arguments that need a command.

    `complete` says that all packages are installed. If it is False, the help ends with how to install them, and
    `completion` is not answered.
    """
    match tuple(arguments):
        case ("--version",):
            return VERSION
        case () | ("--help",) | ("-h",):
            return "\n".join(_help(complete=complete))
        case ("completion", "bash" | "zsh" | "fish" as shell) if complete:
            from vworkspace_app.completion import completion_script

            return completion_script(shell)
        case _:
            return None


def _help(*, complete: bool) -> Iterator[str]:
    yield from ("Usage: vworkspace-operator COMMAND", "", ABOUT, "")
    width = max(map(len, COMMANDS))
    for group, commands in GROUPS.items():
        yield f"{group}:"
        yield from (f"  {name:<{width}}  {about}" for name, about in commands.items())
        yield ""
    yield "vworkspace-operator COMMAND --help says more." if complete else f"Its packages are not installed: {INSTALL}"

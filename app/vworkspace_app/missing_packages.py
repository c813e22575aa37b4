"""The command line without its packages: it says what to install, and still answers --help and --version.

`pip install vworkspace-operator` installs only what the core needs, for programs that embed it. This module needs no
more, so that the installed command can say so. The image has no embedded servers: there `cluster`, `control-plane` and
`demo` say so.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from vworkspace_app import VERSION

INSTALL: Final = "pip install 'vworkspace-operator[operator]'"
INSTALL_EMBEDDED: Final = "pip install 'vworkspace-operator[embedded]'"
LABORATORY: Final = ("kubelab", "purekube_convert", "vworkspace_fake")
"""The import packages that the image leaves out: the embedded servers, simulated controllers, and `box convert`."""

ONLY_EMBEDDED: Final = ("cryptography", "httptools")
"""The packages of the extra `embedded` that the extra `operator` lacks."""

ABOUT: Final = "Odoo's intent becomes running Flux releases: the operator, its embedded servers, and its offline tools."
COMMANDS: Final = {
    "approve": "agrees to one run of an Operation",
    "box": "operators from files: check, run, plan, test, convert",
    "cancel": "asks an Operation to stop",
    "check": "whether everything is there that the operator needs",
    "cluster": "the embedded Kubernetes API server",
    "completion": "what a shell needs to complete commands and options",
    "conformance": "examines a control plane of yours",
    "controllers": "reconcilers and watchers in Python: list, run, and print what they need",
    "control-plane": "the embedded control plane",
    "diff": "what applying manifests would change in a cluster",
    "demo": "an intent on its way from the control plane to Flux and back, live and checked",
    "init": "files to begin an operator with: a reconciler in Python, or a box",
    "logs": "what the operator, or the pods of an object, wrote",
    "manifests": "prints what is to be installed in a cluster",
    "plan": "prints what the operator would do, offline",
    "register": "exchanges a one-time token for this cluster's credential",
    "resume": "lets a suspended application go on",
    "retry": "asks for another try of a stalled application",
    "run": "the operator",
    "status": "how everything in a cluster stands, why, and what would help",
    "suspend": "pauses an application",
    "trace": "a recorded run in a browser, with a slider for its time",
    "uninstall": "takes the operator out of a cluster",
    "version": "versions of this command, the API server, and what is installed there",
    "versions": "in which versions objects are stored, and moving them",
}


def lacking(error: BaseException) -> str | None:
    """Return what to install if `error` says that a package is missing; None for others, and for our own modules."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    if error.name in LABORATORY:
        return (
            f"this command needs packages that the operator's image leaves out "
            f"({error.name} is missing); where they are wanted: {INSTALL_EMBEDDED}"
        )
    package = error.name.partition(".")[0]
    if package.startswith(("vworkspace_", "purekube")) or package in sys.stdlib_module_names:
        return None
    install = INSTALL_EMBEDDED if package in ONLY_EMBEDDED else INSTALL
    return f"the command line needs more packages ({package} is missing): {install}"


def answered(arguments: Sequence[str]) -> str | None:
    """Return the answers that need no package: the version, and a short help."""
    match tuple(arguments):
        case ("--version",):
            return VERSION
        case () | ("--help",) | ("-h",):
            return "\n".join(_help())
        case _:
            return None


def _help() -> Iterator[str]:
    yield from ("Usage: vworkspace-operator COMMAND", "", ABOUT, "")
    width = max(map(len, COMMANDS))
    yield from (f"  {name:<{width}}  {about}" for name, about in COMMANDS.items())
    yield from ("", f"Its packages are not installed: {INSTALL}")

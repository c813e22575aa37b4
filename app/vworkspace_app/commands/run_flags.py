"""The commands `run`, `box run` and `controllers run`, whose flags come from the table of settings."""

import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.arguments import Parameter
from vworkspace_app.settings import load
from vworkspace_app.settings.loading import CONFIG_VARIABLE, with_flags_of
from vworkspace_app.settings.loading import print_config as text_of
from vworkspace_app.settings.table import SETTINGS

NAMES: Final = (
    *("kubeconfig", "namespace", "workers", "listen", "metrics_names"),
    *(row.name for row in SETTINGS if row.name.startswith("leader_elect")),
    *("webhook_listen", "webhook_certificates", "grace_period", "log_format", "log_level"),
)
"""The settings of `run` that `box run` and `controllers run` have too."""

WatchNamespaces: TypeAlias = Annotated[
    list[str] | None,
    Parameter(help="Watch this namespace only, as roles that were printed with --namespace allow; repeatable."),
]


@with_flags_of(SETTINGS)
def run(
    *,
    config: Annotated[
        Path | None, Parameter(help=f"Settings file (YAML); flags and variables win over it. [env: {CONFIG_VARIABLE}]")
    ] = None,
    print_config: Annotated[
        bool, Parameter(help="Print the settings in force, and where each was said, and end.", negative="")
    ] = False,
    **flags: Any,
) -> None:
    """Run the operator: reconcile this cluster and pull jobs from the control plane.

    Each flag can be given as a variable (`--log-level`: `VWORKSPACE_LOG_LEVEL`) or in the settings file
    (`logLevel`) too. Example, outside a cluster; inside one, `vworkspace-operator run` alone takes the service
    account and the Secret `vworkspace-agent-credentials`:

        vworkspace-operator run --kubeconfig kc --cluster-id prod-1 \\
            --control-plane-url https://odoo.example.com --token-file token
    """
    loaded = load(flags, os.environ, config)
    if print_config:
        print(text_of(loaded), end="")
        return
    from vworkspace_app.commands.run import run_operator

    run_operator(loaded.settings)


@with_flags_of(row for row in SETTINGS if row.name in NAMES)
def run_boxes(
    *files: Annotated[str, Parameter(name="FILE", help="Files with a box each.")],
    crds: Annotated[list[Path] | None, Parameter(help="File or folder with further CRDs; repeatable.")] = None,
    applied: Annotated[
        bool, Parameter(help="Run the boxes that are applied to the cluster as objects.", negative="")
    ] = False,
    watch_namespace: WatchNamespaces = None,
    **flags: Any,
) -> None:
    """Run the operators of boxes, and nothing else. Inside a cluster the service account is used.

    `run --box FILE` runs them together with the operator's own kinds. Each flag can be given as a variable
    (`--log-level`: `VWORKSPACE_LOG_LEVEL`) too. Examples:

        vworkspace-operator box run webapp.yaml --kubeconfig kc
        vworkspace-operator box run --applied --kubeconfig kc
    """
    from purekube_run.boxes.load import load_boxes, runnable
    from vworkspace_app.commands.extensions import run_boxes as run_alone

    if not files and not applied:
        raise CommandError("give a FILE or --applied (see vworkspace-operator box run --help)", status=USAGE)
    boxes = runnable(load_boxes(files, crds or []))
    run_alone(load(flags, os.environ).settings, boxes, watch_namespace or (), applied=applied)


@with_flags_of(row for row in SETTINGS if row.name in NAMES)
def run_controllers(
    *names: Annotated[str, Parameter(name="NAME", help="Names of installed controllers, or module:attribute.")],
    watch_namespace: WatchNamespaces = None,
    **flags: Any,
) -> None:
    """Run controllers, and nothing else. Inside a cluster the service account is used.

    `run --controllers NAME` runs them together with the operator's own kinds. Each flag can be given as a variable
    (`--log-level`: `VWORKSPACE_LOG_LEVEL`) too. Examples:

        vworkspace-operator controllers run shops --kubeconfig kc
        vworkspace-operator controllers run shops.reconciler:shop --kubeconfig kc
    """
    from vworkspace_app.commands.controllers import run_by_name

    if not names:
        raise CommandError("give at least one NAME (see vworkspace-operator controllers list)", status=USAGE)
    run_by_name(load(flags, os.environ).settings, names, watch_namespace or ())

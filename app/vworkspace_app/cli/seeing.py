"""The commands that show what is in a cluster: `status`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vworkspace_app.process.yaml_documents import Format

Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Only this namespace; else all of them.")]
Kubeconfig = Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")]


def status(
    name: Annotated[str, Parameter(help="One object, NAME or KIND/NAME; else everything.")] = "",
    *,
    namespace: Namespace = "",
    watch: Annotated[bool, Parameter(name=("--watch", "-w"), help="Go on, and show each change.", negative="")] = False,
    output: Annotated[
        Literal["table", "yaml", "json"], Parameter(name=("--output", "-o"), help="table (and tree), yaml or json.")
    ] = "table",
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show how instances, Operations and the cluster stand, why, since when, and what would help.

    For one object: who asked for it, everything that was made of it, and its last events. It works without an operator
    that runs, and says so. Examples:

        vworkspace-operator status
        vworkspace-operator status -w
        vworkspace-operator status nextcloud-myteam
        vworkspace-operator status operation/nightly-backup -n org-myteam -o json
    """
    from vworkspace_app.commands.status import StatusOptions, run_status

    run_status(
        StatusOptions(
            name=name,
            namespace=namespace or None,
            watch=watch,
            form=None if output == "table" else Format(output),
            system_namespace=system_namespace,
            kubeconfig=kubeconfig,
        )
    )

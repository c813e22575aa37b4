"""The commands that look at a cluster: `status`, `check`, `diff`, `version`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from purekube_run.process.yaml_documents import Format

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
    box: Annotated[
        list[str] | None,
        Parameter(
            help="File with a box: every node of its objects is shown; repeatable.", negative="", consume_multiple=False
        ),
    ] = None,
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show how instances, Operations, the cluster and objects of boxes stand, why, since when, and what would help.

    For one object: who asked for it, everything that was made of it, and its last events; for one of a box with its
    file also the nodes that wait, and for what. It works without an operator that runs, and says so. Examples:

        vworkspace-operator status
        vworkspace-operator status -w
        vworkspace-operator status nextcloud-myteam
        vworkspace-operator status operation/nightly-backup -n org-myteam -o json
        vworkspace-operator status webapp/shop --box webapp.yaml
    """
    from vworkspace_app.commands.status import StatusOptions, run_status

    run_status(
        StatusOptions(
            name=name,
            namespace=namespace or None,
            watch=watch,
            form=None if output == "table" else Format(output),
            boxes=box or (),
            system_namespace=system_namespace,
            kubeconfig=kubeconfig,
        )
    )


def check(
    *,
    pre: Annotated[bool, Parameter(help="Before installing: your rights, and Flux.", negative="")] = False,
    no_agent: Annotated[bool, Parameter(help="It runs without a control plane.", negative="")] = False,
    velero_namespace: Annotated[str, Parameter(help="Velero's namespace, where it is installed.")] = "",
    release_account: Annotated[
        str, Parameter(help="The account that Flux installs releases as.")
    ] = "vworkspace-release",
    output: Annotated[
        Literal["text", "yaml", "json"], Parameter(name=("--output", "-o"), help="text, yaml or json.")
    ] = "text",
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Check whether everything is there that the operator needs, each point with what to do.

    The version of the API server, definitions, Flux and engines, the operator's rights in each open namespace against
    what `manifests` prints, accounts, credentials, the control plane, clocks. Exit status 1 where a point failed. It
    only reads, and asks the API server for reviews of rights. Examples:

        vworkspace-operator check --pre
        vworkspace-operator check
    """
    from vworkspace_app.commands.check import CheckOptions, run_check

    form = None if output == "text" else Format(output)
    options = CheckOptions(pre, not no_agent, velero_namespace, release_account, form, system_namespace, kubeconfig)
    return run_check(options)


def diff(
    *files: Annotated[str, Parameter(name="FILE", help="YAML files; `-` is standard input.")],
    offline: Annotated[
        Path | None, Parameter(help="A folder or file with what is observed, in the place of a cluster.")
    ] = None,
    box: Annotated[
        list[str] | None,
        Parameter(
            help="File with a box: objects of its kind are compared, too; repeatable.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what applying instances, Operations, jobs or objects of boxes would change: they and everything downstream.

    The operator's own decision on what is in the cluster now, tried as dry runs where you may. Nothing is written.
    Exit status 0: nothing would change; 1: something would; 2: something would be refused, or there was an error.
    Examples:

        vworkspace-operator diff instance.yaml
        kubectl get appinst nextcloud -o yaml | sed s/6.6.0/6.8.0/ | vworkspace-operator diff -
        vworkspace-operator diff instance.yaml --offline observed/
        vworkspace-operator diff shop.yaml --box webapp.yaml
    """
    from vworkspace_app.commands.diff import DiffOptions, run_diff

    return run_diff(DiffOptions(files, offline, kubeconfig, box or ()))


def version(
    *,
    client: Annotated[bool, Parameter(help="Only this command's own; no cluster is asked.", negative="")] = False,
    output: Annotated[
        Literal["text", "yaml", "json"], Parameter(name=("--output", "-o"), help="text, yaml or json.")
    ] = "text",
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Tell the versions of this command, the API server, the definitions that it serves, and the operator there.

    Exit status 1 where no API server could be asked. Examples:

        vworkspace-operator version
        vworkspace-operator version --client -o json
    """
    from vworkspace_app.commands.version import run_version

    form = None if output == "text" else Format(output)
    return run_version(form, kubeconfig, system_namespace, client=client)


def trace(
    file: Annotated[Path, Parameter(name="FILE", help="A recorded run: `box test --trace FILE` writes one.")],
    /,
    *,
    listen: Annotated[str, Parameter(help="HOST:PORT of the page; port 0 takes a free one.")] = "127.0.0.1:0",
    show: Annotated[bool, Parameter(name="--open", help="Open the page in a browser.", negative="")] = False,
) -> None:
    """Show a recorded run in a browser, with a slider for its time: how everything stood, and what was done.

    It serves until it is interrupted. Example:

        vworkspace-operator box test webapp.yaml --trace run.trace
        vworkspace-operator trace run.trace --open
    """
    from vworkspace_app.commands.trace import run_trace

    run_trace(file, listen=listen, show=show)

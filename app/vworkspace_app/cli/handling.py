"""The commands that act on one object in a cluster: `retry`, `suspend`, `resume`, `cancel`, `approve`, `logs`."""

from datetime import timedelta
from getpass import getuser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Instance = Annotated[str, Parameter(help="The ApplicationInstance: NAME, or appinst/NAME.")]
Run = Annotated[str, Parameter(help="The Operation: NAME, or op/NAME.")]
Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Its namespace; else all are searched.")]
Kubeconfig = Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")]
SystemNamespace = Annotated[str, Parameter(help="The operator's own namespace.")]


def retry(name: Instance, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Ask for another try of an application that Flux has given up.

    Example:

        vworkspace-operator retry nextcloud-myteam
    """
    _verb("retry", name, namespace, kubeconfig)


def suspend(name: Instance, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Pause an application: what runs goes on, nothing is upgraded or repaired until it is resumed.

    Example:

        vworkspace-operator suspend nextcloud-myteam
    """
    _verb("suspend", name, namespace, kubeconfig)


def resume(name: Instance, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Let a suspended application go on.

    Example:

        vworkspace-operator resume nextcloud-myteam
    """
    _verb("resume", name, namespace, kubeconfig)


def cancel(name: Run, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Ask an Operation to stop; what it made is deleted.

    Example:

        vworkspace-operator cancel nightly-backup -n org-myteam
    """
    _verb("cancel", name, namespace, kubeconfig)


def approve(
    name: Run,
    *,
    namespace: Namespace = "",
    by: Annotated[str, Parameter(help="Who agrees, as it is recorded; default: your user name.")] = "",
    minutes: Annotated[int, Parameter(help="How long the run may take to begin.")] = 60,
    system_namespace: SystemNamespace = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Agree to one run of an Operation, with exactly the parameters that it has now.

    It needs the right to read the operator's credentials: an account that has it may approve. Example:

        vworkspace-operator approve restore-monday -n org-myteam --by alice
    """
    from vworkspace_app.commands.handling import run_approve
    from vworkspace_app.handling.doing import ApprovalRequest

    valid = timedelta(minutes=max(1, minutes))
    run_approve(ApprovalRequest(name, namespace or None, by or getuser(), valid, system_namespace), kubeconfig)


def logs(
    name: Annotated[str, Parameter(help="An object, NAME or KIND/NAME; else the operator itself.")] = "",
    *,
    namespace: Namespace = "",
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), help="Go on.", negative="")] = False,
    tail: Annotated[int | None, Parameter(help="Only so many lines of each container.")] = None,
    system_namespace: SystemNamespace = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print what the operator wrote, or the pods of an Operation or an application.

    Pods of an application are found by the label app.kubernetes.io/instance, which charts set. Examples:

        vworkspace-operator logs -f --tail 100
        vworkspace-operator logs op/nightly-backup -n org-myteam
    """
    from vworkspace_app.commands.handling import run_logs
    from vworkspace_app.handling.pod_logs import LogRequest

    run_logs(LogRequest(name, namespace or None, follow, tail, system_namespace), kubeconfig)


def _verb(verb: str, name: str, namespace: str, kubeconfig: Path | None) -> None:
    from vworkspace_app.commands.handling import run_verb

    run_verb(verb, name, namespace or None, kubeconfig)

"""The commands that act on one object: `retry`, `suspend`, `resume`, `cancel`, `approve` and `logs`."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from getpass import getuser
from pathlib import Path
from typing import Annotated, Final

from purekube.apimachinery.manifest import Kind, Manifest
from purekube_http import KubeApiClient
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Kubeconfig, SystemNamespace
from vworkspace_app.commands.shared.session import at_cluster, now
from vworkspace_app.verbs import ApprovalRequest, LogRequest, approve_operation, execute_verb, write_logs
from vworkspace_core.overview import actions
from vworkspace_core.overview.actions import ActionOutcome, PlannedAction

VERBS: dict[str, Callable[[Kind, Manifest], PlannedAction | ActionOutcome]] = {
    "retry": lambda kind, manifest: actions.retry(kind, manifest, now()),
    "suspend": actions.suspend,
    "resume": actions.resume,
    "cancel": actions.cancel,
}
"""The function of each command, by the command's name. It returns the change to make, or why the command is refused."""


def _run(verb: str, name: str, namespace: str, kubeconfig: Path | None) -> None:
    """Carry out a command of `VERBS`, such as `retry`, on an object. Raises CommandError."""
    at_cluster(kubeconfig, partial(_do, verb, name, namespace or None))


async def _do(verb: str, name: str, namespace: str | None, api: KubeApiClient) -> None:
    print(await execute_verb(api, name, namespace, VERBS[verb]))


_LONGEST_MINUTES: Final = 366 * 24 * 60

Instance = Annotated[str, Parameter(help="The ApplicationInstance: NAME, or appinst/NAME.")]

Run = Annotated[str, Parameter(help="The Operation: NAME, or op/NAME.")]

Namespace = Annotated[str, Parameter(name=("--namespace", "-n"), help="Its namespace; else all are searched.")]


def retry(name: Instance, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Request a retry of an application that Flux has given up."""
    _run("retry", name, namespace, kubeconfig)


def suspend(name: Instance, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Suspend an application: it keeps running, but is not upgraded or repaired until it is resumed.

    Example:

        vworkspace-operator suspend nextcloud-myteam
    """
    _run("suspend", name, namespace, kubeconfig)


def resume(name: Instance, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Resume a suspended application.

    Example:

        vworkspace-operator resume nextcloud-myteam
    """
    _run("resume", name, namespace, kubeconfig)


def cancel(name: Run, *, namespace: Namespace = "", kubeconfig: Kubeconfig = None) -> None:
    """Cancel an Operation. The objects that it created, such as a Job, are deleted.

    Example:

        vworkspace-operator cancel nightly-backup -n org-myteam
    """
    _run("cancel", name, namespace, kubeconfig)


def approve(
    name: Run,
    *,
    namespace: Namespace = "",
    by: Annotated[str, Parameter(help="Who agrees, as it is recorded; default: your user name.")] = "",
    minutes: Annotated[int, Parameter(help="How long the run may take to begin.")] = 60,
    system_namespace: SystemNamespace = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Approve one run of an Operation, with exactly the parameters that it has now.

    The command reads the Secret with the operator's credentials, so every account that may read it may approve.
    Example:

        vworkspace-operator approve restore-monday -n org-myteam --by alice
    """
    if not 1 <= minutes <= _LONGEST_MINUTES:
        raise CommandError(f"--minutes {minutes}: between 1 and {_LONGEST_MINUTES}, which is a year", status=USAGE)
    valid = timedelta(minutes=minutes)
    request = ApprovalRequest(name, namespace or None, by or _user_name(), valid, system_namespace)

    async def agree(api: KubeApiClient) -> None:
        print(await approve_operation(api, request, now()))

    at_cluster(kubeconfig, agree)


def _user_name() -> str:
    """Return the user's name on this machine. Raises CommandError if it has none, as in many containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        raise CommandError("--by is missing: your account on this machine has no name", status=USAGE) from None


def logs(
    name: Annotated[str, Parameter(help="An object, NAME or KIND/NAME; else the operator itself.")] = "",
    *,
    namespace: Namespace = "",
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), help="Go on.", negative="")] = False,
    tail: Annotated[int | None, Parameter(help="Only so many lines of each container.")] = None,
    system_namespace: SystemNamespace = "vworkspace-system",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the logs of the operator, or the logs of the pods of an Operation or an application.

    Pods of an application are found by the label app.kubernetes.io/instance, which charts set. Examples:

        vworkspace-operator logs -f --tail 100
        vworkspace-operator logs op/nightly-backup -n org-myteam
    """
    request = LogRequest(name, namespace or None, follow, tail, system_namespace)
    at_cluster(kubeconfig, lambda api: write_logs(api, request, partial(print, flush=follow)))

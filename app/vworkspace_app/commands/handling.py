"""The verbs: each connects, changes one object, and prints what it did."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from purekube.apimachinery.manifest import Kind, Manifest
from purekube_http import KubeApiClient
from vworkspace_app.commands.session import at_cluster, now
from vworkspace_app.handling.doing import ApprovalRequest, act, approve_one
from vworkspace_app.handling.pod_logs import LogRequest, tell
from vworkspace_core.overview import acts
from vworkspace_core.overview.acts import Act, Refusal


def _retry(kind: Kind, manifest: Manifest) -> Act | Refusal:
    return acts.retry(kind, manifest, now())


VERBS: dict[str, Callable[[Kind, Manifest], Act | Refusal]] = {
    "retry": _retry,
    "suspend": acts.suspend,
    "resume": acts.resume,
    "cancel": acts.cancel,
}
"""The verbs by their names on the command line."""


def run_verb(verb: str, name: str, namespace: str | None, kubeconfig: Path | None) -> None:
    """Run one of `VERBS` on an object. Raises CommandError."""
    at_cluster(kubeconfig, partial(_do, verb, name, namespace))


async def _do(verb: str, name: str, namespace: str | None, api: KubeApiClient) -> None:
    print(await act(api, name, namespace, VERBS[verb]))


def run_approve(request: ApprovalRequest, kubeconfig: Path | None) -> None:
    """Approve one Operation. Raises CommandError."""

    async def approve(api: KubeApiClient) -> None:
        print(await approve_one(api, request, now()))

    at_cluster(kubeconfig, approve)


def run_logs(request: LogRequest, kubeconfig: Path | None) -> None:
    """Print logs. Raises CommandError."""
    at_cluster(kubeconfig, lambda api: tell(api, request, partial(print, flush=request.follow)))

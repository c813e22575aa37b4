"""The verbs: each connects, does one act, and tells it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from vworkspace_app.handling.doing import ApprovalRequest, act, approve_one
from vworkspace_app.handling.pod_logs import LogRequest, tell
from vworkspace_app.process.errors import CommandError
from vworkspace_core.apimachinery.errors import OperatorError
from vworkspace_core.apimachinery.manifest import Kind, Manifest
from vworkspace_core.overview import acts
from vworkspace_core.overview.acts import Act, Refusal
from vworkspace_kube import KubeApiClient, load_config


def _retry(kind: Kind, manifest: Manifest) -> Act | Refusal:
    return acts.retry(kind, manifest, datetime.now(UTC))


VERBS: dict[str, Callable[[Kind, Manifest], Act | Refusal]] = {
    "retry": _retry,
    "suspend": acts.suspend,
    "resume": acts.resume,
    "cancel": acts.cancel,
}
"""By their names on the command line."""


def run_verb(verb: str, name: str, namespace: str | None, kubeconfig: Path | None) -> None:
    """One of `VERBS`. Raises CommandError."""
    _connected(kubeconfig, partial(_do, verb, name, namespace))


async def _do(verb: str, name: str, namespace: str | None, api: KubeApiClient) -> None:
    print(await act(api, name, namespace, VERBS[verb]))


def run_approve(request: ApprovalRequest, kubeconfig: Path | None) -> None:
    """Approve one Operation. Raises CommandError."""

    async def approve(api: KubeApiClient) -> None:
        print(await approve_one(api, request, datetime.now(UTC)))

    _connected(kubeconfig, approve)


def run_logs(request: LogRequest, kubeconfig: Path | None) -> None:
    """Print logs. Raises CommandError."""
    _connected(kubeconfig, lambda api: tell(api, request, partial(print, flush=request.follow)))


def _connected(kubeconfig: Path | None, work: Callable[[KubeApiClient], Awaitable[None]]) -> None:
    async def main(config: Any) -> None:
        async with KubeApiClient(config) as api:
            await work(api)

    try:
        anyio.run(main, load_config(kubeconfig))
    except OperatorError as error:
        raise CommandError(error.message) from error

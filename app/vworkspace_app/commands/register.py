"""The command `register`, which exchanges a one-time token for the cluster's credential and stores the credential."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import anyio

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube_http import load_config
from purekube_run.process.command_line import USAGE, CommandError, read_text
from purekube_run.process.machine import SystemClock
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.session import client_of
from vworkspace_app.credentials.registration import Registered, register, store_credential
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.credentials.secret import secret_ref
from vworkspace_odoo import ControlPlaneEndpoint, ReloadingControlPlane, cleartext_problem

_URL = re.compile(r"https?://[^/?#\s]+")


def register_cluster(
    *,
    control_plane_url: Annotated[str, Parameter(help="Base URL of the control plane.")],
    registration_token_file: Annotated[Path, Parameter(help="File with the one-time registration token.")],
    cluster_id: Annotated[str, Parameter(help="Id of this cluster; default: the one the token is for.")] = "",
    display_name: Annotated[str, Parameter(help="What the control plane is to call this cluster.")] = "",
    namespace: Annotated[
        str, Parameter(name=("--system-namespace", "--namespace"), help="The operator's own namespace.")
    ] = "vworkspace-system",
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")] = None,
    ca_file: Annotated[
        Path | None, Parameter(help="PEM file with the authority to trust at the control plane.")
    ] = None,
    print_secret: Annotated[
        bool, Parameter(name="--print", help="Print the Secret as YAML instead of writing it.", negative="")
    ] = False,
    allow_http_control_plane: Annotated[
        bool, Parameter(help="Let the token go to another machine over plain http://.", negative="")
    ] = False,
) -> None:
    """Exchange a one-time token for this cluster's credential, and write the Secret `vworkspace-agent-credentials`.

    May be repeated with the same token until the operator has used the credential. Examples:

        vworkspace-operator register --control-plane-url https://odoo.example.com --registration-token-file token
        vworkspace-operator register --control-plane-url https://odoo.example.com \
            --registration-token-file token --print | kubectl apply --server-side -f -
    """
    if not _URL.match(control_plane_url):
        raise CommandError(
            f"--control-plane-url {control_plane_url}: not a URL such as https://odoo.example.com", status=USAGE
        )
    if problem := cleartext_problem(control_plane_url, allow_http=allow_http_control_plane):
        raise CommandError(f"--control-plane-url {problem}", status=USAGE)
    if cluster_id and not is_label_value(cluster_id):
        raise CommandError(f"--cluster-id {cluster_id}: not the value of a label: {LABEL_RULE}", status=USAGE)
    token = read_text("--registration-token-file", registration_token_file)
    ca = read_text("--ca-file", ca_file) if ca_file else ""
    endpoint = ControlPlaneEndpoint(control_plane_url, "", ca=ca, allow_http=allow_http_control_plane)

    async def ask(control: ControlPlane) -> Registered:
        return await register(control, SystemClock(), token, cluster_id=cluster_id, display_name=display_name)

    anyio.run(_print if print_secret else partial(_store, kubeconfig), endpoint, ask, namespace)


Ask: TypeAlias = Callable[[ControlPlane], Awaitable[Registered]]


async def _print(endpoint: ControlPlaneEndpoint, ask: Ask, namespace: str) -> None:
    async with ReloadingControlPlane(lambda: endpoint) as control:
        new = await ask(control)
    print(dump([new.secret(namespace, endpoint.url, endpoint.ca)], Format.YAML), end="")


async def _store(kubeconfig: Path | None, endpoint: ControlPlaneEndpoint, ask: Ask, namespace: str) -> None:
    try:
        config = load_config(kubeconfig)
    except OperatorError as error:
        raise CommandError(error.message) from error
    async with ReloadingControlPlane(lambda: endpoint) as control, client_of(config) as api:
        new = await ask(control)
        await store_credential(api, control, namespace, endpoint.url, new, endpoint.ca)
    print(f"{secret_ref(namespace)} holds the credential of cluster {new.cluster_id}")

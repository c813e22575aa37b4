"""`register`: exchange a one-time token for the cluster's credential, and store it."""

import re
from pathlib import Path

import anyio
import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube_http import KubeApiClient, load_config
from purekube_run.process.clock import SystemClock
from purekube_run.process.errors import USAGE, CommandError
from purekube_run.process.files import read_text
from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.credentials.registration import Registered, register, store_credential
from vworkspace_core.credentials.secret import secret_ref
from vworkspace_odoo import ControlPlaneEndpoint, ReloadingControlPlane, cleartext_problem

_URL = re.compile(r"https?://[^/?#\s]+")


@attrs.frozen
class RegisterOptions:
    """The options of `register`."""

    control_plane_url: str
    registration_token_file: Path
    cluster_id: str
    display_name: str
    namespace: str
    kubeconfig: Path | None
    ca_file: Path | None
    print_secret: bool
    allow_http: bool = False


def run_register(options: RegisterOptions) -> None:
    """Register, then write the Secret or print it. Raises CommandError."""
    if not _URL.match(options.control_plane_url):
        raise CommandError(
            f"--control-plane-url {options.control_plane_url}: not a URL such as https://odoo.example.com", status=USAGE
        )
    if problem := cleartext_problem(options.control_plane_url, allow_http=options.allow_http):
        raise CommandError(f"--control-plane-url {problem}", status=USAGE)
    if options.cluster_id and not is_label_value(options.cluster_id):
        raise CommandError(f"--cluster-id {options.cluster_id}: not the value of a label: {LABEL_RULE}", status=USAGE)
    token = read_text("--registration-token-file", options.registration_token_file)
    ca = read_text("--ca-file", options.ca_file) if options.ca_file else ""
    anyio.run(_run, options, token, ca)


async def _run(options: RegisterOptions, token: str, ca: str) -> None:
    endpoint = ControlPlaneEndpoint(options.control_plane_url, "", ca=ca, allow_http=options.allow_http)
    async with ReloadingControlPlane(lambda: endpoint) as control:

        async def ask() -> Registered:
            names = {"cluster_id": options.cluster_id, "display_name": options.display_name}
            return await register(control, SystemClock(), token, **names)

        if options.print_secret:
            new = await ask()
            print(dump([new.secret(options.namespace, options.control_plane_url, ca)], Format.YAML), end="")
            return
        try:
            config = load_config(options.kubeconfig)
        except OperatorError as error:
            raise CommandError(error.message) from error
        async with KubeApiClient(config) as api:
            new = await ask()
            await store_credential(api, control, options.namespace, options.control_plane_url, new, ca)
        print(f"{secret_ref(options.namespace)} holds the credential of cluster {new.cluster_id}")

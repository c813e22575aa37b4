"""`control-plane`: run the embedded control plane as a process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from starlette.routing import BaseRoute, Mount

from purekube_run.process.addresses import parse_address
from purekube_run.process.errors import USAGE, CommandError
from purekube_run.process.signals import run_until_signal
from vworkspace_app.commands.parameters import Listen
from vworkspace_app.page.access import PasswordAccess
from vworkspace_app.page.jobs import JobsPage
from vworkspace_app.page.site import Site
from vworkspace_fake.controlplane.serve import serve
from vworkspace_fake.controlplane.server import ControlPlaneServer


def jobs_page(server: ControlPlaneServer, path: str = "/") -> JobsPage:
    """Return the page of the jobs and events of `server`. Must be called on the server's event loop."""

    def events() -> list[Any]:
        return [event for cluster in sorted(server.tokens.clusters()) for event in server.events_of(cluster)]

    return JobsPage(lambda: (job.as_json() for job in server.jobs), events, path)


def _page(server: ControlPlaneServer, admin_token: str) -> Sequence[BaseRoute]:
    site = Site(jobs_page(server), "vworkspace control plane", PasswordAccess(admin_token))
    return [Mount("/page", routes=site.routes())]


def _instructions(url: str, cluster_id: str) -> str:
    """Return the address, and how to begin; the reader fills in the tokens."""
    return f"""ready {url}

Offer a job (here: delete an application; kinds and payloads: docs/protocol.md), and see what came of it:

  curl -H "Authorization: Bearer $VWORKSPACE_ADMIN_TOKEN" {url}/api/admin/jobs -d '{{
    "clusterId": "{cluster_id}", "kind": "delete", "idempotencyKey": "ApplicationInstance/org-myteam/podinfo@1",
    "payload": {{"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance",
                "namespace": "org-myteam", "name": "podinfo"}}}}'
  curl -H "Authorization: Bearer $VWORKSPACE_ADMIN_TOKEN" {url}/api/admin/jobs

Watch it in a browser (the password is the admin token): {url}/page/
"""


def _key(option: str, file: Path | None) -> Any:
    """Return the key in `file`; None without a file."""
    from vworkspace_fake.controlplane.sealing import key_in

    if file is None:
        return None
    try:
        return key_in(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{option} {file}: cannot be read: {error.strerror or 'it is no file'}") from error
    except ValueError:
        raise CommandError(f"{option} {file}: is no elliptic-curve key in PEM") from None


def control_plane(
    *,
    cluster_id: Annotated[str, Parameter(help="The cluster whose agent may connect.")],
    token: Annotated[str, Parameter(help="The agent's bearer token.", env_var="VWORKSPACE_TOKEN")],
    admin_token: Annotated[str, Parameter(help="Token of the admin API.", env_var="VWORKSPACE_ADMIN_TOKEN")],
    listen: Listen = "127.0.0.1:0",
    signing_key: Annotated[
        Path | None, Parameter(help="PEM file with a private Ed25519 or P-256 key: sign every job.")
    ] = None,
    encryption_key: Annotated[
        Path | None, Parameter(help="PEM file with the cluster's public key: encrypt every payload.")
    ] = None,
) -> None:
    """Serve the embedded control plane; prints `ready <url>` when it serves.

    Example:

        vworkspace-operator control-plane --listen 127.0.0.1:8069 --cluster-id prod-1 --token T --admin-token A
    """
    host, port = parse_address(listen)
    if token == admin_token:
        raise CommandError("--token and --admin-token are the same: the agent could offer jobs to itself", status=USAGE)
    server = ControlPlaneServer()
    if signing_key is not None or encryption_key is not None:
        from vworkspace_fake.controlplane.sealing import Sealing

        server.seal = Sealing(_key("--signing-key", signing_key), _key("--encryption-key", encryption_key))
    server.tokens.add(cluster_id, token)

    async def work() -> None:
        await serve(
            server,
            host,
            port,
            admin_token=admin_token,
            ready=lambda url: print(_instructions(url, cluster_id), flush=True),
            further=_page(server, admin_token),
        )

    run_until_signal(work, listen=listen)

"""The commands `cluster` and `control-plane`, which run the embedded API server and the embedded control plane.

The control plane is the server that offers jobs to the operator. The command `cluster` can also simulate controllers
such as Flux.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from starlette.routing import BaseRoute, Mount

from kubelab.cluster.access import callers
from kubelab.cluster.definitions import KubelabError, read_definitions
from kubelab.command import HELP, ServeOptions, serve_until_signal
from purekube.apimachinery.manifest import Manifest
from purekube_run.process.command_line import FAILURE, USAGE, CommandError, cannot_listen, parse_address
from purekube_run.process.signals import run_until_signal
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Listen
from vworkspace_app.page.access import PasswordAccess
from vworkspace_app.page.jobs_page import JobsPage
from vworkspace_app.page.site import Site
from vworkspace_fake.controlplane.http import serve
from vworkspace_fake.controlplane.server import ControlPlaneServer


def _definitions(paths: Sequence[Path], *, bare: bool) -> Iterator[Manifest]:
    """Yield the CRDs in the files. Unless `bare`, also yield this project's own CRDs that the files lack."""
    manifests = read_definitions(paths)
    yield from manifests
    if not bare:
        from vworkspace_core.api.crd import crd_manifests

        present = {crd["metadata"]["name"] for crd in manifests}
        yield from (crd for crd in crd_manifests() if crd["metadata"]["name"] not in present)


def _help(flag: str) -> str:
    """Return the help text that `kubelab serve` has for the flag, as a sentence like the other texts of this command
    line.
    """
    return f"{HELP[flag][0].upper()}{HELP[flag][1:]}."


def serve_cluster(
    *,
    listen: Listen = "127.0.0.1:0",
    kubeconfig_out: Annotated[Path | None, Parameter(help=_help("kubeconfig_out"))] = None,
    crds: Annotated[list[Path] | None, Parameter(help=_help("crds"))] = None,
    bare: Annotated[bool, Parameter(help="Without the CRDs of this project.", negative="")] = False,
    simulate: Annotated[str, Parameter(help=_help("simulate"))] = "",
    behaviour: Annotated[Path | None, Parameter(help=_help("behaviour"))] = None,
    tls: Annotated[bool, Parameter(help=_help("tls"), negative="")] = False,
    token: Annotated[str, Parameter(help=_help("token"), env_var="VWORKSPACE_CLUSTER_TOKEN")] = "",
    tokens: Annotated[Path | None, Parameter(help=_help("tokens"))] = None,
    rbac: Annotated[bool, Parameter(help=_help("rbac"), negative="")] = False,
    service_accounts: Annotated[bool, Parameter(help=_help("service_accounts"), negative="")] = False,
    audit_log: Annotated[Path | None, Parameter(help=_help("audit_log"))] = None,
) -> None:
    """Serve the embedded Kubernetes API server; prints `ready <url>` when it serves.

    Without a token everybody who reaches it is its administrator, so it listens on loopback only. With tokens the
    kubeconfig holds a context for each user; the first is current. Examples:

        vworkspace-operator cluster --kubeconfig-out kc --simulate flux
        vworkspace-operator cluster --kubeconfig-out kc --simulate velero,job --crds more-crds
        vworkspace-operator cluster --listen 127.0.0.1:8001 --bare
        vworkspace-operator cluster --kubeconfig-out kc --tls --token T --tokens users.csv --rbac --audit-log log
    """
    host, port = parse_address(listen)
    try:
        known, definitions = callers(token, tokens), list(_definitions(crds or [], bare=bare))
        serve_until_signal(
            ServeOptions(
                host=host,
                port=port,
                kubeconfig_out=kubeconfig_out,
                crds=definitions,
                simulate=simulate,
                behaviour=behaviour,
                tls=tls,
                tokens=known,
                rbac=rbac,
                audit_log=audit_log,
                service_accounts=service_accounts,
            )
        )
    except KubelabError as error:
        raise CommandError(error.as_flag, status=USAGE if error.is_misuse else FAILURE) from error
    except OSError as error:
        raise cannot_listen(error, listen) from error


def jobs_page(server: ControlPlaneServer, path: str = "/") -> JobsPage:
    """Return the web page that shows the jobs and events of the control plane `server`.

    `path` is the URL path at which the page is served. The page must be used on the server's event loop.
    """

    def events() -> list[Any]:
        return [event for cluster in sorted(server.tokens.clusters()) for event in server.events_of(cluster)]

    return JobsPage(lambda: (job.as_json() for job in server.jobs), events, path)


def _page(server: ControlPlaneServer, admin_token: str) -> Sequence[BaseRoute]:
    site = Site(jobs_page(server), "vworkspace control plane", PasswordAccess(admin_token))
    return [Mount("/page", routes=site.routes())]


def _instructions(url: str, cluster_id: str) -> str:
    """Return the text that is printed at the start: the control plane's address, and commands to try."""
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
    """Return the key in `file`, or None if no file is given. Raises CommandError with the name of the `option`."""
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
    if not (token and admin_token):
        raise CommandError("--token and --admin-token may not be empty: callers need none then", status=USAGE)
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

"""`cluster`: run the embedded API server as a process, with simulated downstream controllers if requested."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kubelab.cluster.access import callers
from kubelab.cluster.definitions import read_definitions
from kubelab.cluster.errors import KubelabError
from kubelab.command import ServeOptions, serve_until_signal
from purekube.apimachinery.manifest import Manifest
from purekube_run.process.addresses import cannot_listen, parse_address
from purekube_run.process.errors import FAILURE, USAGE, CommandError
from vworkspace_app.commands.parameters import Listen


def _definitions(paths: Sequence[Path], *, bare: bool) -> Iterator[Manifest]:
    """Yield the CRDs of the files, and this project's CRDs that the files lack, unless the server is to be bare."""
    manifests = read_definitions(paths)
    yield from manifests
    if not bare:
        from vworkspace_core.api.crd import crd_manifests

        present = {crd["metadata"]["name"] for crd in manifests}
        yield from (crd for crd in crd_manifests() if crd["metadata"]["name"] not in present)


def serve_cluster(
    *,
    listen: Listen = "127.0.0.1:0",
    kubeconfig_out: Annotated[Path | None, Parameter(help="Write a kubeconfig for it there.")] = None,
    crds: Annotated[
        list[Path] | None, Parameter(help="Folder or file with further CRDs to install; repeatable.", negative="")
    ] = None,
    bare: Annotated[bool, Parameter(help="Without the CRDs of this project.", negative="")] = False,
    simulate: Annotated[
        str,
        Parameter(
            help="Downstream controllers to simulate, by comma: flux, velero, workflow, job, volsync, snapshot,"
            " workloads; or all."
        ),
    ] = "",
    tls: Annotated[
        bool, Parameter(help="Serve TLS with a new authority, which the kubeconfig carries.", negative="")
    ] = False,
    token: Annotated[
        str,
        Parameter(help="Bearer token of the administrator; other callers get 401.", env_var="VWORKSPACE_CLUSTER_TOKEN"),
    ] = "",
    tokens: Annotated[
        Path | None, Parameter(help='CSV file with further callers: token,user,uid,"group,group".')
    ] = None,
    rbac: Annotated[
        bool, Parameter(help="Let roles and bindings decide what callers may do; needs tokens.", negative="")
    ] = False,
    audit_log: Annotated[Path | None, Parameter(help="Append every request to this file, as JSON lines.")] = None,
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
        serve_until_signal(
            ServeOptions(
                host=host,
                port=port,
                kubeconfig_out=kubeconfig_out,
                crds=list(_definitions(crds or [], bare=bare)),
                simulate=simulate,
                tls=tls,
                tokens=callers(token, tokens),
                rbac=rbac,
                audit_log=audit_log,
            )
        )
    except KubelabError as error:
        raise CommandError(error.as_flag, status=USAGE if error.is_misuse else FAILURE) from error
    except OSError as error:
        raise cannot_listen(error, listen) from error

"""The commands that run embedded servers: `cluster`, `control-plane`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Listen = Annotated[str, Parameter(help="HOST:PORT; port 0 takes a free one.")]


def cluster(
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
    from vworkspace_app.commands.cluster import ClusterOptions, run_cluster

    run_cluster(
        ClusterOptions(
            listen=listen,
            kubeconfig_out=kubeconfig_out,
            crds=crds or [],
            simulate=simulate,
            tls=tls,
            token=token,
            tokens=tokens,
            rbac=rbac,
            audit_log=audit_log,
            bare=bare,
        )
    )


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
    from vworkspace_app.commands.control_plane import run_control_plane

    run_control_plane(
        listen=listen,
        cluster_id=cluster_id,
        token=token,
        admin_token=admin_token,
        signing_key=signing_key,
        encryption_key=encryption_key,
    )

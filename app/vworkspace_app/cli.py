"""The commands and their options (`design.md`, Command line). Each does its work in `vworkspace_app.commands`.

Imports of the commands are local, and `run` with its many flags is a module of its own: `manifests` must not wait for
a web server to load.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vworkspace_app import VERSION
from vworkspace_app.documents import Format

__all__ = ["app"]

RUN = """Run the operator: reconcile this cluster and pull jobs from the control plane.

Each flag can be given as a variable (`--log-level`: `VWORKSPACE_LOG_LEVEL`) or in the settings file
(`logLevel`) too. Example, outside a cluster; inside one, `vworkspace-operator run` alone takes the service
account and the Secret `vworkspace-agent-credentials`:

    vworkspace-operator run --kubeconfig kc --cluster-id prod-1 \\
        --control-plane-url https://odoo.example.com --token-file token
"""

app = App(
    name="vworkspace-operator",
    help="Odoo's intent becomes running Flux releases: the operator, its embedded servers, and its offline tools.",
    version=VERSION,
    help_format="markdown",
)

Listen = Annotated[str, Parameter(help="HOST:PORT; port 0 takes a free one.")]
Templates = Annotated[
    list[str] | None,
    Parameter(
        name="--templates",
        help="YAML file with templates of Operations; repeatable.",
        negative="",
        consume_multiple=False,
    ),
]


app.command("vworkspace_app.cli_run:run", name="run", help=RUN)


@app.command
def register(
    *,
    control_plane_url: Annotated[str, Parameter(help="Base URL of the control plane.")],
    registration_token_file: Annotated[Path, Parameter(help="File with the one-time registration token.")],
    cluster_id: Annotated[str, Parameter(help="Id of this cluster; default: the one the token is for.")] = "",
    display_name: Annotated[str, Parameter(help="What the control plane is to call this cluster.")] = "",
    namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")] = None,
    ca_file: Annotated[
        Path | None, Parameter(help="PEM file with the authority to trust at the control plane.")
    ] = None,
    print_secret: Annotated[
        bool, Parameter(name="--print", help="Print the Secret as YAML instead of writing it.", negative="")
    ] = False,
) -> None:
    """Exchange a one-time token for this cluster's credential, and write the Secret `vworkspace-agent-credentials`.

    May be repeated with the same token until the operator has used the credential. Examples:

        vworkspace-operator register --control-plane-url https://odoo.example.com --registration-token-file token
        vworkspace-operator register --control-plane-url https://odoo.example.com \
            --registration-token-file token --print | kubectl apply --server-side -f -
    """
    from vworkspace_app.commands.register import RegisterOptions, run_register

    run_register(
        RegisterOptions(
            control_plane_url=control_plane_url,
            registration_token_file=registration_token_file,
            cluster_id=cluster_id,
            display_name=display_name,
            namespace=namespace,
            kubeconfig=kubeconfig,
            ca_file=ca_file,
            print_secret=print_secret,
        )
    )


@app.command
def demo(
    *,
    keep: Annotated[bool, Parameter(help="Leave both servers up and print a kubeconfig path.", negative="")] = False,
    plain: Annotated[bool, Parameter(help="Plain lines, also on a terminal.", negative="")] = False,
    payloads: Annotated[bool, Parameter(help="Show what was sent and stored.")] = True,
    operations: Annotated[
        bool, Parameter(help="Day-2 operations instead: every engine, and what can go wrong.", negative="")
    ] = False,
) -> int:
    """Watch an intent travel from the control plane through the operator to Flux and back, over real HTTP.

    Exit status 0 says that everything shown was also checked. Examples:

        vworkspace-operator demo
        vworkspace-operator demo --operations
        vworkspace-operator demo --keep
    """
    from vworkspace_app.commands.demo import run_demo

    return run_demo(keep=keep, plain=plain, payloads=payloads, operations=operations)


@app.command
def plan(
    *files: Annotated[str, Parameter(name="FILE", help="YAML files; `-` is standard input.")],
    wanted: Annotated[
        str, Parameter(name="--for", help="The object to plan, NAME or Kind/NAME, where the files hold several.")
    ] = "",
    cluster_id: Annotated[str, Parameter(help="This cluster's id; default: the object's label.")] = "",
    now: Annotated[str, Parameter(help="The time to decide at (RFC 3339); default: the present.")] = "",
    missing: Annotated[
        list[str] | None,
        Parameter(help="A kind whose CRD is not installed, such as HelmRelease; repeatable.", negative=""),
    ] = None,
    templates: Templates = None,
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
) -> None:
    """Print what the operator would do for one object, given what is observed; nothing is contacted.

    The files hold one ApplicationInstance, or one Operation with its target, and any number of observed objects
    (other Operations, downstream objects, Namespaces), in any order. Examples:

        vworkspace-operator plan instance.yaml
        vworkspace-operator plan instance.yaml observed.yaml -o json
        vworkspace-operator plan backup.yaml instance.yaml observed.yaml
        vworkspace-operator plan everything.yaml --for Operation/nightly-backup
        vworkspace-operator plan - < everything.yaml
    """
    from vworkspace_app.commands.plan import PlanRequest
    from vworkspace_app.commands.plan import plan as decide

    request = PlanRequest(files, wanted, cluster_id, now, missing or (), templates or (), output)
    print(decide(request), end="")


@app.command
def cluster(
    *,
    listen: Listen = "127.0.0.1:0",
    kubeconfig_out: Annotated[Path | None, Parameter(help="Write a kubeconfig for it there.")] = None,
    crds: Annotated[
        list[Path] | None, Parameter(help="Folder or file with CRDs to install; repeatable.", negative="")
    ] = None,
    simulate: Annotated[
        str,
        Parameter(
            help="Downstream controllers to simulate, by comma: flux, velero, workflow, job, volsync, snapshot; or all."
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

    With tokens the kubeconfig holds a context for each user; the first is current. Examples:

        vworkspace-operator cluster --kubeconfig-out /tmp/kc --crds manifests/crds --simulate flux
        vworkspace-operator cluster --kubeconfig-out /tmp/kc --simulate velero,job
        vworkspace-operator cluster --listen 127.0.0.1:8001
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
        )
    )


@app.command
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


@app.command
def manifests(
    *,
    crds_only: Annotated[bool, Parameter(help="Only the CustomResourceDefinitions.", negative="")] = False,
    namespace: Annotated[
        list[str] | None,
        Parameter(
            help="Only the Role and RoleBinding that the operator needs in this gated namespace; repeatable.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    velero_namespace: Annotated[
        str, Parameter(help="Velero's namespace, where it is installed: grant the operator its Backups and Restores.")
    ] = "",
    image: Annotated[str, Parameter(help="Image of the operator.")] = f"vworkspace-operator:{VERSION}",
    webhook_ca: Annotated[
        Path | None,
        Parameter(
            help="Configure the admission webhooks; their certificate, in the Secret vworkspace-operator-webhook-tls, "
            "is signed by the authority in this PEM file."
        ),
    ] = None,
    cert_manager: Annotated[
        bool, Parameter(help="Configure the admission webhooks, with a certificate by cert-manager.", negative="")
    ] = False,
    service_monitor: Annotated[bool, Parameter(help="Add a ServiceMonitor for Prometheus.", negative="")] = False,
    owner_reference_protection: Annotated[
        bool,
        Parameter(
            help="The cluster runs the admission plugin OwnerReferencesPermissionEnforcement: grant what it asks for.",
            negative="",
        ),
    ] = False,
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
) -> None:
    """Print what is to be installed, as YAML for `kubectl apply -f -`.

    Without `--webhook-ca` or `--cert-manager` no admission webhooks: the reconciler applies the same rules. Examples:

        vworkspace-operator manifests --image registry.example.com/operator:1 | kubectl apply --server-side -f -
        vworkspace-operator manifests --namespace org-myteam | kubectl apply --server-side -f -
        vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -
    """
    from vworkspace_app.commands.manifests import read_authority, render_manifests
    from vworkspace_app.install import InstallOptions

    options = InstallOptions(
        namespace=system_namespace,
        velero_namespace=velero_namespace,
        image=image,
        webhook_ca=b"" if webhook_ca is None else read_authority(webhook_ca),
        cert_manager=cert_manager,
        service_monitor=service_monitor,
        owner_reference_protection=owner_reference_protection,
    )
    print(render_manifests(options, output, crds_only=crds_only, namespaces=namespace or ()), end="")


conformance = App(name="conformance", help="Examine a server that somebody else runs; needs pytest.")
app.command(conformance)


@conformance.command(name="control-plane")
def conformance_control_plane(
    *,
    url: Annotated[str, Parameter(help="Base URL of the control plane.")],
    cluster_id: Annotated[
        str, Parameter(help="A cluster it knows, for checks only: events and jobs are made up.")
    ] = "",
    token_file: Annotated[Path | None, Parameter(help="File with that cluster's token.")] = None,
    admin_token_file: Annotated[
        Path | None, Parameter(help="File with the token of the admin API; each check gets a cluster of its own.")
    ] = None,
    enqueue_command: Annotated[
        str, Parameter(help="Shell command that reads a job (JSON) from standard input, offers it and prints its id.")
    ] = "",
    ca_file: Annotated[Path | None, Parameter(help="PEM file of the authority that signed its certificate.")] = None,
    only: Annotated[str, Parameter(help="Run the checks whose names match, as pytest's -k.")] = "",
) -> int:
    """Check that a control plane does for the agent what the protocol promises (docs/protocol.md).

    A check that needs more than was given is skipped, and says what it would have needed. Exit status 0 says that
    none failed. Examples:

        vworkspace-operator conformance control-plane --url https://odoo.example.com --cluster-id try --token-file t
        vworkspace-operator conformance control-plane --url http://127.0.0.1:8069 --admin-token-file admin
    """
    from vworkspace_app.commands.conformance import examine_control_plane

    return examine_control_plane(
        url=url,
        cluster_id=cluster_id,
        token_file=token_file,
        admin_token_file=admin_token_file,
        enqueue_command=enqueue_command,
        ca_file=ca_file,
        only=only,
    )

"""The commands about controllers in Python: reconcilers and watchers of installed packages."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from purekube_run.process.yaml_documents import Format

controllers = App(name="controllers", help="Reconcilers and watchers in Python: list, run, and print what they need.")

Names = Annotated[list[str], Parameter(name="NAME", help="Names of installed controllers, or module:attribute.")]
Output = Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")]

Tenants = Annotated[
    list[str] | None,
    Parameter(
        name="--namespace",
        help="Only where objects are made in this namespace: a Role there; repeatable. Without it, everywhere.",
        negative="",
        consume_multiple=False,
    ),
]
OwnNamespace = Annotated[str, Parameter(help="The namespace of the process that runs them.")]
Former = Annotated[
    list[str] | None,
    Parameter(
        help="Instead: a role for pruning this kind, which is not made any more; as Job/jobs.v1.batch, repeatable.",
        negative="",
        consume_multiple=False,
    ),
]

RUN = """Run controllers, and nothing else. Inside a cluster the service account is taken.

Beside the operator's own kinds they are run by `run --controllers NAME`. Each flag can be given as a variable
(`--log-level`: `VWORKSPACE_LOG_LEVEL`) too. Examples:

    vworkspace-operator controllers run shops --kubeconfig kc
    vworkspace-operator controllers run shops.reconciler:shop --kubeconfig kc
"""

controllers.command("vworkspace_app.cli.controllers_run:run", name="run", help=RUN)


@controllers.command(name="list")
def list_controllers() -> None:
    """Say which controllers installed packages offer, by the entry point `vworkspace.controllers`.

    Example:

        vworkspace-operator controllers list
    """
    from vworkspace_app.commands.controllers import listed

    print(listed(), end="")


@controllers.command
def crds(
    names: Names,
    /,
    *,
    system_namespace: Annotated[str, Parameter(help="The namespace of the process that runs them.")] = (
        "vworkspace-system"
    ),
    webhook_ca: Annotated[
        Path | None,
        Parameter(help="For kinds with several versions: PEM file with the authority of the webhook's certificate."),
    ] = None,
    cert_manager: Annotated[bool, Parameter(help="The same, with a certificate by cert-manager.", negative="")] = False,
    output: Output = Format.YAML,
) -> None:
    """Print the CRDs of the kinds that controllers have classes of.

    Of a kind with several versions they name the Service vworkspace-controllers-webhook, which converts. Example:

        vworkspace-operator controllers crds shops | kubectl apply --server-side -f -
    """
    from vworkspace_app.commands.controllers import render_crds
    from vworkspace_app.commands.manifests import read_authority
    from vworkspace_app.install.box_webhooks import WebhookTrust

    authority = b"" if webhook_ca is None else read_authority(webhook_ca)
    print(render_crds(names, output, WebhookTrust(system_namespace, authority, cert_manager)), end="")


@controllers.command
def rbac(
    names: Names,
    /,
    *,
    namespace: Tenants = None,
    system_namespace: OwnNamespace = "vworkspace-system",
    service_account: Annotated[
        str, Parameter(help="Who gets the rights: vworkspace-operator, where that runs them; else one for each.")
    ] = "",
    leader_elect: Annotated[bool, Parameter(help="Grant the Leases of an election.")] = True,
    former: Former = None,
    output: Output = Format.YAML,
) -> None:
    """Print the roles of controllers: the verbs that they use, on the kinds that they own and read.

    With --former: the roles for pruning kinds that a pure reconciler does not own any more. Examples:

        vworkspace-operator controllers rbac shops --namespace team | kubectl apply --server-side -f -
        vworkspace-operator controllers rbac shops --service-account vworkspace-operator --no-leader-elect
    """
    from vworkspace_app.commands.controllers import render_roles
    from vworkspace_app.install.roles import RoleOptions

    options = RoleOptions(system_namespace, service_account, tuple(namespace or ()), leader_elect)
    print(render_roles(names, options, output, former or ()), end="")


@controllers.command
def manifests(
    names: Names,
    /,
    *,
    image: Annotated[str, Parameter(help="Image with the operator and the packages of the controllers.")],
    namespace: Tenants = None,
    system_namespace: OwnNamespace = "vworkspace-system",
    webhook_ca: Annotated[
        Path | None,
        Parameter(
            help="For kinds with several versions: PEM file with the authority of the webhook's certificate, which is "
            "in the Secret vworkspace-controllers-webhook-tls."
        ),
    ] = None,
    cert_manager: Annotated[bool, Parameter(help="The same, with a certificate by cert-manager.", negative="")] = False,
    output: Output = Format.YAML,
) -> None:
    """Print what runs controllers in a cluster: service account, roles, two replicas of one process for all of them.

    Deleting a CRD deletes every object of its kind; so `controllers crds` alone prints them. Example:

        vworkspace-operator controllers manifests shops --image registry.example.com/shops:1 | kubectl apply -f -
    """
    from vworkspace_app.commands.controllers import render_controller_manifests
    from vworkspace_app.commands.manifests import read_authority
    from vworkspace_app.install.box_webhooks import WebhookTrust
    from vworkspace_app.install.roles import RoleOptions

    options = RoleOptions(system_namespace, tenants=tuple(namespace or ()))
    authority = b"" if webhook_ca is None else read_authority(webhook_ca)
    trust = WebhookTrust(system_namespace, authority, cert_manager)
    print(render_controller_manifests(names, image, options, output, trust), end="")


@controllers.command
def forget(
    names: Names,
    /,
    *,
    dry_run: Annotated[bool, Parameter(help="Only tell which objects.", negative="")] = False,
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")] = None,
) -> None:
    """Take the finalizers of controllers off their objects, which can be deleted then. For controllers that are gone.

    Stop them first: one that runs puts its finalizer on again. What they have made stays. Example:

        vworkspace-operator controllers forget shops --dry-run
    """
    from vworkspace_app.commands.forget import forget_controllers

    forget_controllers(names, kubeconfig, dry_run=dry_run)

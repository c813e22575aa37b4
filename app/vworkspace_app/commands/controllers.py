"""The commands `controllers ...`, which list and run controllers in Python, and print their CRDs and roles."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import attrs

from purekube.apimachinery.definitions import CONTROLLER_NAME
from purekube.apimachinery.formats import DNS_LABEL, matches
from purekube.apimachinery.manifest import Manifest
from purekube.composites.rights import CompositeAccess, composite_access, owner_access
from purekube.reconcilers import Resource, controller_access
from purekube.reconcilers.controllers import name_of
from purekube.reconcilers.kind_reviews import webhook_needs
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.terminal import aligned
from purekube_run.process.yaml_documents import Format, dump
from purekube_run.reconcilers.controller_loading import LoadedControllers, installed, load_controllers
from purekube_run.versions.round_trips import check_kinds
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.box.manifests import former_kinds, role_options
from vworkspace_app.commands.extensions import run_extensions, warn_unreviewed
from vworkspace_app.commands.shared.options import CertManager, Former, LeaderElect, Output, Tenants
from vworkspace_app.install.extension_manifests import NOBODY, controllers_installation, with_conversion
from vworkspace_app.install.options import WebhookTrust, read_authority
from vworkspace_app.install.roles import RoleOptions, former_roles, roles_of
from vworkspace_app.settings import RunSettings
from vworkspace_app.webhooks.kinds_of_users import served_kinds


def run_by_name(settings: RunSettings, names: Sequence[str], namespaces: Sequence[str] = ()) -> None:
    """Run the named controllers until the process gets a signal.

    Pure reconcilers (functions that return the desired children of an object) act on objects in `namespaces`, or in all
    namespaces if `namespaces` is empty. Raises CommandError if a controller or the kubeconfig cannot be loaded.
    """
    loaded = load_controllers(names)
    kinds = [resource.kind.crd_name for resource in loaded.resources]
    check_kinds(loaded.resources)
    webhooks = served_kinds((), loaded.resources)
    warn_unreviewed(settings, loaded.resources)
    starting = {"controllers": list(loaded.names), "kinds": kinds}
    run_extensions(settings, loaded.composites, loaded.given, webhooks, namespaces, starting)


def controllers_table() -> str:
    """Return a table of the installed controllers: name, import path and package."""
    rows = [
        (one.name, one.value, f"{one.dist.name} {one.dist.version}" if one.dist is not None else "")
        for one in installed()
    ]
    return "".join(f"{line}\n" for line in aligned([("NAME", "AT", "PACKAGE"), *rows]))


def render_crds(names: Sequence[str], output: Format, trust: WebhookTrust = NOBODY, name: str = "") -> str:
    """Return the CRDs of the kinds that the controllers `names` define as Python classes, as text.

    `name` is the name of the installation that serves their conversion webhook, or empty for the default. `trust` says
    how the API server trusts this webhook: by a certificate authority or by cert-manager. Raises CommandError if a
    controller cannot be loaded, or if a kind has several versions and `trust` has neither.
    """
    loaded = load_controllers(names)
    check_kinds(loaded.resources)
    served_as = _installation_of(loaded, name)
    return dump([_labelled(_definition(one, served_as, trust), name) for one, name in loaded.kinds.items()], output)


def _labelled(definition: Manifest, name: str) -> dict[str, Any]:
    """Return the CRD with the label by which the command `status` recognizes a controller's kind."""
    return {**definition, "metadata": {**definition["metadata"], "labels": {CONTROLLER_NAME: name}}}


def _definition(kind: Resource[Any, Any], served_as: str, trust: WebhookTrust) -> Manifest:
    if not kind.versions:
        return kind.crd()
    _have_trust(kind, trust)
    return with_conversion(kind.crd(), served_as, trust)


def _have_trust(kind: Resource[Any, Any], trust: WebhookTrust) -> None:
    if not trust.is_given:
        raise CommandError(
            f"{kind.kind.crd_name}: needs a webhook ({webhook_needs(kind)}), which the API server has to trust: "
            "give --cert-manager, or --webhook-ca with the authority of its certificate"
        )


def render_roles(names: Sequence[str], options: RoleOptions, output: Format, former: Sequence[str] = ()) -> str:
    """Return the roles that the controllers `names` need, as text in the format `output`.

    `options` has the namespaces in which the controllers may act, and their service account. `former` names kinds of
    which the controllers no longer create children. If it is not empty, return only the roles to delete the children of
    these kinds that still exist. Raises CommandError for an invalid name in `names` or `former`.
    """
    loaded, kinds = load_controllers(names), former_kinds(former)
    if kinds:
        of_former = (former_roles(_name(composite.name), kinds, options) for composite in loaded.composites)
        return dump([role for roles in of_former for role in roles], output)
    return dump(list(_roles(loaded, options)), output)


def render_controller_manifests(
    names: Sequence[str],
    image: str,
    options: RoleOptions,
    output: Format,
    trust: WebhookTrust = NOBODY,
    name: str = "",
) -> str:
    """Return the manifests that run the controllers `names` together in one process, as text.

    `image` is the container image of the process. `options` has the namespaces in which the controllers may act, and
    their service account. `trust` says how the API server trusts the process's webhooks: by a certificate authority or
    by cert-manager. `name` is the name of the installation, or empty for the default. Raises CommandError if a
    controller cannot be loaded, or if a kind needs a webhook and `trust` has neither.
    """
    loaded = load_controllers(names)
    hooked = [resource for resource in loaded.resources if resource.needs_webhooks]
    for resource in hooked:
        _have_trust(resource, trust)
    name = _installation_of(loaded, name)
    roles = _roles(loaded, attrs.evolve(options, account=name))
    parts = controllers_installation(name, names, roles, image, options, hooked, trust)
    return dump(list(parts), output)


def _roles(loaded: LoadedControllers, options: RoleOptions) -> Iterator[dict[str, Any]]:
    for composite in loaded.composites:
        owners = list(owner_access((composite,)))
        yield from roles_of(_name(composite.name), composite_access(composite), owners, options)
    for made in loaded.made:
        yield from roles_of(_name(name_of(made)), CompositeAccess(controller_access((made,))), (), options)


def _installation_of(loaded: LoadedControllers, name: str) -> str:
    """Return the name of the installation that runs these controllers in one process.

    It is `name`, or a default if that is empty. Raises CommandError if `name` cannot be the name of an object.
    """
    if not name:
        return _name(loaded.names[0]) if len(loaded.names) == 1 else "vworkspace-controllers"
    if not matches(DNS_LABEL, name):
        raise CommandError(f"--name {name}: must be a DNS label, such as shops: a-z, 0-9 and -", status=USAGE)
    return name


def _name(controller: str) -> str:
    return f"vworkspace-controller-{controller}"


Installed = Annotated[
    str,
    Parameter(
        help="The name of what runs them: Deployment, Service of webhooks, account; the same for crds and manifests. "
        "Default: vworkspace-controller-NAME, or vworkspace-controllers for several, which a second set would replace.",
    ),
]
ProcessNamespace = Annotated[str, Parameter(help="The namespace of the process that runs them.")]
Names = Annotated[list[str], Parameter(name="NAME", help="Names of installed controllers, or module:attribute.")]


def list_controllers() -> None:
    """List the controllers that installed packages offer by the entry point `vworkspace.controllers`.

    Example:

        vworkspace-operator controllers list
    """
    print(controllers_table(), end="")


def crds(
    names: Names,
    /,
    *,
    name: Installed = "",
    system_namespace: ProcessNamespace = "vworkspace-system",
    webhook_ca: Annotated[
        bytes,
        Parameter(
            read=read_authority,
            help="For kinds with several versions: PEM file with the authority of the webhook's certificate.",
        ),
    ] = b"",
    cert_manager: CertManager = False,
    output: Output = Format.YAML,
) -> None:
    """Print the CRDs of the kinds that controllers have classes of.

    The CRD of a kind with several versions names the Service of its conversion webhook, without which no object of the
    kind can be read. `controllers manifests` prints this Service for the same controllers, or for the same --name.
    Examples:

        vworkspace-operator controllers crds shops | kubectl apply --server-side -f -
        vworkspace-operator controllers crds shops --name apps --cert-manager
    """
    print(render_crds(names, output, WebhookTrust(system_namespace, webhook_ca, cert_manager), name), end="")


def rbac(
    names: Names,
    /,
    *,
    namespace: Tenants = None,
    system_namespace: ProcessNamespace = "vworkspace-system",
    service_account: Annotated[
        str, Parameter(help="Who gets the rights: vworkspace-operator, where that runs them; else one for each.")
    ] = "",
    leader_elect: LeaderElect = True,
    former: Former = None,
    output: Output = Format.YAML,
) -> None:
    """Print the roles of controllers: the verbs that they use, on the kinds that they own and read.

    With --former: the roles for deleting the remaining children of kinds that a pure reconciler (a function that
    returns the children of an object) does not own any more. Examples:

        vworkspace-operator controllers rbac shops --namespace team | kubectl apply --server-side -f -
        vworkspace-operator controllers rbac shops --service-account vworkspace-operator --no-leader-elect
    """
    options = role_options(system_namespace, namespace or (), account=service_account, elects=leader_elect)
    print(render_roles(names, options, output, former or ()), end="")


def manifests(
    names: Names,
    /,
    *,
    image: Annotated[str, Parameter(help="Image with the operator and the packages of the controllers.")],
    namespace: Tenants = None,
    name: Installed = "",
    system_namespace: ProcessNamespace = "vworkspace-system",
    webhook_ca: Annotated[
        bytes,
        Parameter(
            read=read_authority,
            help="For kinds with several versions, or reviewed in Python: PEM file with the authority of the webhook's "
            "certificate, which is in the Secret vworkspace-controller-NAME-webhook-tls, for several controllers "
            "vworkspace-controllers-webhook-tls, with --name NAME-webhook-tls.",
        ),
    ] = b"",
    cert_manager: CertManager = False,
    output: Output = Format.YAML,
) -> None:
    """Print what runs controllers in a cluster: service account, roles, two replicas of one process for all of them.

    The CRDs are not printed here but by `controllers crds`, because deleting a CRD deletes every object of its kind.
    Two sets of several controllers need different names. Examples:

        vworkspace-operator controllers manifests shops --image registry.example.com/shops:1 | kubectl apply -f -
        vworkspace-operator controllers manifests carts audit --name checkout --image registry.example.com/shops:1
    """
    options = role_options(system_namespace, namespace or (), image=image)
    trust = WebhookTrust(system_namespace, webhook_ca, cert_manager)
    print(render_controller_manifests(names, image, options, output, trust, name), end="")

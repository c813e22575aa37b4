"""The commands `box rbac` and `box manifests`, which print the objects to install so that a box runs in a cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import attrs

from purekube.apimachinery.formats import DNS_LABEL, DNS_SUBDOMAIN, matches
from purekube.apimachinery.manifest import Kind
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.definition import crd_of
from purekube.boxes.model import KIND
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.boxes.schemas import CrdVersions
from purekube.boxes.webhooks.admission_policy import policy_of
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties, refused_where_applied
from purekube.composites.parent import recorded_kinds
from purekube_run.boxes.document import read_marked
from purekube_run.boxes.load import LoadedBox, further_crds, load_box, named_in, runnable
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump, read_text
from vworkspace_app import VERSION
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import CertManager, Crds, Former, LeaderElect, Output, Tenants
from vworkspace_app.install.extension_manifests import (
    account_rbac,
    applied_installation,
    box_installation,
    box_rbac,
    name_of,
    with_conversion,
)
from vworkspace_app.install.options import WebhookTrust, read_authority
from vworkspace_app.install.roles import RoleOptions, former_roles

_LARGEST: Final = 1024 * 1024
"""The maximum number of bytes in a ConfigMap."""
BoxNamespace: TypeAlias = Annotated[str, Parameter(help="The namespace of the process that runs the box.")]


def render_rbac(
    file: str,
    crds: Sequence[Path],
    options: RoleOptions,
    output: Format,
    former: Sequence[str] = (),
    for_account: str = "",
    previous: str = "",
) -> str:
    """Return the RBAC roles that the box in `file` needs, as YAML or JSON.

    `crds` are files with further CRDs. `options` has the namespaces in which the box may act, and its service account.
    `former` names kinds of which the box no longer creates objects. If it is not empty, return only the roles to delete
    the objects of these kinds. With `for_account` (NAMESPACE/NAME), return the roles of a ServiceAccount that the box
    impersonates. `previous` is the file of an earlier definition of the box; it adds roles to delete objects of the
    kinds that only that definition has. Raises CommandError for invalid input.
    """
    known = list(further_crds(crds))
    box, _ = _loaded(file, known)
    kinds = former_kinds(former)
    if for_account:
        options = _of_account(file, box, for_account, options)
    if kinds:
        return dump(list(former_roles(name_of(box), kinds, options)), output)
    own = account_rbac(box, options) if for_account else box_rbac(box, options)
    retired = _retired(box, _loaded(previous, known)[0]) if previous else ()
    return dump([*own, *former_roles(name_of(box), retired, options)], output)


def _retired(box: Box, previous: Box) -> tuple[Kind, ...]:
    """Return the kinds of children that the box's previous definition has, but its present definition lacks."""
    kinds = composite_of(box).child_kinds
    return tuple(kind for kind in composite_of(previous).child_kinds if kind not in kinds)


def _of_account(file: str, box: Box, account: str, options: RoleOptions) -> RoleOptions:
    """Return `options` for the roles of the ServiceAccount that the box impersonates.

    `account` is NAMESPACE/NAME. Raises CommandError if it is malformed, or the box impersonates no account.
    """
    namespace, _, name = account.partition("/")
    if not matches(DNS_LABEL, namespace) or not matches(DNS_SUBDOMAIN, name):
        raise CommandError(f"--for-account {account!r} names no ServiceAccount: write NAMESPACE/NAME", status=USAGE)
    if box.account is None:
        raise CommandError(f"{file}: the box acts by its own rights: it has no spec.serviceAccountName", status=USAGE)
    return attrs.evolve(options, namespace=namespace, account=name, tenants=options.tenants or (namespace,))


def role_options(
    namespace: str, tenants: Sequence[str], *, account: str = "", elects: bool = True, image: str | None = None
) -> RoleOptions:
    """Return the options of the roles that a command line gives. `image` is that of the process, if it is printed.

    Raises CommandError for a name that no API server takes, since the rest of what is printed would be applied.
    """
    flags = (("--system-namespace", namespace), *(("--namespace", tenant) for tenant in tenants))
    for flag, name in flags:
        if not matches(DNS_LABEL, name):
            raise CommandError(f"{flag} {name}: not the name of a namespace", status=USAGE)
    if account and not matches(DNS_SUBDOMAIN, account):
        raise CommandError(f"--service-account {account}: not the name of a service account", status=USAGE)
    if image is not None and len(image.split()) != 1:
        raise CommandError(f"--image {image}: name the image that the cluster is to pull", status=USAGE)
    return RoleOptions(namespace, account, tuple(tenants), elects)


def former_kinds(texts: Sequence[str]) -> tuple[Kind, ...]:
    """Return the kinds that the values `texts` of the option `--former` name.

    A value such as `Job/jobs.v1.batch` names a kind of which the box or controller no longer creates objects. Raises
    CommandError for a malformed value.
    """
    kinds = {text: recorded_kinds(text) for text in texts}
    if wrong := next((text for text, named in kinds.items() if len(named) != 1), None):
        raise CommandError(f"--former {wrong!r} names no kind: write such as Job/jobs.v1.batch", status=USAGE)
    return tuple(kind for named in kinds.values() for kind in named)


def render_box_manifests(
    file: str,
    crds: Sequence[Path],
    image: str,
    options: RoleOptions,
    trust: WebhookTrust,
    output: Format,
    *,
    crds_only: bool,
) -> str:
    """Return manifests of the box in `file` as text in the format `output`.

    `crds` are files with further CRDs, and `image` is the operator's container image. `options` has the namespaces in
    which the box may act, and its service account. With `crds_only` the text has the CRD of the box's kind; otherwise
    it has everything else that has to be installed. `trust` says how the API server trusts the box's webhook: by a
    certificate authority or by cert-manager. Raises CommandError for an invalid box, and for a box that needs a webhook
    if `trust` has neither.
    """
    known = list(further_crds(crds))
    box, loaded = _loaded(file, known)
    duties = WebhookDuties.of(box)
    if not trust.is_given and (duties.versions if crds_only else duties):
        raise CommandError(
            f"{file}: the box needs a webhook ({duties}), which the API server has to trust: "
            "give --cert-manager, or --webhook-ca with the authority of its certificate"
        )
    if crds_only:
        crd = crd_of(box)
        return dump([with_conversion(crd, name_of(box), trust) if duties.versions else crd], output)
    files = _files(file, loaded)
    further = _further_crds(box, named_in([read_text(file)], known))
    if further and (size := sum(map(len, map(str.encode, (*files.values(), further))))) > _LARGEST:
        raise CommandError(
            f"{file}: with the CRDs of --crds it has {size} bytes, and a ConfigMap holds {_LARGEST}: declare the kinds "
            "under spec.kinds instead"
        )
    return dump(list(box_installation(box, files, image, options, trust, further)), output)


def render_object(file: str, crds: Sequence[Path], output: Format) -> str:
    """Return the box in a file as an OperatorBox object to apply, as text.

    `crds` are files with further CRDs. The object has the spec of the CRD in place of the name of the CRD's file.
    Before it come the admission policies that it needs: for rules that no CRD can check, and for values that no CRD can
    compute. Raises CommandError for a box with problems, and for a box that needs a webhook, which cannot run as an
    OperatorBox.
    """
    box, _ = _loaded(file, list(further_crds(crds)))
    if problems := list(refused_where_applied(box)):
        raise CommandError("\n".join(f"{file}: {problem}" for problem in problems))
    document = next(each.value for each in read_marked(file) if each.value.get("kind") == KIND)
    applied = {**document, "spec": {**document["spec"], "crd": {"spec": box.crd["spec"]}}}
    return dump([*policy_of(box).values(), applied], output)


def _loaded(file: str, known: Sequence[CrdVersions]) -> tuple[Box, LoadedBox]:
    loaded = load_box(file, known)
    (box,) = runnable([loaded])
    return box, loaded


def _files(file: str, loaded: LoadedBox) -> Mapping[str, str]:
    """Return the texts of the box file and of the CRD file next to it, by file name.

    Raises CommandError if the box names no CRD file in the same folder.
    """
    path = Path(file)
    source = loaded.model.spec.crd.file if loaded.model is not None else ""
    if not source or "/" in source:
        raise CommandError(
            f"{file}: a box that is installed names its CRD by a file beside it: spec.crd: webapp-crd.yaml"
        )
    return {path.name: read_text(file), source: read_text(str(path.parent / source))}


def _further_crds(box: Box, known: Sequence[CrdVersions]) -> str:
    """Return the CRDs in `known`, with which the box was compiled, as YAML, or "" if there are none.

    The box's pod needs them, too. The CRD of the box's own kind is not included.
    """
    own = box.kind.crd_name
    further = {name: crd for crd in (one.manifest for one in known) if (name := str(crd["metadata"]["name"])) != own}
    plain = [{**crd, "metadata": {"name": name}} for name, crd in further.items()]
    for crd in plain:
        crd.pop("status", None)
    return dump(plain, Format.YAML) if plain else ""


def rbac(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    /,
    *,
    crds: Crds = None,
    namespace: Tenants = None,
    system_namespace: BoxNamespace = "vworkspace-system",
    service_account: Annotated[
        str, Parameter(help="Who gets the rights: vworkspace-operator, where that runs the box; else one of its own.")
    ] = "",
    leader_elect: LeaderElect = True,
    former: Former = None,
    previous: Annotated[
        str,
        Parameter(help="Besides: a role for pruning each kind that only this file makes, the box as it was before."),
    ] = "",
    for_account: Annotated[
        str, Parameter(help="Instead: the roles of this NAMESPACE/NAME, as which the box acts (serviceAccountName).")
    ] = "",
    output: Output = Format.YAML,
) -> None:
    """Print the roles of a box: exactly the verbs that it uses, on the kinds that its file names.

    A box with spec.serviceAccountName gets the verb `impersonate` instead of rights on children. The accounts that its
    objects name need the rights on children: print their roles with --for-account.

    If an earlier file of the box made objects of a kind that this file does not name, pruning them needs further
    rights. --previous and --former print one role for each such kind. Until the role is applied, the object that waits
    for the pruning shows this command in its condition Stalled. Delete the role when the pruning is done. Examples:

        vworkspace-operator box rbac webapp.yaml --namespace team | kubectl apply --server-side -f -
        vworkspace-operator box rbac webapp.yaml --service-account vworkspace-operator --no-leader-elect
        vworkspace-operator box rbac webapp.yaml --namespace team --former Job/jobs.v1.batch
        vworkspace-operator box rbac webapp.yaml --namespace team --previous webapp-1.yaml
        vworkspace-operator box rbac webapp.yaml --for-account team/apps
    """
    options = role_options(system_namespace, namespace or (), account=service_account, elects=leader_elect)
    print(render_rbac(file, crds or (), options, output, former or (), for_account, previous), end="")


def manifests(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box, next to its CRD; none with --applied.")] = "",
    /,
    *,
    applied: Annotated[
        bool, Parameter(help="Instead: what runs the boxes that are applied to the cluster.", negative="")
    ] = False,
    image: Annotated[
        str, Parameter(help="Image of the operator, at best by digest.")
    ] = f"vworkspace-operator:{VERSION}",
    as_object: Annotated[
        bool, Parameter(help="Only the box, as an object to apply, with its CRD in it.", negative="")
    ] = False,
    crds_only: Annotated[bool, Parameter(help="Only the CRD, with the box's rules in it.", negative="")] = False,
    crds: Crds = None,
    namespace: Tenants = None,
    system_namespace: BoxNamespace = "vworkspace-system",
    webhook_ca: Annotated[
        bytes,
        Parameter(
            read=read_authority,
            help="For a box with versions, computed fields or rules that no CRD can hold, and to refuse wrong boxes "
            "with --applied: PEM file with the authority of the webhooks' certificate, which is in the Secret "
            "vworkspace-box-NAME-webhook-tls, with --applied vworkspace-boxes-webhook-tls.",
        ),
    ] = b"",
    cert_manager: CertManager = False,
    output: Output = Format.YAML,
) -> None:
    """Print what runs a box in a cluster: service account, roles, the box as a ConfigMap, two replicas.

    The CRD is not printed with the rest but by --crds-only, because deleting a CRD deletes every object of its kind.
    Examples:

        vworkspace-operator box manifests webapp.yaml --crds-only | kubectl apply --server-side -f -
        vworkspace-operator box manifests webapp.yaml --image ghcr.io/you/operator:1 | kubectl apply --server-side -f -
        vworkspace-operator box manifests --applied --crds-only | kubectl apply --server-side -f -
        vworkspace-operator box manifests webapp.yaml --as-object | kubectl apply --server-side -f -
    """
    options = role_options(system_namespace, namespace or (), image=image)
    if applied != (not file):
        raise CommandError("give a FILE or --applied (see vworkspace-operator box manifests --help)", status=USAGE)
    trust = WebhookTrust(system_namespace, webhook_ca, cert_manager)
    if applied:
        parts = [applied_box_definition()] if crds_only else applied_installation(image, options, trust)
        print(dump(list(parts), output), end="")
        return
    if as_object:
        print(render_object(file, crds or (), output), end="")
        return
    print(render_box_manifests(file, crds or (), image, options, trust, output, crds_only=crds_only), end="")

"""The manifests that run a box, or Python controllers, in a cluster with exactly the rights they use (RUN-7).

The operator that runs boxes which users apply as OperatorBox objects gets its roles here, not in `rbac`, because the
code of boxes is slow to import.

Webhooks fail closed: if no webhook answers, a write is refused, because its object would be stored without checks and
defaults. Without conversion an object cannot be read at all. An object being deleted is exempt, so that its finalizer
can be removed while no replica is up (PH-8).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery import resources as known
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Manifest, content_hash
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import Access
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import access_of, access_of_account, owners
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.boxes.webhooks.admission_policy import BINDING, MUTATING_BINDING, MUTATING_POLICY, POLICY
from purekube.boxes.webhooks.conversion_webhook import (
    APPLIED_BOX_PATH,
    CONVERT_PATH,
    VALIDATING_CONFIGURATION,
    ConversionWebhook,
)
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube.composites.rights import FOLLOWED, LEASE, CompositeAccess
from purekube.reconcilers import Resource
from purekube.reconcilers.kind_reviews import reviewers
from vworkspace_app.install.deployment import container, mount, pod, serve_webhooks
from vworkspace_app.install.names import APPLIED_BOXES
from vworkspace_app.install.options import HEALTH_PORT, WEBHOOK_FLAGS, WEBHOOK_PORT, InstallOptions, WebhookTrust
from vworkspace_app.install.rbac import operator_role
from vworkspace_app.install.roles import RoleOptions, controller_deployment, guards_of, labels_of, meta_of, roles_of
from vworkspace_app.install.webhook_manifests import (
    MUTATING,
    STAYS,
    VALIDATING,
    certificate_of,
    client_config,
    configuration,
    injected_authority,
    operator_box_webhook,
    webhook,
)
from vworkspace_core.webhook.admission import default_path, kind_review_path, validate_path

NOBODY: Final = WebhookTrust("")
"""A `WebhookTrust` without a certificate authority: no webhook can be registered with it."""
_FOLDER: Final = "/etc/vworkspace/boxes"
_FURTHER_CRDS: Final = "_further-crds.yaml"
_LONGEST_ROLE: Final = 253
APPLIED_EVERYWHERE: Final = (
    Access(OPERATOR_BOX, ("get", *FOLLOWED, "patch")),
    Access(OPERATOR_BOX, ("patch",), "status"),
    Access(known.CUSTOM_RESOURCE_DEFINITION, ("get", *FOLLOWED, "create", "patch")),
    *(Access(kind, ("get",)) for kind in (POLICY, BINDING, MUTATING_POLICY, MUTATING_BINDING)),
    Access(VALIDATING_CONFIGURATION, ("list",)),
    Access(known.NAMESPACE, FOLLOWED),
    Access(known.EVENT, ("create", "patch")),
)
"""The rights of a process that runs applied boxes (OperatorBoxes in the cluster), without those on each box's kinds."""
APPLIED_OWN: Final = Access(CONTROLLER_REVISION, ("get", *FOLLOWED, "create", "patch", "delete"))


def name_of(box: Box) -> str:
    """Return the name of the Deployment, ServiceAccount and other objects that run a box in a cluster."""
    return f"vworkspace-box-{box.name}"


def box_rbac(box: Box, options: RoleOptions) -> Iterator[dict[str, Any]]:
    """Yield the roles of the process that runs a box, with their bindings.

    The roles are a ClusterRole for kinds that the box reads in all namespaces, and Roles for its children.
    """
    acting = [] if box.account is not None else owners((box,))
    return roles_of(name_of(box), access_of((box,)), [*acting], options)


def account_rbac(box: Box, options: RoleOptions) -> Iterator[dict[str, Any]]:
    """Yield the roles of a ServiceAccount that the box impersonates to write the children of its objects.

    `options` has the account's namespace and name, and the namespaces of the children.
    """
    access = access_of_account(box)
    if options.owner_reference_protection:
        access = attrs.evolve(access, tenant=(*access.tenant, *owners((box,))))
    name = bounded_name(f"{name_of(box)}-{options.namespace}-{options.account}", _LONGEST_ROLE)
    return roles_of(name, access, (), attrs.evolve(options, elects=False, names_have_account=True))


# --- boxes as objects -------------------------------------------------------------------------------------------------


def applied_installation(image: str, options: RoleOptions, trust: WebhookTrust) -> Iterator[dict[str, Any]]:
    """Return the manifests of a process that runs applied boxes: those in the cluster as OperatorBox objects.

    The roles for the kinds of each box are not included; `box rbac` prints them. If `trust` has an authority or
    cert-manager, the process also serves the webhook that validates boxes.
    """
    access = CompositeAccess(APPLIED_EVERYWHERE, (), (*LEASE, APPLIED_OWN))
    roles = roles_of(APPLIED_BOXES, access, (), attrs.evolve(options, tenants=()))
    hooks = (
        applied_webhook_parts(APPLIED_BOXES, meta_of(APPLIED_BOXES, options.namespace), trust) if trust.is_given else ()
    )
    return _process(APPLIED_BOXES, ("box", "run", "--applied"), roles, image, options, hooks)


# --- the whole -------------------------------------------------------------------------------------------------------


def box_installation(
    box: Box, files: Mapping[str, str], image: str, options: RoleOptions, trust: WebhookTrust, further: str = ""
) -> Iterator[dict[str, Any]]:
    """Return all manifests that run a box, except its CRD, whose deletion would delete every object of the kind.

    `files` has the texts of the box's files by name, the box itself first, and `further` is the YAML of further CRDs
    with which the box was compiled. An annotation of the pods has a hash of the files, so that the pods are recreated
    when a file changes. `trust` says by which authority the API server trusts the box's webhooks, if it needs any.
    """
    name = name_of(box)
    words = ["box", "run", f"{_FOLDER}/{next(iter(files))}"]
    if further:
        files = {**files, _FURTHER_CRDS: further}
        words.append(f"--crds={_FOLDER}/{_FURTHER_CRDS}")
    hooks = webhook_parts(box, meta_of(name, options.namespace), trust) if WebhookDuties.of(box) else ()
    return _process(name, words, box_rbac(box, options), image, options, hooks, files)


def controllers_installation(
    name: str,
    names: Sequence[str],
    roles: Iterable[dict[str, Any]],
    image: str,
    options: RoleOptions,
    hooked: Sequence[Resource[Any, Any]] = (),
    trust: WebhookTrust = NOBODY,
) -> Iterator[dict[str, Any]]:
    """Return all manifests that run controllers, except CRDs, whose deletion would delete every object of the kinds.

    `name` is the name of the Deployment and of the ServiceAccount to which `roles` are bound; `<name>-webhook` is that
    of the Service of webhooks. `names` are the controllers to run, whose packages are in `image`. `hooked` are the
    kinds whose webhooks the process serves. `trust` has the authority by which the API server trusts these webhooks.
    """
    hooks = review_webhooks(name, hooked, meta_of(name, options.namespace), trust) if hooked else ()
    return _process(name, ("controllers", "run", *names), roles, image, options, hooks)


def _process(
    name: str,
    words: Sequence[str],
    roles: Iterable[dict[str, Any]],
    image: str,
    options: RoleOptions,
    hooks: Iterable[dict[str, Any]],
    files: Mapping[str, str] = {},
) -> Iterator[dict[str, Any]]:
    """Yield the manifests of a process that runs the command `words`, with the files `files` in a folder.

    `hooks` are the objects that make an API server call its webhooks; it serves webhooks only if there are some.
    """
    meta, hooks = meta_of(name, options.namespace), tuple(hooks)
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    yield from roles
    elect = ["--leader-elect", f"--leader-elect-resource-name={name}"] if options.elects else []
    arguments = [
        *words,
        f"--namespace={options.namespace}",
        *(f"--watch-namespace={namespace}" for namespace in options.tenants),
        f"--listen=[::]:{HEALTH_PORT}",
        *elect,
    ]
    runs = container(image, "", arguments)
    spec = pod(name, runs, labels_of(name))
    if files:
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(files)}
        mount(spec, "boxes", _FOLDER, configMap={"name": name})
    if hooks:
        runs["args"] += WEBHOOK_FLAGS
        serve_webhooks(spec, tls_secret(name))
    # The hash recreates the pods when a file changes.
    annotations = {"box.vworkspace.io/files-hash": content_hash(dict(files))} if files else {}
    yield controller_deployment(name, spec, options, annotations)
    yield from guards_of(name, options, (HEALTH_PORT, *([WEBHOOK_PORT] if hooks else ())))
    yield from hooks


def applied_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the operator's roles to run applied boxes, which are boxes that a user applied as OperatorBox objects.

    The roles for the kinds of each box are not included; `box rbac` prints them.
    """
    name = options.role_name("-boxes")
    yield from operator_role(name, APPLIED_EVERYWHERE, options)
    yield from operator_role(name, (APPLIED_OWN,), options, options.namespace)


# --- webhooks ---------------------------------------------------------------------------------------------------------


def tls_secret(name: str) -> str:
    """Return the name of the Secret with the webhook certificate of the installation `name`."""
    return f"{name}-webhook-tls"


def webhook_parts(box: Box, meta: Mapping[str, Any], trust: WebhookTrust) -> Iterator[dict[str, Any]]:
    """Yield the Service, the certificate and the webhook configurations that a box needs.

    `meta` is the metadata of the Deployment that serves the webhooks; its name is the name of the installation. `trust`
    says by which authority the API server trusts the webhooks.
    """
    name = str(meta["name"])
    duties, title = WebhookDuties.of(box), f"{box.name}.boxes.vworkspace.io"
    selected = {"namespaceSelector": dict(box.namespaces)} if box.namespaces else {}
    both = ((MUTATING, default_path(box.name), duties.fields), (VALIDATING, validate_path(box.name), duties.rules))
    hooks = {
        kind: [webhook(title, [box.kind], client_config(_service(name), path, trust), [STAYS], **selected)]
        for kind, path, needed in both
        if needed
    }
    yield from _served(name, meta, hooks, trust)


def review_webhooks(
    name: str, kinds: Iterable[Resource[Any, Any]], meta: Mapping[str, Any], trust: WebhookTrust
) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and webhook configurations for kinds whose conversion or review is written in
    Python.

    `name` is the name of the installation whose process serves the webhooks. `meta` is the metadata of that process's
    workload. `trust` says by which authority the API server trusts the webhooks.
    """
    hooks: dict[str, list[dict[str, Any]]] = {MUTATING: [], VALIDATING: []}
    for one in kinds:
        crd = one.kind.crd_name
        for reviewer in reviewers(one):
            client = client_config(_service(name), kind_review_path(crd, mutates=reviewer.mutates), trust)
            hooks[MUTATING if reviewer.mutates else VALIDATING].append(webhook(crd, [one.kind], client, [STAYS]))
    yield from _served(name, meta, hooks, trust)


def applied_webhook_parts(name: str, meta: Mapping[str, Any], trust: WebhookTrust) -> Iterator[dict[str, Any]]:
    """Yield the Service, certificate and configuration of the webhook that validates OperatorBoxes.

    `meta` is the metadata of the installation `name`, which runs applied boxes (those in the cluster as OperatorBoxes).
    `trust` says by which authority the API server trusts the webhook.
    """
    hook = operator_box_webhook(client_config(_service(name), APPLIED_BOX_PATH, trust))
    yield from _served(name, meta, {VALIDATING: [hook]}, trust)


def _served(
    name: str, meta: Mapping[str, Any], hooks: Mapping[str, list[dict[str, Any]]], trust: WebhookTrust
) -> Iterator[dict[str, Any]]:
    """Yield the Service of the webhooks, its Certificate if `trust` selects cert-manager, and the configurations.

    The Service is called `<name>-webhook`, shortened if that is too long for a Service. `meta` is the metadata of the
    workload that serves the webhooks. `hooks` are the webhooks by the kind of their configuration.
    """
    labels = meta["labels"]
    service = {"name": _service(name), "namespace": trust.namespace, "labels": labels}
    selector = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
    ports = [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    yield {"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"selector": selector, "ports": ports}}
    if trust.cert_manager:
        yield from certificate_of({**service, "name": f"{name}-selfsigned"}, service, tls_secret(name))
    cluster_wide = {"name": meta["name"], "labels": labels}
    for kind, of_kind in hooks.items():
        if of_kind:
            yield configuration(kind, cluster_wide, of_kind, _service(name), trust)


def with_conversion(crd: Manifest, name: str, trust: WebhookTrust) -> Manifest:
    """Return the CRD with its conversion webhook set to the one that the installation `name` serves.

    `trust` has the Service's namespace, and the authority by which the API server trusts the webhook.
    """
    client = client_config(_service(name), CONVERT_PATH, trust)
    annotations = injected_authority(_service(name), trust).get("annotations", {})
    return ConversionWebhook(client, annotations).registered_in(crd)


def _service(name: str) -> str:
    return bounded_name(f"{name}-webhook")

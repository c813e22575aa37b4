"""The manifests that run a box, or Python controllers, in a cluster with exactly the rights they use (RUN-7).

A box is an operator that a YAML file declares.

The operator that runs boxes which users apply as OperatorBox objects gets its roles here, not in `rbac`, because the
code of boxes is slow to import.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery import resources as known
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.resources import Access
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import access_of, access_of_account, owners
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.boxes.webhooks.admission_policy import BINDING, MUTATING_BINDING, MUTATING_POLICY, POLICY
from purekube.boxes.webhooks.conversion_webhook import VALIDATING_CONFIGURATION
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube.composites.rights import FOLLOWED, LEASE, CompositeAccess
from purekube.reconcilers import Resource
from vworkspace_app.install.box_webhooks import (
    NOBODY,
    WebhookTrust,
    applied_webhook_parts,
    review_webhooks,
    serve_webhooks,
    webhook_parts,
)
from vworkspace_app.install.deployment import container, pod
from vworkspace_app.install.options import HEALTH_PORT, WEBHOOK_PORT, InstallOptions
from vworkspace_app.install.rbac import cluster_wide, namespace_rbac
from vworkspace_app.install.roles import RoleOptions, deployment_of, guards_of, labels_of, meta_of, roles_of

_FOLDER: Final = "/etc/vworkspace/boxes"
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
    name = f"{name_of(box)}-{options.namespace}-{options.account}"
    return roles_of(name, access, (), attrs.evolve(options, elects=False))


# --- boxes as objects -------------------------------------------------------------------------------------------------

APPLIED: Final = "vworkspace-boxes"
"""The name of all objects of the installation that runs applied boxes (OperatorBoxes), including its ServiceAccount."""


def applied_installation(image: str, options: RoleOptions, trust: WebhookTrust) -> Iterator[dict[str, Any]]:
    """Yield the manifests of a process that runs applied boxes: those in the cluster as OperatorBox objects.

    The roles for the kinds of each box are not included; `box rbac` prints them. If `trust` has an authority or
    cert-manager, the process also serves the webhook that validates boxes.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta_of(APPLIED, options.namespace)}
    access = CompositeAccess(APPLIED_EVERYWHERE, (), (*LEASE, APPLIED_OWN))
    yield from roles_of(APPLIED, access, (), attrs.evolve(options, tenants=()))
    arguments = [
        *("box", "run", "--applied"),
        f"--namespace={options.namespace}",
        *(f"--watch-namespace={namespace}" for namespace in options.tenants),
        f"--listen=[::]:{HEALTH_PORT}",
        *("--leader-elect", f"--leader-elect-resource-name={APPLIED}"),
    ]
    runs = container(image, "", arguments)
    spec = pod(APPLIED, runs, {"matchLabels": labels_of(APPLIED)})
    if trust.is_given:
        serve_webhooks(runs, spec, APPLIED)
    yield deployment_of(APPLIED, spec, options, {})
    yield from guards_of(APPLIED, options, (HEALTH_PORT, *([WEBHOOK_PORT] if trust.is_given else ())))
    if trust.is_given:
        yield from applied_webhook_parts(APPLIED, meta_of(APPLIED, options.namespace), trust)


# --- the whole -------------------------------------------------------------------------------------------------------


def box_installation(
    box: Box, files: Mapping[str, str], image: str, options: RoleOptions, trust: WebhookTrust
) -> Iterator[dict[str, Any]]:
    """Yield all manifests that run a box, except its CRD, whose deletion would delete every object of the kind.

    `files` has the texts of the box's files by name, the box itself first. An annotation of the pods has a hash of the
    files, so that the pods are recreated when a file changes. `trust` says by which authority the API server trusts the
    box's webhooks, if it needs any.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta_of(name_of(box), options.namespace)}
    yield from box_rbac(box, options)
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta_of(name_of(box), options.namespace),
        "data": dict(files),
    }
    yield _deployment(box, files, image, options)
    yield from guards_of(name_of(box), options, (HEALTH_PORT, *([WEBHOOK_PORT] if WebhookDuties.of(box) else ())))
    if WebhookDuties.of(box):
        yield from webhook_parts(box, meta_of(name_of(box), options.namespace), trust)


def _deployment(box: Box, files: Mapping[str, str], image: str, options: RoleOptions) -> dict[str, Any]:
    selector = {"matchLabels": labels_of(name_of(box))}
    runs = container(image, "", _box_arguments(box, next(iter(files)), options))
    runs["volumeMounts"].append({"name": "boxes", "mountPath": _FOLDER, "readOnly": True})
    spec = pod(name_of(box), runs, selector)
    spec["volumes"].append({"name": "boxes", "configMap": {"name": name_of(box)}})
    if WebhookDuties.of(box):
        serve_webhooks(runs, spec, name_of(box))
    return deployment_of(name_of(box), spec, options, _hash(files))


def _box_arguments(box: Box, file: str, options: RoleOptions) -> list[str]:
    elect = ["--leader-elect", f"--leader-elect-resource-name={name_of(box)}"] if options.elects else []
    return [
        *("box", "run", f"{_FOLDER}/{file}"),
        f"--namespace={options.namespace}",
        *(f"--watch-namespace={namespace}" for namespace in options.tenants),
        f"--listen=[::]:{HEALTH_PORT}",
        *elect,
    ]


def _hash(files: Mapping[str, str]) -> dict[str, str]:
    """Return a pod annotation with a hash of the files, so that the pods are recreated when a file changes."""
    return {"box.vworkspace.io/files-hash": content_hash(dict(files))}


def controllers_installation(
    name: str,
    names: Sequence[str],
    roles: Iterable[Mapping[str, Any]],
    image: str,
    options: RoleOptions,
    hooked: Sequence[Resource[Any, Any]] = (),
    trust: WebhookTrust = NOBODY,
) -> Iterator[Mapping[str, Any]]:
    """Yield all manifests that run controllers, except CRDs, whose deletion would delete every object of the kinds.

    `name` is the name of the Deployment and of the ServiceAccount to which `roles` are bound; `<name>-webhook` is that
    of the Service of webhooks. `names` are the controllers to run, whose packages are in `image`. `hooked` are the
    kinds whose webhooks the process serves. `trust` has the authority by which the API server trusts these webhooks.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta_of(name, options.namespace)}
    yield from roles
    runs = container(image, "", _controller_arguments(name, names, options))
    spec = pod(name, runs, {"matchLabels": labels_of(name)})
    if hooked:
        serve_webhooks(runs, spec, name)
    yield deployment_of(name, spec, options, {})
    yield from guards_of(name, options, (HEALTH_PORT, *([WEBHOOK_PORT] if hooked else ())))
    if hooked:
        yield from review_webhooks(name, hooked, meta_of(name, options.namespace), trust)


def _controller_arguments(name: str, names: Sequence[str], options: RoleOptions) -> list[str]:
    elect = ["--leader-elect", f"--leader-elect-resource-name={name}"] if options.elects else []
    return [
        *("controllers", "run", *names),
        f"--namespace={options.namespace}",
        *(f"--watch-namespace={namespace}" for namespace in options.tenants),
        f"--listen=[::]:{HEALTH_PORT}",
        *elect,
    ]


def applied_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the operator's roles to run applied boxes, which are boxes that a user applied as OperatorBox objects.

    The roles for the kinds of each box are not included; `box rbac` prints them.
    """
    name = options.role_name("-boxes")
    yield from cluster_wide(name, APPLIED_EVERYWHERE, options)
    yield from namespace_rbac(name, options.namespace, (APPLIED_OWN,), options)

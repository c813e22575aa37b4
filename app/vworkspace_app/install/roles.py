"""The roles and Deployments of boxes and Python controllers. They get exactly the rights that they use (RUN-7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import Access
from purekube.composites.rights import FORMER, CompositeAccess
from vworkspace_app.install.deployment import deployment
from vworkspace_app.install.names import OWN_NAMESPACE
from vworkspace_app.install.network_objects import disruption_budget, network_policy
from vworkspace_app.install.options import meta
from vworkspace_app.install.rbac import granted, rules


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))  # kustomize refuses an object that is there twice


@attrs.frozen
class RoleOptions:
    """The options of the roles of a controller, which runs in `namespace` as the service account `account`.

    If `account` is empty, the account has the controller's name. The controller may act in the namespaces `tenants`, or
    in every namespace if `tenants` is empty. If `owner_reference_protection` is True, the roles also have the rights
    that the admission plugin OwnerReferencesPermissionEnforcement requires.
    """

    namespace: str = OWN_NAMESPACE
    account: str = ""
    tenants: tuple[str, ...] = attrs.field(default=(), converter=_each_once)
    elects: bool = True
    """True if the controller elects a leader, for which it needs rights on Leases."""
    owner_reference_protection: bool = False
    names_have_account: bool = False
    """True if the names that are given for roles contain the account, so that no other account's roles have them."""

    def role_name(self, name: str, namespace: str | None) -> str:
        """Return the name of a role that is called `name` for the default namespace of installations.

        `namespace` is the role's own, or None for a ClusterRole. Outside the installation's namespace the name says for
        which namespace's account the role is. Otherwise a second installation would bind the role to its account alone,
        and the first one would lose its rights.
        """
        if self.names_have_account or namespace == self.namespace or self.namespace == OWN_NAMESPACE:
            return name
        return f"{name}:{self.namespace}"


def roles_of(
    name: str, access: CompositeAccess, owners: Sequence[Access], options: RoleOptions
) -> Iterator[dict[str, Any]]:
    """Yield the roles of the controller `name` and their bindings.

    `access` has the rights that the controller uses. The roles are a ClusterRole for kinds that are read in all
    namespaces, a Role in each namespace of `options.tenants`, and a Role for leader election. `owners` are further
    rights, which the admission plugin OwnerReferencesPermissionEnforcement requires. They are included only if
    `options.owner_reference_protection` is True.
    """
    everywhere = list(access.everywhere)
    if options.owner_reference_protection:
        everywhere += owners
    if not options.tenants:
        everywhere += access.tenant
    if everywhere:
        yield from _granted(name, everywhere, options)
    for namespace in options.tenants if access.tenant else ():
        yield from _granted(name, access.tenant, options, namespace)
    if options.elects:
        yield from _granted(name, access.own, options, options.namespace, "-election")


def former_roles(name: str, kinds: Sequence[Kind], options: RoleOptions) -> Iterator[dict[str, Any]]:
    """Yield roles to delete objects of kinds that the controller's earlier definition created, with their bindings.

    Each kind has a role of its own, which can be applied alone, and deleted once no object of the kind is left.
    """
    for kind in kinds:
        suffix, access = f"-former-{kind.crd_name}".rstrip("."), [Access(kind, FORMER)]
        for namespace in options.tenants if kind.namespaced and options.tenants else (None,):
            yield from _granted(name, access, options, namespace, suffix)


def controller_deployment(
    name: str, spec: Mapping[str, Any], options: RoleOptions, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return the Deployment of the controller `name`. `spec` and `annotations` are its pods' spec and annotations.

    It has two replicas if the controller elects a leader, and otherwise one.
    """
    about = {"labels": meta_of(name)["labels"], **({"annotations": dict(annotations)} if annotations else {})}
    replicas = 2 if options.elects else 1
    return deployment(meta_of(name, options.namespace), replicas, labels_of(name), about, spec)


def guards_of(name: str, options: RoleOptions, ports: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the NetworkPolicy of the pods of the controller `name`, by which only `ports` can be reached.

    If the controller elects a leader, so that it has two replicas, also yield the PodDisruptionBudget of its pods.
    """
    metadata = meta_of(name, options.namespace)
    yield network_policy(metadata, labels_of(name), ports)
    if options.elects:
        yield disruption_budget(metadata, labels_of(name))


def _granted(
    name: str, accesses: Sequence[Access], options: RoleOptions, namespace: str | None = None, suffix: str = ""
) -> Iterator[dict[str, Any]]:
    account = {"kind": "ServiceAccount", "name": options.account or name, "namespace": options.namespace}
    metadata = meta_of(name, namespace) | {"name": options.role_name(f"{name}{suffix}", namespace)}
    return granted(metadata, rules(accesses), account)


def meta_of(name: str, namespace: str | None = None) -> dict[str, Any]:
    """Return the metadata of an object that installs the controller `name`, and has its name."""
    return meta(name, namespace, labels_of(name))


def labels_of(name: str) -> Mapping[str, str]:
    """Return the labels of all objects that install the controller `name`, shortened if it is too long for a label."""
    return {"app.kubernetes.io/name": bounded_name(name)}

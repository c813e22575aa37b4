"""Roles and bindings, derived from the registry of verbs that the operator uses on each kind (RUN-7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.resources import RBAC_GROUP, Access, resources
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import InstallOptions, meta
from vworkspace_core.install import access

_ORDER: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate")
_AGGREGATED: Final = (
    ("view", access.VIEW, ("view", "edit", "admin")),
    ("edit", access.EDIT, ("edit", "admin")),
)
"""The ClusterRoles to aggregate: name suffix, rights, and the built-in ClusterRoles that shall include these rights."""


def rules(accesses: Iterable[Access]) -> list[dict[str, Any]]:
    """Return RBAC rules that grant exactly the rights `accesses`: each is a kind with the permitted verbs.

    Resources of one API group with equal verbs share a rule.
    """
    together: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), verbs in sorted(resources(accesses).items()):
        ordered = tuple(verb for verb in _ORDER if verb in verbs)
        together.setdefault((group, name, ordered), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": resources,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(verbs),
        }
        for (group, name, verbs), resources in together.items()
    ]


def cluster_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the operator's ClusterRole and its binding.

    If `options` request it, also yield a second ClusterRole with the rights that the admission plugin
    OwnerReferencesPermissionEnforcement requires. It is separate so that applying the manifests without that option
    does not take these rights away.
    """
    yield from cluster_wide(options.role_name(), access.EVERYWHERE, options)
    if options.owner_reference_protection:
        owned = (Access(kind, ("update",), "finalizers") for kind in access.OWNERS)
        yield from cluster_wide(options.role_name("-owners"), owned, options)


def cluster_wide(name: str, accesses: Iterable[Access], options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the ClusterRole `name` with the rights `accesses`, and its binding to the account that runs the operator.

    If `options` name a user, the role is bound to the user instead.
    """
    yield role_of("ClusterRole", meta(name), rules(accesses))
    yield _binding("ClusterRoleBinding", "ClusterRole", name, options)


def tenant_roles() -> Iterator[dict[str, Any]]:
    """Yield ClusterRoles for the operator's kinds, which Kubernetes aggregates into its roles view, edit and admin."""
    for suffix, granted, into in _AGGREGATED:
        metadata = meta(f"{NAME}-{suffix}")
        metadata["labels"] |= {f"{RBAC_GROUP}/aggregate-to-{role}": "true" for role in into}
        yield role_of("ClusterRole", metadata, rules(granted))


def page_rbac(options: InstallOptions) -> dict[str, Any]:
    """Return the ClusterRoleBinding by which the operator may create TokenReviews and SubjectAccessReviews (SEE-3).

    The operator's web page needs them to check its visitors.
    """
    delegator = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "system:auth-delegator"}
    name = options.role_name("-page")
    return {**_binding("ClusterRoleBinding", "ClusterRole", name, options), "roleRef": delegator}


def namespace_rbac(
    name: str, namespace: str, accesses: Iterable[Access], options: InstallOptions
) -> Iterator[dict[str, Any]]:
    """Yield the Role `name` with the rights `accesses`, and its binding to the account that runs the operator.

    If `options` name a user, the role is bound to the user instead.
    """
    yield role_of("Role", meta(name, namespace), rules(accesses))
    yield _binding("RoleBinding", "Role", name, options, namespace)


def role_of(kind: str, metadata: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a Role or ClusterRole, as `kind` says."""
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def binding_of(
    kind: str, metadata: Mapping[str, Any], role: str, name: str, subject: Mapping[str, str]
) -> dict[str, Any]:
    """Return the binding (a RoleBinding or ClusterRoleBinding, as `kind` says) of a role to a subject."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role, "name": name},
        "subjects": [subject],
    }


def _binding(kind: str, role: str, name: str, options: InstallOptions, namespace: str | None = None) -> dict[str, Any]:
    return binding_of(kind, meta(name, namespace), role, name, _subject(options))


def _subject(options: InstallOptions) -> dict[str, str]:
    if options.user:
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": options.user}
    return {"kind": "ServiceAccount", "name": NAME, "namespace": options.namespace}

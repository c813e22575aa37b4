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
    yield from operator_role(options.role_name(), access.EVERYWHERE, options)
    if options.owner_reference_protection:
        owned = (Access(kind, ("update",), "finalizers") for kind in access.OWNERS)
        yield from operator_role(options.role_name("-owners"), owned, options)


def operator_role(
    name: str, accesses: Iterable[Access], options: InstallOptions, namespace: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the role `name` with the rights `accesses`, and its binding to the account that runs the operator.

    It is a Role in `namespace`, or a ClusterRole without one. A user that `options` name gets the binding instead.
    """
    return granted(meta(name, namespace), rules(accesses), _subject(options))


def tenant_roles() -> Iterator[dict[str, Any]]:
    """Yield ClusterRoles for the operator's kinds, which Kubernetes aggregates into its roles view, edit and admin."""
    for suffix, accesses, into in _AGGREGATED:
        metadata = meta(f"{NAME}-{suffix}")
        metadata["labels"] |= {f"{RBAC_GROUP}/aggregate-to-{role}": "true" for role in into}
        yield _role(metadata, rules(accesses))


def page_rbac(options: InstallOptions) -> dict[str, Any]:
    """Return the ClusterRoleBinding by which the operator may create TokenReviews and SubjectAccessReviews (SEE-3).

    The operator's web page needs them to check its visitors.
    """
    return binding_of(meta(options.role_name("-page")), "ClusterRole", "system:auth-delegator", _subject(options))


def granted(
    metadata: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], subject: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a role with these rules, and its binding to `subject`, both with this metadata.

    It is a Role if the metadata has a namespace, and otherwise a ClusterRole.
    """
    role = _role(metadata, rules)
    yield role
    yield binding_of(metadata, role["kind"], metadata["name"], subject)


def _role(metadata: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kind = "Role" if "namespace" in metadata else "ClusterRole"
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def binding_of(metadata: Mapping[str, Any], kind: str, role: str, subject: Mapping[str, str]) -> dict[str, Any]:
    """Return the binding of the role `role`, a Role or ClusterRole as `kind` says, to a subject.

    It is a RoleBinding if the metadata has a namespace, and otherwise a ClusterRoleBinding.
    """
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding" if "namespace" in metadata else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role},
        "subjects": [subject],
    }


def _subject(options: InstallOptions) -> dict[str, str]:
    if options.user:
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": options.user}
    return {"kind": "ServiceAccount", "name": NAME, "namespace": options.namespace}

"""Role-based access control: attributes of requests, their evaluation against roles and bindings, and refusals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from kubelab.model.calls import Caller, RequestTarget, RequestVerb
from kubelab.model.definition import Behaviour, ServedKind
from kubelab.model.failure import ApiFailure, forbidden
from kubelab.model.records import GroupResource, StoredChange
from kubelab.model.resources import ServedResource, resource_of
from kubelab.storage.store import Store
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import ACCESS_REVIEW, RBAC_GROUP, SELF_ACCESS_REVIEW, service_account_user
from purekube.schema.node import ANYTHING

_OPENAPI: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TOKEN_REVIEW: Final = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
_KINDS: Final = (
    SELF_ACCESS_REVIEW,
    ACCESS_REVIEW,
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False),
    TOKEN_REVIEW,
)
REVIEWS: Final[frozenset[GroupResource]] = frozenset((kind.group, kind.plural) for kind in _KINDS)
"""The resources of reviews, such as SubjectAccessReview: a POST to one of them is answered, and nothing is stored."""

OPEN_REVIEWS: Final = REVIEWS - {(kind.group, kind.plural) for kind in (ACCESS_REVIEW, TOKEN_REVIEW)}
"""The resources of reviews of the caller itself, open to every caller as by the ClusterRole `system:basic-user`.

Reviews of other users need a right.
"""


def review_resources() -> tuple[ServedResource, ...]:
    """Return the served resources of the access review kinds, whose only verb is create."""
    return tuple(resource_of(_definition(kind), verbs=("create",)) for kind in _KINDS)


def _definition(kind: Kind) -> ServedKind:
    return ServedKind(
        kind=kind,
        schema=ANYTHING,
        openapi=_OPENAPI,
        served_versions=frozenset({kind.api_version}),
        behaviour=Behaviour(),
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List",
    )


@attrs.frozen
class Attributes:
    """The facts about a request that decide whether it is allowed: its verb, its resource and its object's name.

    `namespace` is empty for a request about cluster-scoped objects. `name` is empty for a request about a whole
    collection.
    """

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


Authorize = Callable[[Caller, Attributes], bool]
"""A function that reports whether the caller may do what the attributes describe."""


def attributes_of(verb: RequestVerb, target: RequestTarget, only: str = "") -> Attributes:
    """Return the authorization attributes of a request: `verb` on `target`.

    `only` is the object name that a list or watch selects; empty if it selects no single name.
    """
    resource = target.resource
    name = target.name or only
    # apiserver: endpoints/request/requestinfo.go, NewRequestInfo: a namespace is in itself, so that a Role in it can
    # permit requests about it.
    own = target.name if (resource.group, resource.plural) == ("", "namespaces") else ""
    return Attributes(verb.value, resource.group, resource.plural, target.subresource, target.namespace or own, name)


def review_attributes(asked: Mapping[str, Any]) -> Attributes:
    """Return the attributes of the request that an access review asks about. `asked` is its `resourceAttributes`."""
    texts = {
        key: str(asked.get(key) or "") for key in ("verb", "group", "resource", "subresource", "namespace", "name")
    }
    return Attributes(**texts)


def denied(caller: Caller, asked: Attributes) -> ApiFailure:
    """Return the 403 failure for the request `asked` of a caller without permission, in kube-apiserver's words.

    The message names the caller, the verb, the resource and the namespace.
    """
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = f'User "{caller.user}" cannot {asked.verb} resource "{resource}" in API group "{asked.group}" {where}'
    return forbidden(asked.group, asked.resource, asked.name, why)


# The real rule is the binding of cluster-admin to this group; without bootstrap roles it is a constant here.
MASTERS: Final = "system:masters"
_EVERYTHING: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}

Rule = Mapping[str, Any]


@attrs.frozen
class _Grant:
    """The rights that one role binding grants: every one of `subjects` has the rights in `rules`.

    They have these rights in `namespace` or, if that is empty, in the whole cluster.
    """

    subjects: Sequence[Mapping[str, Any]]
    namespace: str
    rules: tuple[Rule, ...]


class Rbac:
    """An authorizer that evaluates the roles and bindings in the store.

    The authorizer reads them again only after a role or binding has changed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: tuple[_Grant, ...] | None = None
        store.observe(self._on_change)

    def allows(self, caller: Caller, asked: Attributes) -> bool:
        """Report whether a rule of one of the caller's bindings permits the request with the attributes `asked`.

        The group `system:masters` may do everything, and every caller may review its own rights.
        """
        if MASTERS in caller.groups or (asked.group, asked.resource) in OPEN_REVIEWS:
            return True
        # kubernetes: plugin/pkg/auth/authorizer/rbac/rbac.go: rules only add, and nothing denies.
        return any(permits(rule, asked) for rule in self.rules(caller, asked.namespace))

    def rules(self, caller: Caller, namespace: str) -> Iterator[Rule]:
        """Yield every rule that the caller's bindings grant in a namespace.

        An empty namespace means cluster-scoped requests.
        """
        if MASTERS in caller.groups:
            yield _EVERYTHING
        for grant in self._current():
            if grant.namespace in ("", namespace) and any(
                applies_to(subject, caller, grant.namespace) for subject in grant.subjects
            ):
                yield from grant.rules

    def _on_change(self, where: GroupResource, change: StoredChange) -> None:
        if where[0] == RBAC_GROUP:
            self._grants = None

    def _current(self) -> tuple[_Grant, ...]:
        if self._grants is None:
            self._grants = tuple(self._read())
        return self._grants

    def _read(self) -> Iterator[_Grant]:
        for plural in ("rolebindings", "clusterrolebindings"):
            for record in self._store.scan((RBAC_GROUP, plural)):
                binding = record.shared()
                # A missing role has no rules.
                role = self.role(binding["roleRef"], record.key[0]) or ()
                yield _Grant(binding.get("subjects") or (), record.key[0], role)

    def role(self, reference: Mapping[str, str], namespace: str) -> tuple[Rule, ...] | None:
        """Return the rules of the role that a binding in `namespace` refers to, None if there is no such role."""
        clusterwide = reference["kind"] == "ClusterRole"
        where = (RBAC_GROUP, "clusterroles" if clusterwide else "roles")
        # A RoleBinding may refer to a ClusterRole, whose rules then count in the binding's namespace only.
        record = self._store.get(where, ("" if clusterwide else namespace, reference["name"]))
        return None if record is None else tuple(record.shared().get("rules") or ())


def service_account(namespace: str, name: str) -> Caller:
    """Return the caller for requests with the token of the service account `namespace`/`name`."""
    # apiserver: authentication/serviceaccount/util.go, MakeGroupNames; the authenticator adds system:authenticated.
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Caller(service_account_user(namespace, name), groups)


def applies_to(subject: Mapping[str, Any], caller: Caller, namespace: str) -> bool:
    """Report whether a binding's subject means this caller: the user, a group of the user, or the ServiceAccount.

    A ServiceAccount without a namespace is one of the binding's own `namespace`.
    """
    match subject.get("kind"):
        case "User":
            return bool(subject["name"] == caller.user)
        case "Group":
            return subject["name"] in caller.groups
        case "ServiceAccount":
            return caller.user == service_account_user(subject.get("namespace") or namespace, subject["name"])
        case _:
            return False


def permits(rule: Rule, asked: Attributes) -> bool:
    """Report whether a role's `rule` permits the request with the attributes `asked`."""
    names = rule.get("resourceNames") or ()
    return (
        is_listed(rule.get("verbs"), asked.verb)
        and is_listed(rule.get("apiGroups"), asked.group)
        and _has_resource(rule.get("resources") or (), asked)
        # kubernetes: apis/rbac/v1/evaluation_helpers.go, ResourceNameMatches: a create or a list has no name, so a rule
        # with names never permits it, unless a selector gives the name.
        and (not names or asked.name in names)
    )


def is_listed(values: Sequence[str] | None, desired: str) -> bool:
    """Report whether `values`, a list of a rule, have the text `desired` or the wildcard."""
    return values is not None and ("*" in values or desired in values)


def _has_resource(resources: Sequence[str], asked: Attributes) -> bool:
    if "*" in resources:
        return True
    # A resource does not include its subresources: `pods` permits nothing on `pods/log`, which `*` does.
    if not asked.subresource:
        return asked.resource in resources
    return f"{asked.resource}/{asked.subresource}" in resources or f"*/{asked.subresource}" in resources

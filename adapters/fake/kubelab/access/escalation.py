"""The rule that a caller grants no rights that it does not have, by a role or a binding.

The verb `escalate` on a role permits to write any rules into it, and `bind` to bind any role (kubernetes:
`pkg/registry/rbac`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import attrs

from kubelab.access.authorization import MASTERS, Attributes, Authorize, Rbac, Rule, is_listed, permits
from kubelab.model.calls import Caller
from kubelab.model.failure import forbidden, not_found
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import RBAC_GROUP
from purekube.schema.causes import quoted
from purekube.schema.structure import equal

_ROLES: Final = {"Role": "roles", "ClusterRole": "clusterroles"}
_BINDINGS: Final = {"RoleBinding": "rolebindings", "ClusterRoleBinding": "clusterrolebindings"}
_FREE: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


@attrs.frozen
class RuleRight:
    """The smallest right that a rule grants: one verb on one resource, one object of it, or one URL."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str | None = None
    url: str | None = None


def rights_of(rule: Rule) -> Iterator[RuleRight]:
    """Yield every right that a rule grants."""
    names: Sequence[str | None] = rule.get("resourceNames") or (None,)
    groups, resources, verbs = (rule.get(key) or () for key in ("apiGroups", "resources", "verbs"))
    for group, resource, verb, name in product(groups, resources, verbs, names):
        yield RuleRight(verb, group, resource, name)
    for url, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield RuleRight(verb, url=url)


def covers(rule: Rule, right: RuleRight) -> bool:
    """Report whether a rule contains a right."""
    if right.url is None:
        plural, _, inner = right.resource.partition("/")
        return permits(rule, Attributes(right.verb, right.group, plural, inner, name=right.name or ""))
    urls = rule.get("nonResourceURLs") or ()
    return is_listed(rule.get("verbs"), right.verb) and any(_covers_url(held, right.url) for held in urls)


def _covers_url(held: str, url: str) -> bool:
    return held == url or (held.endswith("*") and url.startswith(held.rstrip("*")))


def missing(held: Iterable[Rule], granted: Iterable[Rule]) -> list[RuleRight]:
    """Return the rights in the rules `granted` that no rule in `held` contains."""
    known = tuple(held)
    rights = dict.fromkeys(right for rule in granted for right in rights_of(rule))
    return [right for right in rights if not any(covers(rule, right) for rule in known)]


def described(rights: Iterable[RuleRight]) -> str:
    """Return rights as kube-apiserver lists them, one line for all verbs on the same resource."""
    verbs: dict[RuleRight, list[str]] = {}
    for right in rights:
        verbs.setdefault(attrs.evolve(right, verb=""), []).append(right.verb)
    return "\n".join(sorted(_line(right, listed) for right, listed in verbs.items()))


def _line(right: RuleRight, verbs: Sequence[str]) -> str:
    parts = {} if right.url is not None else {"APIGroups": [right.group], "Resources": [right.resource]}
    parts |= {} if right.url is None else {"NonResourceURLs": [right.url]}
    parts |= {} if right.name is None else {"ResourceNames": [right.name]}
    return "{" + ", ".join(f"{key}:{_go(values)}" for key, values in {**parts, "Verbs": list(verbs)}.items()) + "}"


def _go(values: Iterable[str]) -> str:
    return "[" + " ".join(map(quoted, values)) + "]"


def check_grant(rbac: Rbac, authorize: Authorize, caller: Caller, new: Manifest, old: Manifest | None) -> None:
    """Raise ApiFailure 403 if the role or binding `new` grants rights that its writer `caller` does not have.

    `old` is the object before an update. Raises 404 for a binding to a role that is not there, unless the caller may
    bind it nevertheless. Objects of other kinds are not checked.
    """
    kind, meta = new["kind"], new["metadata"]
    is_role = kind in _ROLES
    if (
        MASTERS in caller.groups
        or not (is_role or kind in _BINDINGS)
        or (old is not None and _is_housekeeping(new, old))
    ):
        return
    namespace, plural = meta.get("namespace", ""), _ROLES.get(kind) or _BINDINGS[kind]
    if is_role:
        asked = Attributes("escalate", RBAC_GROUP, plural, "", namespace, "" if old is None else meta["name"])
        granted: Sequence[Rule] | None = new.get("rules") or ()
    else:
        role = new["roleRef"]
        asked = Attributes("bind", RBAC_GROUP, _ROLES[role["kind"]], "", namespace, role["name"])
        granted = rbac.role(role, namespace)
    if authorize(caller, asked):
        return
    if granted is None:
        # The real one names the plural of the binding with the name of the role, too.
        raise not_found(RBAC_GROUP, plural, new["roleRef"]["name"])
    if lacking := missing(rbac.rules(caller, namespace), granted):
        who = f"user {quoted(caller.user)} (groups={_go(caller.groups)})"
        why = f"{who} is attempting to grant RBAC permissions not currently held:\n{described(lacking)}"
        raise forbidden(RBAC_GROUP, plural, meta["name"], why)


def _is_housekeeping(new: Manifest, old: Manifest) -> bool:
    """Report whether an update changes nothing but owners and finalizers, as the garbage collector does."""
    return equal(_rest(new), _rest(old))


def _rest(manifest: Manifest) -> dict[str, Any]:
    meta = {key: value for key, value in manifest["metadata"].items() if key not in _FREE}
    return {**manifest, "metadata": meta}

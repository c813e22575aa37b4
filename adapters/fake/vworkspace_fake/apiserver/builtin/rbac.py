"""Role, ClusterRole and their bindings."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.errors import Cause
from vworkspace_core.manifest import Kind
from vworkspace_core.schema.causes import invalid_value, not_supported, required
from vworkspace_core.schema.equality import equal
from vworkspace_fake.apiserver.behaviour import Behaviour, Generation, NameRule
from vworkspace_fake.apiserver.builtin.build import built_in
from vworkspace_fake.apiserver.builtin.openapi import STRING, STRINGS, items, obj, whole
from vworkspace_fake.apiserver.builtin.pod_defaults import filled
from vworkspace_fake.apiserver.builtin.shapes import LABEL_SELECTOR

__all__ = ["RBAC"]

Manifest = Mapping[str, Any]

GROUP: Final = "rbac.authorization.k8s.io"

_RULES: Final = items(
    obj("verbs", apiGroups=STRINGS, nonResourceURLs=STRINGS, resourceNames=STRINGS, resources=STRINGS, verbs=STRINGS)
)
_ROLE_REF: Final = whole(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING))
_SUBJECTS: Final = items(whole(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING)))


def _check_role(manifest: Manifest) -> list[Cause]:
    found = []
    for index, rule in enumerate(manifest.get("rules") or ()):
        where = f"rules[{index}]"
        if not rule.get("verbs"):
            found.append(required(f"{where}.verbs", "verbs must contain at least one value"))
        if not rule.get("nonResourceURLs"):
            if not rule.get("apiGroups"):
                found.append(required(f"{where}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                found.append(required(f"{where}.resources", "resource rules must supply at least one resource"))
    return found


def _read_binding(manifest: Manifest) -> Manifest:
    reference = manifest.get("roleRef") or {}
    subjects = [_subject(one) for one in manifest.get("subjects") or ()]
    return {
        **manifest,
        "roleRef": filled(reference, apiGroup=GROUP),
        **({"subjects": subjects} if subjects else {}),
    }


def _subject(subject: Mapping[str, Any]) -> Mapping[str, Any]:
    return filled(subject, apiGroup=GROUP) if subject.get("kind") in ("User", "Group") else subject


def _check_binding(manifest: Manifest) -> list[Cause]:
    reference = manifest["roleRef"]
    kinds = ("Role", "ClusterRole") if manifest["metadata"].get("namespace") else ("ClusterRole",)
    found = []
    if reference.get("kind") not in kinds:
        found.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        found.append(required("roleRef.name"))
    for index, subject in enumerate(manifest.get("subjects") or ()):
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            found.append(required(f"subjects[{index}].namespace"))
    return found


def _check_binding_update(new: Manifest, old: Manifest) -> list[Cause]:
    found = _check_binding(new)
    if not equal(new["roleRef"], old["roleRef"]):
        found.append(invalid_value("roleRef", new["roleRef"], "cannot change roleRef"))
    return found


_ROLE: Final = Behaviour(
    generation=Generation.NEVER,
    unconditional_update=True,
    name_rule=NameRule.SEGMENT,
    check=_check_role,
    check_update=lambda new, old: _check_role(new),
)
_BINDING: Final = Behaviour(
    skeleton={"roleRef": {}},
    generation=Generation.NEVER,
    unconditional_update=True,
    name_rule=NameRule.SEGMENT,
    read=_read_binding,
    check=_check_binding,
    check_update=_check_binding_update,
)

RBAC: Final = (
    built_in(Kind(GROUP, "v1", "Role", "roles"), obj(rules=_RULES), _ROLE),
    built_in(
        Kind(GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False),
        obj(aggregationRule=obj(clusterRoleSelectors=items(LABEL_SELECTOR)), rules=_RULES),
        _ROLE,
    ),
    built_in(Kind(GROUP, "v1", "RoleBinding", "rolebindings"), obj(roleRef=_ROLE_REF, subjects=_SUBJECTS), _BINDING),
    built_in(
        Kind(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
        obj(roleRef=_ROLE_REF, subjects=_SUBJECTS),
        _BINDING,
    ),
)

"""The definitions of the built-in kinds Role, ClusterRole and their bindings: defaults and checks."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from kubelab.builtin.container_checks import named_causes
from kubelab.builtin.definition_builder import built_in, filled
from kubelab.builtin.selector_checks import selector_causes
from kubelab.model.definition import Behaviour, NameRule
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import RBAC_GROUP
from purekube.schema.builtin import basic_schemas as schemas
from purekube.schema.causes import invalid_value, not_supported, required
from purekube.schema.structure import equal

_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def _check_role(manifest: Manifest) -> Iterator[StatusCause]:
    for index, rule in enumerate(manifest.get("rules") or ()):
        where = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{where}.verbs", "verbs must contain at least one value")
        # pkg/apis/rbac/validation/validation.go, ValidatePolicyRule.
        urls = rule.get("nonResourceURLs")
        if urls and manifest["metadata"].get("namespace"):
            text = "namespaced rules cannot apply to non-resource URLs"
            yield invalid_value(f"{where}.nonResourceURLs", urls, text)
        if not urls and not rule.get("apiGroups"):
            yield required(f"{where}.apiGroups", "resource rules must supply at least one api group")
        if not urls and not rule.get("resources"):
            yield required(f"{where}.resources", "resource rules must supply at least one resource")


def _check_cluster_role(manifest: Manifest) -> Iterator[StatusCause]:
    yield from _check_role(manifest)
    if (rule := manifest.get("aggregationRule")) is not None:
        where = "aggregationRule.clusterRoleSelectors"
        if not rule.get("clusterRoleSelectors"):
            yield required(where, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for index, selector in enumerate(rule.get("clusterRoleSelectors") or ()):
            yield from selector_causes(selector, f"{where}[{index}]")


def _read_binding(manifest: Manifest) -> Manifest:
    # pkg/apis/rbac/v1/defaults.go.
    reference = manifest.get("roleRef") or {}
    subjects = [_subject(subject) for subject in manifest.get("subjects") or ()]
    return {
        **manifest,
        "roleRef": filled(reference, apiGroup=RBAC_GROUP),
        **({"subjects": subjects} if subjects else {}),
    }


def _subject(subject: Mapping[str, Any]) -> Mapping[str, Any]:
    return filled(subject, apiGroup=RBAC_GROUP) if subject.get("kind") in ("User", "Group") else subject


def _check_binding(manifest: Manifest) -> Iterator[StatusCause]:
    reference = manifest["roleRef"]
    space = manifest["metadata"].get("namespace")
    kinds = ("Role", "ClusterRole") if space else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    yield from named_causes(reference.get("name"), "roleRef.name", NameRule.SEGMENT)
    if reference.get("apiGroup") != RBAC_GROUP:
        yield not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (RBAC_GROUP,))
    for index, subject in enumerate(manifest.get("subjects") or ()):
        yield from _subject_causes(subject, f"subjects[{index}]", is_namespaced=bool(space))


def _subject_causes(subject: Mapping[str, Any], path: str, *, is_namespaced: bool) -> Iterator[StatusCause]:
    if not subject.get("name"):
        yield required(f"{path}.name")
    if (kind := subject.get("kind", "")) not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
        return
    group = "" if kind == "ServiceAccount" else RBAC_GROUP
    if subject.get("apiGroup", "") != group:
        yield not_supported(f"{path}.apiGroup", subject.get("apiGroup", ""), (group,))
    if kind == "ServiceAccount":
        yield from named_causes(subject.get("name"), f"{path}.name", NameRule.SUBDOMAIN)
        # In a RoleBinding, an account without a namespace is one of the binding's own.
        if not (is_namespaced or subject.get("namespace")):
            yield required(f"{path}.namespace")


def _check_binding_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    yield from _check_binding(new)
    if not equal(new["roleRef"], old["roleRef"]):
        yield invalid_value("roleRef", new["roleRef"], "cannot change roleRef")


_ROLE: Final = Behaviour(name_rule=NameRule.SEGMENT, check=_check_role)
_BINDING: Final = Behaviour(
    skeleton={"roleRef": {}},
    name_rule=NameRule.SEGMENT,
    read=_read_binding,
    check=_check_binding,
    check_update=_check_binding_update,
)

RBAC: Final = (
    built_in(schemas.ROLE, _ROLE),
    built_in(schemas.CLUSTER_ROLE, attrs.evolve(_ROLE, check=_check_cluster_role)),
    built_in(schemas.ROLE_BINDING, _BINDING),
    built_in(schemas.CLUSTER_ROLE_BINDING, _BINDING),
)

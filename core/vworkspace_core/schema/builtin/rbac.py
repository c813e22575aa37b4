"""Schemas of Role, ClusterRole and their bindings."""

from typing import Final

from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.schema.builtin.common_types import LABEL_SELECTOR
from vworkspace_core.schema.builtin.document import BuiltIn
from vworkspace_core.schema.builtin.openapi import STRING, STRINGS, items, obj, whole

GROUP: Final = "rbac.authorization.k8s.io"
_RULES: Final = items(
    obj("verbs", apiGroups=STRINGS, nonResourceURLs=STRINGS, resourceNames=STRINGS, resources=STRINGS, verbs=STRINGS)
)
_ROLE_REF: Final = whole(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING))
_SUBJECTS: Final = items(whole(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING)))
ROLE: Final = BuiltIn(Kind(GROUP, "v1", "Role", "roles"), obj(rules=_RULES))
CLUSTER_ROLE: Final = BuiltIn(
    Kind(GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False),
    obj(aggregationRule=obj(clusterRoleSelectors=items(LABEL_SELECTOR)), rules=_RULES),
)
ROLE_BINDING: Final = BuiltIn(
    Kind(GROUP, "v1", "RoleBinding", "rolebindings"), obj(roleRef=_ROLE_REF, subjects=_SUBJECTS)
)
CLUSTER_ROLE_BINDING: Final = BuiltIn(
    Kind(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    obj(roleRef=_ROLE_REF, subjects=_SUBJECTS),
)

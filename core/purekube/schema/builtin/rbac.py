"""Schemas of Role, ClusterRole and their bindings."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.schema.builtin.common_types import LABEL_SELECTOR
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import STRING, STRINGS, atomic_object, items, obj

_RULES: Final = items(
    obj("verbs", apiGroups=STRINGS, nonResourceURLs=STRINGS, resourceNames=STRINGS, resources=STRINGS, verbs=STRINGS)
)
_ROLE_REF: Final = atomic_object(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING))
_SUBJECTS: Final = items(
    atomic_object(obj("kind", "name", apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING))
)
ROLE: Final = BuiltIn(known.ROLE, obj(rules=_RULES))
CLUSTER_ROLE: Final = BuiltIn(
    known.CLUSTER_ROLE,
    obj(aggregationRule=obj(clusterRoleSelectors=items(LABEL_SELECTOR)), rules=_RULES),
)
ROLE_BINDING: Final = BuiltIn(known.ROLE_BINDING, obj(roleRef=_ROLE_REF, subjects=_SUBJECTS))
CLUSTER_ROLE_BINDING: Final = BuiltIn(
    known.CLUSTER_ROLE_BINDING,
    obj(roleRef=_ROLE_REF, subjects=_SUBJECTS),
)

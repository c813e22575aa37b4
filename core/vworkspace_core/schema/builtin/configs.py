"""Schemas of Namespace, ConfigMap, Secret and ServiceAccount."""

from typing import Final

from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.schema.builtin.common_types import CONDITIONS, OBJECT_REFERENCE
from vworkspace_core.schema.builtin.document import BuiltIn
from vworkspace_core.schema.builtin.openapi import BOOL, BYTES, STRING, STRING_MAP, STRINGS, keyed, obj, table, whole

NAMESPACE: Final = BuiltIn(
    known.NAMESPACE, obj(spec=obj(finalizers=STRINGS), status=obj(phase=STRING, conditions=CONDITIONS))
)
CONFIG_MAP: Final = BuiltIn(known.CONFIG_MAP, obj(binaryData=table(BYTES), data=STRING_MAP, immutable=BOOL))
SECRET: Final = BuiltIn(known.SECRET, obj(data=table(BYTES), immutable=BOOL, stringData=STRING_MAP, type=STRING))
SERVICE_ACCOUNT: Final = BuiltIn(
    Kind("", "v1", "ServiceAccount", "serviceaccounts"),
    obj(
        automountServiceAccountToken=BOOL,
        imagePullSecrets={
            "type": "array",
            "items": whole(obj(name=STRING)),
            "x-kubernetes-patch-merge-key": "name",
        },
        secrets=keyed({**OBJECT_REFERENCE, "required": ["name"]}, "name"),
    ),
)

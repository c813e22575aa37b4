"""Schemas of Namespace, ConfigMap, Secret and ServiceAccount."""

from typing import Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.common_types import CONDITIONS, OBJECT_REFERENCE
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import BOOL, BYTES, STRING, STRING_MAP, STRINGS, atomic_object, keyed, obj, table

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
            "items": atomic_object(obj(name=STRING)),
            "x-kubernetes-patch-merge-key": "name",
        },
        secrets=keyed({**OBJECT_REFERENCE, "required": ["name"]}, "name"),
    ),
)

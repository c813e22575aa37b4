"""The schema of `metadata`, which every object has and no CRD declares."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.schema.compile import compile_node
from purekube.schema.node import Schema

_STRING: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time", "nullable": True}
_INTEGER: Final = {"type": "integer", "format": "int64"}
_STRINGS: Final = {"type": "object", "additionalProperties": _STRING, "nullable": True}

OBJECT_META_OPENAPI: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "creationTimestamp": _TIME,
        "deletionGracePeriodSeconds": _INTEGER,
        "deletionTimestamp": _TIME,
        "finalizers": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set", "nullable": True},
        "generateName": _STRING,
        "generation": _INTEGER,
        "labels": _STRINGS,
        "managedFields": {
            "type": "array",
            "nullable": True,
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": _STRING,
                    "fieldsType": _STRING,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "manager": _STRING,
                    "operation": _STRING,
                    "subresource": _STRING,
                    "time": _TIME,
                },
            },
        },
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "nullable": True,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    "apiVersion": _STRING,
                    "blockOwnerDeletion": {"type": "boolean"},
                    "controller": {"type": "boolean"},
                    "kind": _STRING,
                    "name": _STRING,
                    "uid": _STRING,
                },
            },
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
"""The schema of ObjectMeta, with its list types for server-side apply: finalizers are a set, and owner references a map
list by uid (S-25).
"""

OBJECT_META: Final[Schema] = compile_node(OBJECT_META_OPENAPI, "metadata")[0]

_TEXT: Final = compile_node(_STRING, "")[0]


def with_type_meta(schema: Schema) -> Schema:
    """Return the schema of a whole object, with the fields apiVersion, kind and metadata added.

    Restrictions that `schema` puts on `metadata.name` and `metadata.generateName` stay in force.
    """
    declared = schema.properties.get("metadata")
    metadata = OBJECT_META
    if declared is not None and declared.properties:
        metadata = attrs.evolve(OBJECT_META, properties={**OBJECT_META.properties, **declared.properties})
    properties = {"apiVersion": _TEXT, "kind": _TEXT, **schema.properties, "metadata": metadata}
    return attrs.evolve(schema, properties=properties, embedded=True, free=schema.preserve_unknown, has_keys=True)

"""The schema of `metadata`, as OpenAPI shows it and `kubectl explain` prints it."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OBJECT_META", "OBJECT_META_NAME"]

OBJECT_META_NAME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _time(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "date-time", "description": description}


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": description}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


_OWNER: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _text("API version of the owner."),
        "kind": _text("Kind of the owner."),
        "name": _text("Name of the owner."),
        "uid": _text("UID of the owner."),
        "controller": {"type": "boolean", "description": "Whether this owner is the managing controller."},
        "blockOwnerDeletion": {
            "type": "boolean",
            "description": "Whether a foreground deletion of the owner waits for this object.",
        },
    },
}
_MANAGED_FIELDS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": _text("Version that the field set is written in."),
        "fieldsType": _text("Form of the field set; FieldsV1."),
        "fieldsV1": {"type": "object", "description": "The fields that the manager owns."},
        "manager": _text("Who owns them."),
        "operation": _text("Apply or Update."),
        "subresource": _text("Subresource through which they were written."),
        "time": _time("When the manager last changed them."),
    },
}

OBJECT_META: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Metadata that every object has.",
    "properties": {
        "annotations": _texts("Unstructured values that tools keep with an object."),
        "creationTimestamp": _time("When the server created the object."),
        "deletionGracePeriodSeconds": _number("Seconds the object is given to end."),
        "deletionTimestamp": _time("When the object was asked to go; set by the server."),
        "finalizers": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What must happen before a deleted object goes.",
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": _text("Prefix of a name that the server completes."),
        "generation": _number("Sequence number of the desired state."),
        "labels": _texts("Values that objects are selected by."),
        "managedFields": {
            "type": "array",
            "items": _MANAGED_FIELDS,
            "description": "Which manager owns which fields.",
            "x-kubernetes-list-type": "atomic",
        },
        "name": _text("Name, unique within a namespace and kind."),
        "namespace": _text("Namespace of the object."),
        "ownerReferences": {
            "type": "array",
            "items": _OWNER,
            "description": "Objects that this one depends on.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-merge-key": "uid",
            "x-kubernetes-patch-strategy": "merge",
        },
        "resourceVersion": _text("Opaque version of the stored object."),
        "uid": _text("Identity of the object in time and space."),
    },
}

"""Helpers to write the OpenAPI schemas of built-in kinds concisely, and `BuiltIn`, a kind with its schema.

`obj` is an object with named fields, `items` an atomic list, `keyed` a map list, `unique` a set, `table` a map from
strings to values of one schema. `merging` is a list that only strategic merge patches merge.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.schema.objectmeta import OBJECT_META_OPENAPI


@attrs.frozen(eq=False)
class BuiltIn:
    """A kind that is built into the API server. `openapi` holds all fields except apiVersion, kind and metadata."""

    kind: Kind
    openapi: Mapping[str, Any] = attrs.field(repr=False)


OpenApi = Mapping[str, Any]

STRING: Final[OpenApi] = {"type": "string"}
BYTES: Final[OpenApi] = {"type": "string", "format": "byte"}
BOOL: Final[OpenApi] = {"type": "boolean"}
INT32: Final[OpenApi] = {"type": "integer", "format": "int32"}
INT64: Final[OpenApi] = {"type": "integer", "format": "int64"}
TIME: Final[OpenApi] = {"type": "string", "format": "date-time"}
MICRO_TIME: Final[OpenApi] = {"type": "string", "format": "micro-time"}
"""The schema of MicroTime. An API server checks this format, although it publishes `date-time` for such fields."""
INT_OR_STRING: Final[OpenApi] = {"x-kubernetes-int-or-string": True}
QUANTITY: Final[OpenApi] = {"x-kubernetes-int-or-string": True, "format": "quantity"}
ANY: Final[OpenApi] = {"x-kubernetes-preserve-unknown-fields": True}


def obj(words: str = "", /, **fields: OpenApi) -> OpenApi:
    """Return the schema of an object. `words` lists its fields, separated by spaces.

    A word is the name of a field, which holds a string, or `name:type` with another type of `_TYPES`. A `!` after the
    name makes the field required. `fields` are the fields with other schemas; a trailing underscore in a name there is
    dropped (`from_`).
    """
    given = {name.rstrip("_"): schema for name, schema in fields.items()}
    properties: dict[str, OpenApi] = {}
    required = []
    for word in words.split():
        text, _, kind = word.partition(":")
        name = text.removesuffix("!")
        properties[name] = given.get(name) or _TYPES[kind]
        required += [name] if name != text else []
    out: dict[str, Any] = {"type": "object"}
    if properties or given:
        out["properties"] = {**properties, **given}
    return {**out, "required": required} if required else out


def each(schema: OpenApi, names: str) -> dict[str, OpenApi]:
    """Return a mapping from each of the field names in `names`, which are separated by spaces, to the same schema."""
    return dict.fromkeys(names.split(), schema)


def items(schema: OpenApi) -> OpenApi:
    """Return the schema of an atomic list, each of whose items has the schema `schema`."""
    return {"type": "array", "items": schema}


def keyed(schema: OpenApi, *keys: str, patch_key: str = "") -> OpenApi:
    """Return the schema of a list that is keyed by the fields `keys` (`x-kubernetes-list-type: map`). `patch_key`, if
    given, is the merge key of strategic merge patches.
    """
    out: dict[str, Any] = {
        "type": "array",
        "items": schema,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }
    if patch_key:
        out["x-kubernetes-patch-merge-key"] = patch_key
    return out


def merging(schema: OpenApi, key: str) -> OpenApi:
    """Return the schema of a list that is atomic for apply and merged by `key` in strategic merge patches."""
    return {"type": "array", "items": schema, "x-kubernetes-patch-merge-key": key}


def unique(schema: OpenApi) -> OpenApi:
    """Return the schema of a list of `schema` items without duplicates (`x-kubernetes-list-type: set`)."""
    return {"type": "array", "items": schema, "x-kubernetes-list-type": "set"}


def table(schema: OpenApi) -> OpenApi:
    """Return the schema of a map from strings to values of `schema`."""
    return {"type": "object", "additionalProperties": schema}


def atomic_object(schema: OpenApi) -> OpenApi:
    """Return the object schema `schema` marked as atomic (`x-kubernetes-map-type: atomic`)."""
    return {**schema, "x-kubernetes-map-type": "atomic"}


def defaulted(schema: OpenApi, value: Any) -> OpenApi:
    """Return `schema` with the default `value`."""
    return {**schema, "default": value}


def choice(*values: str) -> OpenApi:
    """Return the schema of a string that must be one of `values`."""
    return {"type": "string", "enum": list(values)}


STRINGS: Final = items(STRING)
STRING_MAP: Final = table(STRING)
_TYPES: Final[dict[str, OpenApi]] = {
    "": STRING,
    "bool": BOOL,
    "int32": INT32,
    "int64": INT64,
    "time": TIME,
    "micro-time": MICRO_TIME,
    "any": ANY,
    "quantity": QUANTITY,
    "quantities": table(QUANTITY),
    "int-or-string": INT_OR_STRING,
    "strings": STRINGS,
    "string-map": STRING_MAP,
}
"""The types that the words of `obj` name."""

_REQUIREMENTS: Final = items(obj("key! operator! values:strings"))

LABEL_SELECTOR: Final = atomic_object(obj("matchLabels:string-map", matchExpressions=_REQUIREMENTS))
NODE_SELECTOR_TERM: Final = atomic_object(obj(matchExpressions=_REQUIREMENTS, matchFields=_REQUIREMENTS))
LOCAL_REFERENCE: Final = atomic_object(obj("name"))
OBJECT_REFERENCE: Final = atomic_object(obj("apiVersion fieldPath kind name namespace resourceVersion uid"))
TYPED_REFERENCE: Final = atomic_object(obj("kind! name! apiGroup"))

CONDITIONS: Final = keyed(
    obj(
        "type! status! reason message lastTransitionTime:time lastUpdateTime:time lastProbeTime:time "
        "lastHeartbeatTime:time observedGeneration:int64"
    ),
    "type",
)
_TYPES.update({"selector": LABEL_SELECTOR, "conditions": CONDITIONS})

EMBEDDED_META: Final = OBJECT_META_OPENAPI
"""The schema of the metadata of a template inside another object, such as a pod template."""

"""Short forms for structural schemas, and the parts that all of Flux's CRDs share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from kubelab.simulation.definitions import Column, definition
from purekube.apimachinery.manifest import Kind

JsonSchema: TypeAlias = dict[str, Any]


def string(**rules: Any) -> JsonSchema:
    """Return the schema of a string with the given rules (`minLength`, `pattern`, …)."""
    return {"type": "string", **rules}


def enum(*values: str, **rules: Any) -> JsonSchema:
    """Return the schema of a string from a closed set."""
    return {"type": "string", "enum": list(values), **rules}


def items(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a list of such values."""
    return {"type": "array", "items": schema}


def record(properties: Mapping[str, JsonSchema], required: Sequence[str] = (), **rules: Any) -> JsonSchema:
    """Return the schema of an object with these fields and no others."""
    schema: JsonSchema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = sorted(required)
    return {**schema, **rules}


STRING: Final = string()
BOOLEAN: Final[JsonSchema] = {"type": "boolean"}
INTEGER: Final[JsonSchema] = {"type": "integer"}
COUNT: Final[JsonSchema] = {"type": "integer", "format": "int64"}
DATE_TIME: Final = string(format="date-time")
DURATION: Final = string(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$")
SHORT_DURATION: Final = string(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$")
STRINGS: Final = items(STRING)
TEXT_MAP: Final[JsonSchema] = {"type": "object", "additionalProperties": STRING}
ANYTHING: Final[JsonSchema] = {"x-kubernetes-preserve-unknown-fields": True}
REFERENCE: Final = record({"name": STRING}, ("name",))

CONDITIONS: Final = items(
    record(
        {
            "type": string(
                maxLength=316,
                pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            ),
            "status": enum("True", "False", "Unknown"),
            "reason": string(minLength=1, maxLength=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
            "message": string(maxLength=32768),
            "lastTransitionTime": DATE_TIME,
            "observedGeneration": {**COUNT, "minimum": 0},
        },
        ("type", "status", "reason", "message", "lastTransitionTime"),
    )
)

ARTIFACT: Final = record(
    {
        "digest": string(pattern=r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"),
        "lastUpdateTime": DATE_TIME,
        "metadata": TEXT_MAP,
        "path": STRING,
        "revision": STRING,
        "size": COUNT,
        "url": STRING,
    },
    ("digest", "lastUpdateTime", "path", "revision", "url"),
)


def crd(
    group: str,
    version: str,
    kind: str,
    plural: str,
    *,
    short_name: str,
    spec: JsonSchema,
    status: JsonSchema,
    columns: Sequence[Column],
) -> dict[str, Any]:
    """Return a CustomResourceDefinition with a status subresource and Flux's default status.

    Columns are name, type and path.
    """
    schema = record(
        {
            "apiVersion": STRING,
            "kind": STRING,
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {**status, "default": {"observedGeneration": -1}},
        }
    )
    return definition(
        Kind(group, version, kind, plural),
        schema,
        subresources={"status": {}},
        columns=columns,
        short_names=(short_name,),
        categories=("all", "fluxcd"),
    )

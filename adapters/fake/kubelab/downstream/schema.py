"""Short forms for the CRDs of the downstream kinds, in addition to those for Flux's."""

from collections.abc import Sequence
from typing import Final

from kubelab.simulation.schema import STRING, JsonSchema, items, record, string

_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY_PATTERN: Final = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
QUANTITY: Final[JsonSchema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}
_EXPRESSION: Final = record(
    {
        "key": STRING,
        "operator": STRING,
        "values": {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"},
    },
    ("key", "operator"),
)
LABEL_SELECTOR: Final = record(
    {
        "matchExpressions": {**items(_EXPRESSION), "x-kubernetes-list-type": "atomic"},
        "matchLabels": {"type": "object", "additionalProperties": STRING},
    },
    **{"x-kubernetes-map-type": "atomic"},
)


def nullable(schema: JsonSchema) -> JsonSchema:
    """Return the schema with null allowed."""
    return {**schema, "nullable": True}


def object_schema(required: Sequence[str] = (), **parts: JsonSchema) -> JsonSchema:
    """Return the schema of a whole object: type, metadata, and the given parts."""
    fixed: dict[str, JsonSchema] = {"apiVersion": string(), "kind": string(), "metadata": {"type": "object"}}
    return record({**fixed, **parts}, required)

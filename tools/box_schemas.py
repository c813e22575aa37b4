"""The schema of a box's file for editors, printed from its classes as JSON Schema (PH-6)."""

from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.openapi import object_schema
from purekube.boxes.model import API_VERSION, KIND, BoxMetadata, BoxSpec, OperatorBox

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema for `# yaml-language-server: $schema=…`: unknown fields are refused, as by the reader."""
    return {
        "$schema": _DIALECT,
        "title": KIND,
        "description": (OperatorBox.__doc__ or "").strip(),
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": _closed(object_schema(BoxMetadata)),
            "spec": _closed(object_schema(BoxSpec)),
        },
    }


def _closed(schema: Any) -> Any:
    """Return the schema without Kubernetes' keywords; objects with named fields allow no others."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: _closed(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if "properties" in plain and "additionalProperties" not in plain:
        plain["additionalProperties"] = False
    return plain

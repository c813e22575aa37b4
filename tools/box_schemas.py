"""The schema of a box's file, printed from its classes: for editors as JSON Schema, and in the shape of a CRD (PH-6).

No cluster serves boxes: the CRD is for tools that know kinds from CRDs alone.
"""

from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.openapi import object_schema
from purekube.boxes.model import API_VERSION, KIND, BoxMetadata, BoxSpec, OperatorBox

_FREE: Final = "x-kubernetes-preserve-unknown-fields"
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


def crd_document() -> dict[str, Any]:
    """Return the CRD, which is structural: a field with several forms preserves any content."""
    group, _, version = API_VERSION.partition("/")
    plural = f"{KIND.lower()}es"
    schema = {
        "type": "object",
        "description": (OperatorBox.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _structural(object_schema(BoxSpec)),
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": plural, "singular": KIND.lower()},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def _structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    if "anyOf" in schema:
        return {**described, _FREE: True}
    if "additionalProperties" in schema:
        return {**described, "type": "object", _FREE: True}
    out = dict(schema)
    if "properties" in schema:
        out["properties"] = {name: _structural(child) for name, child in schema["properties"].items()}
    if "items" in schema:
        out["items"] = _structural(schema["items"])
    return out

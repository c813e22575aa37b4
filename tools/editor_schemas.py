"""JSON Schemas of our kinds for editors (`# yaml-language-server: $schema=…`), made from the CRDs."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.api.crd import crd_manifests

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def editor_schemas() -> Mapping[str, dict[str, Any]]:
    """Return each schema by the name of its file."""
    return {f"{crd['spec']['names']['singular']}.schema.json": _schema(crd) for crd in crd_manifests()}


def _schema(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of what users write.

    It has no status, and admits no unknown fields, so that editors report them.
    """
    (version,) = crd["spec"]["versions"]
    names, schema = crd["spec"]["names"], version["schema"]["openAPIV3Schema"]
    return {
        "$schema": _DIALECT,
        "title": names["kind"],
        "description": schema.get("description", ""),
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", *schema.get("required", ())],
        "additionalProperties": False,
        "properties": {
            "apiVersion": {"const": f"{crd['spec']['group']}/{version['name']}"},
            "kind": {"const": names["kind"]},
            "metadata": {"type": "object"},
            "spec": _closed(schema["properties"]["spec"]),
            "status": {"type": "object", "description": "Written by the operator."},
        },
    }


def _closed(schema: Any) -> Any:
    """Return the schema without Kubernetes' keywords.

    Objects with named fields admit no others, unless the CRD preserves unknown fields.
    """
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: _closed(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and isinstance(schema["properties"], Mapping) and not is_open:
        plain["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    return plain

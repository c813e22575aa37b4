"""What a CustomResourceDefinition says about the objects of its kind, for expressions about them."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.cel.types import DYN, CelType
from vworkspace_core.schema.celtypes import type_of_schema
from vworkspace_core.schema.compile import compile_schema
from vworkspace_core.schema.node import SchemaError
from vworkspace_core.schema.objectmeta import OBJECT_META_OPENAPI


def type_of_definition(crd: Mapping[str, Any] | None) -> CelType:
    """The type of the objects of the stored version; unknown where there is none that can be read."""
    openapi = _stored(crd)
    if openapi is None:
        return DYN
    text = {"type": "string"}
    fields = {**openapi.get("properties", {}), "apiVersion": text, "kind": text, "metadata": OBJECT_META_OPENAPI}
    try:
        return type_of_schema(compile_schema({**openapi, "properties": fields}), plain=True)
    except SchemaError:
        return DYN


def _stored(crd: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    spec = crd.get("spec") if isinstance(crd, Mapping) else None
    versions = spec.get("versions") if isinstance(spec, Mapping) else None
    for version in versions if isinstance(versions, list) else ():
        if isinstance(version, Mapping) and version.get("storage") is True:
            schema = version.get("schema")
            openapi = schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
            properties = openapi.get("properties", {}) if isinstance(openapi, Mapping) else None
            return openapi if isinstance(properties, Mapping) else None
    return None

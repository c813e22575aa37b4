"""Short forms for the CRDs of the downstream kinds, beside those that Flux's have."""

from collections.abc import Sequence
from typing import Any, Final

from vworkspace_core.manifest import Kind
from vworkspace_fake.flux.schema import STRING, Schema, items, record, string

__all__ = [
    "LABEL_SELECTOR",
    "QUANTITY",
    "QUANTITY_PATTERN",
    "Column",
    "crd",
    "nullable",
    "object_schema",
]

Column = tuple[str, str, str]
"""Name, type and JSON path of a printer column."""

_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY_PATTERN: Final = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
QUANTITY: Final[Schema] = {
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


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    return {**schema, "nullable": True}


def object_schema(required: Sequence[str] = (), **parts: Schema) -> Schema:
    """Schema of a whole object: type, metadata, and the given parts."""
    fixed: dict[str, Schema] = {"apiVersion": string(), "kind": string(), "metadata": {"type": "object"}}
    return record({**fixed, **parts}, required)


def crd(
    kind: Kind,
    schema: Schema,
    *,
    subresources: Schema | None = None,
    columns: Sequence[Column] = (),
    short_names: Sequence[str] = (),
) -> dict[str, Any]:
    """A CustomResourceDefinition of one served version. `subresources` is left out where it is None."""
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if subresources is not None:
        version["subresources"] = subresources
    if columns:
        version["additionalPrinterColumns"] = [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns
        ]
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
    }
    if short_names:
        names["shortNames"] = list(short_names)
    metadata: dict[str, Any] = {"name": kind.crd_name}
    if kind.group.endswith(".k8s.io"):
        # Names under k8s.io are Kubernetes' own: a server takes their CRDs only with the approval named.
        metadata["annotations"] = {"api-approved.kubernetes.io": f"https://kubernetes.io/{kind.plural}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }

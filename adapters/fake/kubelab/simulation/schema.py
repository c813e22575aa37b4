"""Helper functions that build structural schemas and CustomResourceDefinitions as JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from purekube.apimachinery.manifest import Kind

Column = tuple[str, str, str]
"""The name, type and JSON path of a printer column."""


def definition(
    kind: Kind,
    schema: Mapping[str, Any],
    *,
    subresources: Mapping[str, Any] | None = None,
    columns: Sequence[Column] = (),
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of `kind`, with one served version whose schema is `schema`.

    `subresources` is left out if None. Each of `columns` is a printer column: its name, type and JSONPath.
    """
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
    if categories:
        names["categories"] = list(categories)
    metadata: dict[str, Any] = {"name": kind.crd_name}
    if kind.group.endswith(".k8s.io"):
        # Groups under k8s.io are Kubernetes' own: kube-apiserver accepts their CRDs only with this approval.
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


JsonSchema: TypeAlias = dict[str, Any]


def string(**rules: Any) -> JsonSchema:
    """Return the schema of a string with the given rules (`minLength`, `pattern`, …)."""
    return {"type": "string", **rules}


def enum(*values: str, **rules: Any) -> JsonSchema:
    """Return the schema of a string that must be one of `values`; `rules` are further keywords."""
    return {"type": "string", "enum": list(values), **rules}


def items(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a list whose items have the schema `schema`."""
    return {"type": "array", "items": schema}


def record(properties: Mapping[str, JsonSchema], required: Sequence[str] = (), **rules: Any) -> JsonSchema:
    """Return the schema of an object with the fields `properties` and no others; `rules` are further keywords."""
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
    """Return the CustomResourceDefinition of a Flux kind, with a status subresource and printer columns.

    As in Flux, the default status is `observedGeneration: -1`.
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
    """Return `schema` with `nullable: true`."""
    return {**schema, "nullable": True}


def object_schema(required: Sequence[str] = (), **parts: JsonSchema) -> JsonSchema:
    """Return the schema of a full object: apiVersion, kind, metadata, and further fields such as `spec` in `parts`."""
    fixed: dict[str, JsonSchema] = {"apiVersion": string(), "kind": string(), "metadata": {"type": "object"}}
    return record({**fixed, **parts}, required)

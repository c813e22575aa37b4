"""CustomResourceDefinitions of simulated kinds, and the parts of their schemas that `schema_parts` does not have."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.definitions import Column, crd_manifest
from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.schema_parts import INT64, STRING, OpenApi, atomic_object, choice, each, items, obj


def definition(
    kind: Kind,
    schema: OpenApi,
    *,
    subresources: Mapping[str, Any] | None = None,
    columns: Sequence[Column] = (),
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of `kind`, with one served version whose schema is `schema`.

    `subresources` is left out if None.
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
        version["additionalPrinterColumns"] = [column.manifest() for column in columns]
    crd = crd_manifest(kind, [version], short_names=short_names, categories=categories)
    if kind.group.endswith(".k8s.io"):
        # Groups under k8s.io are Kubernetes' own: kube-apiserver accepts their CRDs only with this approval.
        crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": f"https://kubernetes.io/{kind.plural}"}
    return crd


def object_schema(*required: str, **parts: OpenApi) -> OpenApi:
    """Return the schema of a full object: apiVersion, kind, metadata, and further fields such as `spec` in `parts`."""
    return obj(" ".join(f"{name}!" for name in required), **each(STRING, "apiVersion kind"), metadata=obj(), **parts)


def string(**rules: Any) -> OpenApi:
    """Return the schema of a string with the given rules (`minLength`, `pattern`, …)."""
    return {"type": "string", **rules}


def ruled(schema: OpenApi, *rules: tuple[str, str]) -> OpenApi:
    """Return `schema` with CEL rules, each given as its message and its expression."""
    declared = [{"message": message, "rule": rule} for message, rule in rules]
    return {**schema, "x-kubernetes-validations": declared}


def atomic(listed: OpenApi) -> OpenApi:
    """Return the list schema `listed` marked as atomic (`x-kubernetes-list-type: atomic`)."""
    return {**listed, "x-kubernetes-list-type": "atomic"}


def nullable(schema: OpenApi) -> OpenApi:
    """Return `schema` with `nullable: true`."""
    return {**schema, "nullable": True}


INTEGER: Final[OpenApi] = {"type": "integer"}
COUNT: Final[OpenApi] = {**INT64, "minimum": 0}
CONDITIONS: Final = items(
    obj(
        "lastTransitionTime!:time message! reason! status! type!",
        type=string(
            maxLength=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
        status=choice("True", "False", "Unknown"),
        reason=string(minLength=1, maxLength=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        message=string(maxLength=32768),
        observedGeneration=COUNT,
    )
)
_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY_PATTERN: Final = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
INT_OR_STRING: Final[OpenApi] = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
QUANTITY: Final[OpenApi] = {**INT_OR_STRING, "pattern": QUANTITY_PATTERN}
_EXPRESSION: Final = obj("key! operator!", values=atomic(items(STRING)))
LABEL_SELECTOR: Final = atomic_object(obj("matchLabels:string-map", matchExpressions=atomic(items(_EXPRESSION))))

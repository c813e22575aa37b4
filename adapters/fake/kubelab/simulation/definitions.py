"""CustomResourceDefinitions of the kinds whose controllers are simulated."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    """Return a CustomResourceDefinition with one served version. `subresources` is left out if None."""
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

"""An in-memory API server with the definitions and the namespaces that a story begins with."""

from collections.abc import Iterable

from kubelab.inprocess import InProcessKube, run_sync
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE


def furnish(api: InProcessKube, crds: Iterable[Manifest], *namespaces: str, gated: bool = False) -> None:
    """Create definitions and namespaces; `gated` ones are managed by the operator."""
    for crd in crds:
        run_sync(api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin"))
    for name in namespaces:
        meta = {"name": name, "labels": {"managed-by": "vworkspace"} if gated else {}}
        run_sync(api.create({**NAMESPACE.manifest(name), "metadata": meta}, kind=NAMESPACE, field_manager="admin"))

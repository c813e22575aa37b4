"""The kustomize bases under `deploy/` and `manifests/`, as files (RUN-7)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.install.everything import installation, tenant
from vworkspace_app.install.options import InstallOptions
from vworkspace_core.api.crd import crd_manifests

_BASE: Final = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def kustomize_bases() -> Mapping[str, str]:
    """Return text by path in the repository: the CRDs, the operator, and the objects of each managed namespace."""
    crds = [f"crds/{crd['metadata']['name']}.yaml" for crd in crd_manifests()]
    options = InstallOptions()
    return {
        "manifests/kustomization.yaml": _kustomization(crds),
        "deploy/kustomization.yaml": _kustomization(["operator.yaml"]),
        "deploy/operator.yaml": dump(list(installation(options)), Format.YAML),
        "deploy/tenant/kustomization.yaml": _kustomization(["role.yaml"]),
        "deploy/tenant/role.yaml": dump([_anywhere(manifest) for manifest in tenant("", options)], Format.YAML),
    }


def _kustomization(resources: Iterable[str]) -> str:
    return dump([{**_BASE, "resources": list(resources)}], Format.YAML)


def _anywhere(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest without its namespace: a user's overlay sets it for each gated namespace."""
    meta = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": meta}

"""The definitions of four built-in kinds: volumes and their claims, StorageClass and PodDisruptionBudget."""

from collections.abc import Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.schema.builtin import storage_schemas as schemas
from purekube.schema.causes import forbidden_value, required
from purekube.schema.structure import equal

Manifest = Mapping[str, Any]

_PROTECTION: Final = "kubernetes.io/pvc-protection"


def _read_claim(manifest: Manifest) -> Manifest:
    return filled({**manifest, "spec": filled(manifest.get("spec") or {}, volumeMode="Filesystem")}, status={})


def _create_claim(manifest: Manifest) -> Manifest:
    """Return a new claim with the phase Pending and the finalizer that protects it while a pod uses it."""
    meta = manifest["metadata"]
    finalizers = meta.get("finalizers") or []
    held = finalizers if _PROTECTION in finalizers else [*finalizers, _PROTECTION]
    return {**manifest, "metadata": {**meta, "finalizers": held}, "status": {"phase": "Pending"}}


def _check_claim(manifest: Manifest) -> list[StatusCause]:
    spec = manifest.get("spec") or {}
    causes = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        causes.append(required("spec.resources[storage]"))
    return causes


def _check_claim_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    changeable = ("resources", "volumeAttributesClassName", "volumeName")
    now = {key: value for key, value in new["spec"].items() if key not in changeable}
    before = {key: value for key, value in old["spec"].items() if key not in changeable}
    bound = old["spec"].get("volumeName")
    if equal(now, before) and (not bound or new["spec"].get("volumeName") == bound):
        return []
    text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden_value("spec", text)]


STORAGE: Final = (
    built_in(
        schemas.PERSISTENT_VOLUME_CLAIM,
        Behaviour(
            skeleton={"spec": {"resources": {}}, "status": {}},
            generation=Generation.NEVER,
            unconditional_update=True,
            read=_read_claim,
            on_create=_create_claim,
            check=_check_claim,
            check_update=_check_claim_update,
        ),
        short_names=("pvc",),
    ),
    built_in(
        schemas.PERSISTENT_VOLUME,
        Behaviour(
            skeleton={"spec": {}, "status": {}},
            generation=Generation.NEVER,
            unconditional_update=True,
            read=lambda manifest: filled(
                {
                    **manifest,
                    "spec": filled(
                        manifest.get("spec") or {},
                        persistentVolumeReclaimPolicy="Retain",
                        volumeMode="Filesystem",
                    ),
                },
                status={},
            ),
            on_create=lambda manifest: {**manifest, "status": {"phase": "Pending"}},
        ),
        short_names=("pv",),
    ),
    built_in(
        schemas.STORAGE_CLASS,
        Behaviour(
            generation=Generation.NEVER,
            unconditional_update=True,
            read=lambda manifest: filled(manifest, reclaimPolicy="Delete", volumeBindingMode="Immediate"),
        ),
        short_names=("sc",),
    ),
    built_in(
        schemas.POD_DISRUPTION_BUDGET,
        Behaviour(
            skeleton={"spec": {}, "status": {}},
            generation=Generation.SPEC,
            read=lambda manifest: filled(manifest, spec={}, status={}),
            on_create=lambda manifest: {
                **manifest,
                "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
            },
        ),
        short_names=("pdb",),
    ),
)

"""The definitions of four built-in kinds: volumes and their claims, StorageClass and PodDisruptionBudget."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.builtin.container_checks import named_causes
from kubelab.builtin.definition_builder import built_in, filled
from kubelab.builtin.pod_checks import share_causes
from kubelab.builtin.selector_checks import node_selector_causes, selector_causes
from kubelab.model.definition import Behaviour, Generation, NameRule
from kubelab.writes.metadata import qualified_causes
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.formats import parse_quantity
from purekube.apimachinery.manifest import Manifest
from purekube.schema.builtin import cluster_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, not_supported, required
from purekube.schema.structure import equal

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_RECLAIM: Final = ("Delete", "Retain")
_VOLUME_POLICIES: Final = ("Delete", "Recycle", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_EVICTIONS: Final = ("AlwaysAllow", "IfHealthyBudget")
# kubernetes: plugin/pkg/admission/storage/storageobjectinuseprotection adds it at creation.
_PROTECTION: Final = "kubernetes.io/pvc-protection"


def _read_volume(manifest: Manifest, **defaults: str) -> Manifest:
    """Return a volume or claim with defaults in its spec."""
    spec = filled(manifest.get("spec") or {}, **defaults, volumeMode="Filesystem")
    return filled({**manifest, "spec": spec}, status={})


def _create_claim(manifest: Manifest) -> Manifest:
    """Return a new claim with the phase Pending and the finalizer that protects it while a pod uses it."""
    manifest, meta = _with_sources(manifest), manifest["metadata"]
    finalizers = meta.get("finalizers") or []
    held = finalizers if _PROTECTION in finalizers else [*finalizers, _PROTECTION]
    return {**manifest, "metadata": {**meta, "finalizers": held}, "status": {"phase": "Pending"}}


def _with_sources(manifest: Manifest, _old: Manifest | None = None) -> Manifest:
    """Return a claim whose source has both of its fields, unless it is in another namespace."""
    # kubernetes: api/persistentvolumeclaim/util.go, NormalizeDataSources: dataSource is the older field.
    spec = manifest.get("spec") or {}
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        return {**manifest, "spec": {**spec, "dataSourceRef": old}}
    if new is not None and old is None and not new.get("namespace"):
        return {**manifest, "spec": {**spec, "dataSource": new}}
    return manifest


def claim_causes(spec: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    """Yield the problems of a claim's `spec`, whose place in the object is `path`."""
    if not spec.get("accessModes"):
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield required(f"{path}.resources[storage]")
    elif (parse_quantity(str(size)) or 0) <= 0:
        yield invalid_value(f"{path}.resources[storage]", str(size), "must be greater than zero")
    if spec.get("volumeMode", "Block") not in _VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", spec["volumeMode"], _VOLUME_MODES)
    yield from named_causes(spec.get("storageClassName"), f"{path}.storageClassName", NameRule.SUBDOMAIN)
    yield from selector_causes(spec.get("selector"), f"{path}.selector")


def _check_claim(manifest: Manifest) -> Iterator[StatusCause]:
    return claim_causes(manifest.get("spec") or {}, "spec")


def _check_claim_update(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    is_bound = (old.get("status") or {}).get("phase") == "Bound"
    changeable = {"resources", "volumeAttributesClassName"} if is_bound else {"volumeAttributesClassName"}
    # What is left out at first may be filled in later: the volume, and the class that a default gives.
    changeable |= {key for key in ("volumeName", "storageClassName") if not old["spec"].get(key)}
    now = {key: value for key, value in new["spec"].items() if key not in changeable}
    before = {key: value for key, value in old["spec"].items() if key not in changeable}
    if not equal(now, before):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden_value("spec", text)


def _check_class(manifest: Manifest) -> Iterator[StatusCause]:
    provisioner = manifest["provisioner"]
    if not provisioner:
        yield required("provisioner")
    yield from qualified_causes(provisioner.lower() or None, "provisioner")
    for key, known in (("reclaimPolicy", _RECLAIM), ("volumeBindingMode", _BINDING)):
        if manifest[key] not in known:
            yield not_supported(key, manifest[key], known)


def _changed(new: Manifest, old: Manifest) -> Iterator[StatusCause]:
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if not equal(new.get(key), old.get(key)):
            yield invalid_value(key, new.get(key), "field is immutable")


def _check_volume(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, _ACCESS_MODES)
    if "storage" not in (spec.get("capacity") or ()):
        yield required("spec.capacity")
    for key, known in (("volumeMode", _VOLUME_MODES), ("persistentVolumeReclaimPolicy", _VOLUME_POLICIES)):
        if spec[key] not in known:
            yield not_supported(f"spec.{key}", spec[key], known)
    yield from named_causes(spec.get("storageClassName"), "spec.storageClassName", NameRule.SUBDOMAIN)
    if (affinity := spec.get("nodeAffinity")) is not None and affinity.get("required") is None:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    elif affinity is not None:
        yield from node_selector_causes(affinity["required"], "spec.nodeAffinity.required")


def _check_budget(manifest: Manifest) -> Iterator[StatusCause]:
    spec = manifest["spec"]
    given = [key for key in ("minAvailable", "maxUnavailable") if spec.get(key) is not None]
    if (policy := spec.get("unhealthyPodEvictionPolicy")) is not None and policy not in _EVICTIONS:
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTIONS)
    if len(given) > 1:
        yield invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for key in given:
        yield from share_causes(spec[key], f"spec.{key}", most=100)
    yield from selector_causes(spec.get("selector"), "spec.selector")


STORAGE: Final = (
    built_in(
        schemas.PERSISTENT_VOLUME_CLAIM,
        Behaviour(
            skeleton={"spec": {"resources": {}}, "status": {}},
            read=_read_volume,
            on_create=_create_claim,
            on_update=_with_sources,
            check=_check_claim,
            check_update=_check_claim_update,
        ),
        short_names=("pvc",),
    ),
    built_in(
        schemas.PERSISTENT_VOLUME,
        Behaviour(
            skeleton={"spec": {}, "status": {}},
            read=lambda manifest: _read_volume(manifest, persistentVolumeReclaimPolicy="Retain"),
            on_create=lambda manifest: {**manifest, "status": {"phase": "Pending"}},
            check=_check_volume,
        ),
        short_names=("pv",),
    ),
    built_in(
        schemas.STORAGE_CLASS,
        Behaviour(
            read=lambda manifest: filled(manifest, reclaimPolicy="Delete", volumeBindingMode="Immediate"),
            check=_check_class,
            check_update=lambda new, old: [*_check_class(new), *_changed(new, old)],
        ),
        short_names=("sc",),
    ),
    built_in(
        schemas.POD_DISRUPTION_BUDGET,
        Behaviour(
            unconditional_update=False,
            skeleton={"spec": {}, "status": {}},
            generation=Generation.SPEC,
            read=lambda manifest: filled(manifest, spec={}, status={}),
            on_create=lambda manifest: {
                **manifest,
                "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
            },
            check=_check_budget,
        ),
        short_names=("pdb",),
    ),
)

"""Reduction of objects of other owners to their identity and owner, before they are cached (RUN-11).

The operator watches every HelmRelease, source, backup, snapshot and labelled ConfigMap of the cluster. Of an object of
another owner it needs only the name, which an instance may want or an Operation may wait for, and the controller
reference.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, canonical_json, get_path, metadata
from purekube.controller.managed_fields import with_foreign_holders, without_managed_fields
from purekube.controller.ownership import controller_of
from vworkspace_core.api.kinds import APPLICATION_INSTANCE as OWNER
from vworkspace_core.api.labels import (
    APPLICATION_INSTANCE,
    CLUSTER_ID,
    FIELD_MANAGER,
    INSTANCE_UID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    OPERATION_UID,
)

_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_LABELS: Final = (MANAGED_BY, CLUSTER_ID, APPLICATION_INSTANCE, INSTANCE_UID)
_OWNERS: Final = 8
_LARGEST_DATA: Final = 64 * 1024
"""The largest data of a ConfigMap, in bytes, that is cached unchanged.

The operator's own ConfigMaps hold only a few settings of integrations.
"""
_LARGEST_MESSAGE: Final = 2048


def slim_release(manifest: Manifest) -> Manifest:
    """Return a HelmRelease in the form in which it is cached.

    If it may belong to an instance, only managedFields are reduced; otherwise only its identity and owner are kept.
    """
    if not _may_be_ours(manifest):
        return _identifying_fields(manifest)
    # An object without the label is never applied over, so the holders of its fields do not matter.
    is_labelled = get_path(manifest, "metadata", "labels", MANAGED_BY) == MANAGED_BY_VALUE
    return with_foreign_holders(manifest, FIELD_MANAGER) if is_labelled else without_managed_fields(manifest)


def slim_source(manifest: Manifest) -> Manifest:
    """Return a Flux source in the form in which it is cached.

    If it may belong to an instance, only managedFields are reduced; otherwise only its identity and owner are kept.
    """
    return without_managed_fields(manifest) if _may_be_ours(manifest) else _identifying_fields(manifest)


def slim_config_map(manifest: Manifest) -> Manifest:
    """Return a ConfigMap in the form in which it is cached.

    Its data is kept only if an instance controls the ConfigMap, and large data only as a hash.
    """
    if not _is_controlled_by_instance(manifest):
        return _identifying_fields(manifest)
    small = without_managed_fields(manifest)
    data = {name: value for name, value in manifest.items() if name in ("data", "binaryData") and value}
    if sum(_size(each) for each in data.values()) <= _LARGEST_DATA:
        return small
    hashed = {name: {"sha256": hashlib.sha256(canonical_json(value)).hexdigest()} for name, value in data.items()}
    return {**small, **hashed}


def slim_engine_object(manifest: Manifest) -> Manifest:
    """Return a backup, snapshot or snapshot class in the form in which it is cached.

    With an Operation's label, only its managedFields are reduced. Otherwise only its identity, owners and the
    operator's labels are kept; an Operation that waits for the object then reads it from the API server.
    """
    made_here = get_path(manifest, "metadata", "labels", OPERATION_UID)
    return (
        without_managed_fields(manifest) if isinstance(made_here, str) and made_here else _identifying_fields(manifest)
    )


def slim_chart(manifest: Manifest) -> Manifest:
    """Return a HelmChart in the form in which it is cached: the requested chart and its status.

    Every HelmChart is kept like this, since Flux creates a HelmChart without an owner.
    """
    asked = {name: get_path(manifest, "spec", name) for name in ("chart", "version", "sourceRef", "suspend")}
    status = manifest.get("status")
    slim = {} if not isinstance(status, Mapping) else dict(status)
    conditions = slim.get("conditions")
    if isinstance(conditions, list):
        slim["conditions"] = [_short(condition) for condition in conditions[:16]]
    said = {"status": slim} if slim else {}
    return {
        **_identifying_fields(manifest),
        "spec": {name: value for name, value in asked.items() if value is not None},
        **said,
    }


def _may_be_ours(manifest: Manifest) -> bool:
    """Report whether the object in `manifest` may be an instance's.

    It may if an instance controls the object, or if it has the operator's label and no controller.
    """
    if controller_of(manifest) is not None:
        return _is_controlled_by_instance(manifest)
    return bool(get_path(manifest, "metadata", "labels", MANAGED_BY) == MANAGED_BY_VALUE)


def _is_controlled_by_instance(manifest: Manifest) -> bool:
    controller = controller_of(manifest)
    return get_path(controller, "kind") == OWNER.kind and str(get_path(controller, "apiVersion")).startswith(
        f"{OWNER.group}/"
    )


def _identifying_fields(manifest: Manifest) -> dict[str, Any]:
    """Return only the object's identity, its first owners and the operator's own labels, which are always small."""
    meta = metadata(manifest)
    slim = {name: meta[name] for name in _KEPT if name in meta}
    labels, owners = meta.get("labels"), meta.get("ownerReferences")
    if isinstance(labels, Mapping) and (ours := {name: labels[name] for name in _LABELS if name in labels}):
        slim["labels"] = ours
    if isinstance(owners, list) and owners:
        controller = controller_of(manifest)
        first = [owner for owner in owners if owner is not controller][: _OWNERS - 1]
        slim["ownerReferences"] = [*([controller] if controller is not None else []), *first]
    return {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind"), "metadata": slim}


def _size(data: Any) -> int:
    if not isinstance(data, Mapping):
        return 0
    return sum(len(name) + len(value) for name, value in data.items() if isinstance(value, str))


def _short(condition: Any) -> Any:
    message = get_path(condition, "message")
    if not isinstance(message, str) or len(message) <= _LARGEST_MESSAGE:
        return condition
    return {**condition, "message": message[:_LARGEST_MESSAGE]}

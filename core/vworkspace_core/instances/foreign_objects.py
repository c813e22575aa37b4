"""What is kept of objects that are not ours: who they are, and whose (RUN-11, M9).

The operator sees every HelmRelease, source, backup, snapshot and labelled ConfigMap of the cluster. Of a stranger's it
asks one thing: that it is there, under a name that an instance may want or an Operation waits for, and who controls it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from vworkspace_core.api.labels import (
    APPLICATION_INSTANCE,
    CLUSTER_ID,
    FIELD_MANAGER,
    INSTANCE_UID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    OPERATION_UID,
)
from vworkspace_core.apimachinery.manifest import Manifest, canonical_json, get_path, metadata
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE as OWNER
from vworkspace_core.controller.managed_fields import with_foreign_holders, without_managed_fields
from vworkspace_core.controller.ownership import controller_of

_KEPT: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
)
_LABELS: Final = (MANAGED_BY, CLUSTER_ID, APPLICATION_INSTANCE, INSTANCE_UID)
_OWNERS: Final = 8
_LARGEST_DATA: Final = 64 * 1024
"""Bytes of a ConfigMap's data: what stands in ours are a few settings of integrations."""
_LARGEST_MESSAGE: Final = 2048


def slim_release(manifest: Manifest) -> Manifest:
    """A HelmRelease: whole where it may be an instance's."""
    if not _may_be_ours(manifest):
        return _who(manifest)
    # What lacks the label is not applied over: who holds its fields is of no use.
    is_labelled = get_path(manifest, "metadata", "labels", MANAGED_BY) == MANAGED_BY_VALUE
    return with_foreign_holders(manifest, FIELD_MANAGER) if is_labelled else without_managed_fields(manifest)


def slim_source(manifest: Manifest) -> Manifest:
    """An OCIRepository or HelmRepository: whole where it may be an instance's, without managedFields."""
    return without_managed_fields(manifest) if _may_be_ours(manifest) else _who(manifest)


def slim_config_map(manifest: Manifest) -> Manifest:
    """A ConfigMap: its data only where an instance controls it, and by its hash where it is more than we ever write."""
    if not _is_controlled_by_instance(manifest):
        return _who(manifest)
    small = without_managed_fields(manifest)
    data = {name: value for name, value in manifest.items() if name in ("data", "binaryData") and value}
    if sum(_size(each) for each in data.values()) <= _LARGEST_DATA:
        return small
    hashed = {name: {"sha256": hashlib.sha256(canonical_json(value)).hexdigest()} for name, value in data.items()}
    return {**small, **hashed}


def slim_engine_object(manifest: Manifest) -> Manifest:
    """A backup, a snapshot or a class of snapshots: whole where it is marked as made for an Operation, since its status
    is followed. Of a stranger's, that it is there and has changed: an Operation may wait for it, and reads it live."""
    made_here = get_path(manifest, "metadata", "labels", OPERATION_UID)
    return without_managed_fields(manifest) if isinstance(made_here, str) and made_here else _who(manifest)


def slim_chart(manifest: Manifest) -> Manifest:
    """A HelmChart, which Flux makes and nobody owns: what it was asked for, and what Flux says of it."""
    asked = {name: get_path(manifest, "spec", name) for name in ("chart", "version", "sourceRef", "suspend")}
    status = manifest.get("status")
    slim = {} if not isinstance(status, Mapping) else dict(status)
    conditions = slim.get("conditions")
    if isinstance(conditions, list):
        slim["conditions"] = [_short(condition) for condition in conditions[:16]]
    said = {"status": slim} if slim else {}
    return {**_who(manifest), "spec": {name: value for name, value in asked.items() if value is not None}, **said}


def _may_be_ours(manifest: Manifest) -> bool:
    """An instance controls it, or nobody does and it is labelled as one of ours: left behind, or to be taken over."""
    if controller_of(manifest) is not None:
        return _is_controlled_by_instance(manifest)
    return bool(get_path(manifest, "metadata", "labels", MANAGED_BY) == MANAGED_BY_VALUE)


def _is_controlled_by_instance(manifest: Manifest) -> bool:
    controller = controller_of(manifest)
    return get_path(controller, "kind") == OWNER.kind and str(get_path(controller, "apiVersion")).startswith(
        f"{OWNER.group}/"
    )


def _who(manifest: Manifest) -> dict[str, Any]:
    """Identity, owner and our own labels, however large the rest is."""
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

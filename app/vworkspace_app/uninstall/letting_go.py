"""Letting go of an object so that what is deployed for it stays: owner references, finalizer, then the object."""

from contextlib import suppress
from typing import Any, Final

from vworkspace_app.controller.lookups import all_of
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER
from vworkspace_core.apimachinery.errors import NotFound
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.graph.once import UNRECORDED
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_core.ports import KubeApi, PatchType

_BENEATH: Final = {APPLICATION_INSTANCE: DOWNSTREAM_KINDS, OPERATION: engine_kinds()}


async def let_go(api: KubeApi, manifest: Manifest, kind: Kind) -> None:
    """Delete one object of ours and nothing else: neither we nor a garbage collector take down what it made."""
    meta = metadata(manifest)
    uid = str(meta["uid"])
    for beneath in _BENEATH[kind]:
        for downstream in await all_of(api, beneath, namespace=str(meta["namespace"])):
            if change := _without(downstream, uid):
                await _merge(api, ref_of(downstream, beneath), change)
    left = [name for name in meta.get("finalizers") or () if name != FINALIZER]
    ref = ref_of(manifest, kind)
    await _merge(api, ref, {"metadata": {"uid": uid, "finalizers": left}})
    if not meta.get("deletionTimestamp"):
        with suppress(NotFound):
            await api.delete(ref, uid=uid)


def _without(live: Manifest, uid: str) -> dict[str, Any]:
    """The patch that takes an owner, and our own finalizer, off an object; empty where neither is on it."""
    owners = get_path(live, "metadata", "ownerReferences") or []
    finalizers = get_path(live, "metadata", "finalizers") or []
    if all(get_path(owner, "uid") != uid for owner in owners):
        return {}
    return {
        "metadata": {
            "resourceVersion": metadata(live)["resourceVersion"],
            "ownerReferences": [owner for owner in owners if get_path(owner, "uid") != uid],
            "finalizers": [name for name in finalizers if name != UNRECORDED],
        }
    }


async def _merge(api: KubeApi, ref: ObjectRef, change: dict[str, Any]) -> None:
    with suppress(NotFound):
        await api.patch(ref, change, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)

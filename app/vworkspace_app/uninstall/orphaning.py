"""The deletion of the operator's objects without their children, even while an operator runs or is killed (RUN-7).

Expected flow
    An object gets the annotation that marks it as abandoned, and the operator's finalizer → it is deleted, with the
    propagation policy Orphan → its children are released: they lose their owner reference to it → the children are read
    again, until none is left to release → the finalizers are removed.
Guarantees
    A running operator cooperates from the first step on: it releases the children of an object that is marked and being
    deleted, and creates nothing for it. Its earlier decisions have no effect any more: each write carries the
    resourceVersion on which it was decided, and every object concerned has changed since. The owner exists until no
    child has an owner reference to it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from purekube.apimachinery.errors import NotFound, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.meta import ABANDON, ObjectMeta, is_abandoned
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import MergePatch
from purekube.controller.ownership import is_locked, owners_without, unlocked_finalizers
from purekube.ports import KubeApi, PatchType, Propagation
from purekube_run.controller.lookups import all_of, find
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, OPERATION_UID
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS
from vworkspace_core.instances.ownership import orphaning_patch
from vworkspace_core.operations.engines import KINDS_ELSEWHERE, engine_kinds

_BENEATH: Final = {APPLICATION_INSTANCE: DOWNSTREAM_KINDS, OPERATION: engine_kinds()}
_HOLDING: Final = (FINALIZER, "orphan")
"""The finalizers to remove once all children are released; without a garbage collector "orphan" would stay."""


async def advance_deletion(api: KubeApi, kind: Kind, manifests: Sequence[Manifest]) -> None:
    """Take the next step to delete these objects without their children.

    Several steps are needed: call this again, with the objects as they are then, until they are gone.
    """
    owners = [owner for manifest in manifests if (owner := await _marked(api, kind, manifest)) is not None]
    if await _disowned(api, kind, owners):
        for owner in owners:
            await _without_finalizers(api, ObjectRef(kind, owner.namespace, owner.name), owner.uid)


async def _marked(api: KubeApi, kind: Kind, manifest: Manifest) -> ObjectMeta | None:
    """Mark an object as abandoned, delete exactly that version, and return its metadata.

    Return None if the object has changed in the meantime or no longer exists.
    """
    ref, meta = ref_of(manifest, kind), read_meta(manifest)
    try:
        if not is_abandoned(meta) or (FINALIZER not in meta.finalizers and not meta.deletion_timestamp):
            missing = () if FINALIZER in meta.finalizers or meta.deletion_timestamp else (FINALIZER,)
            change = {"annotations": {ABANDON: "true"}, "finalizers": [*meta.finalizers, *missing]}
            pinned = {"resourceVersion": meta.resource_version, **change}
            meta = read_meta(await _merge(api, MergePatch(ref, {"metadata": pinned})))
        if not meta.deletion_timestamp:
            # It leaves the finalizer "orphan" for the garbage collector (W-32).
            await api.delete(ref, uid=meta.uid, resource_version=meta.resource_version, propagation=Propagation.ORPHAN)
    except (NotFound, Stale):
        return None
    return meta


async def _disowned(api: KubeApi, kind: Kind, owners: Sequence[ObjectMeta]) -> bool:
    """Remove these owners from the owner references of their children, so that the children are not deleted with them.

    Return True if no child has one of these owners any longer.
    """
    by_namespace: dict[str | None, list[ObjectMeta]] = {}
    for owner in owners:
        by_namespace.setdefault(owner.namespace, []).append(owner)
    patches = [
        patch
        for beneath in _BENEATH[kind]
        for namespace, there in ({None: owners} if beneath in KINDS_ELSEWHERE else by_namespace).items()
        for live in await all_of(api, beneath, namespace=namespace)
        for patch in _next_patch(kind, ref_of(live, beneath), live, there)
    ]
    for patch in patches:
        with suppress(NotFound, Stale):
            await _merge(api, patch)
    return not patches


def _next_patch(kind: Kind, ref: ObjectRef, live: Manifest, owners: Sequence[ObjectMeta]) -> Iterator[MergePatch]:
    """Yield the patch that removes one of `owners` from a child, or nothing if none of them owns the child.

    If a child has several of these owners, further calls remove the others.
    """
    for owner in owners:
        patch = orphaning_patch(ref, live, owner) if kind == APPLICATION_INSTANCE else _unlocking(ref, live, owner.uid)
        if patch is not None:
            yield patch
            return


def _unlocking(ref: ObjectRef, live: Manifest, uid: str) -> MergePatch | None:
    """Return the patch that removes an owner and the operator's finalizer from an engine object, which then keeps
    running.

    Return None if there is nothing to remove: `uid` is not the uid of one of the object's owners, and the object does
    not still have the finalizer from its creation for the Operation with that uid.
    """
    made = is_locked(live) and get_path(live, "metadata", "labels", OPERATION_UID) == bounded_name(uid)
    if not made and all(get_path(owner, "uid") != uid for owner in metadata(live).get("ownerReferences") or ()):
        return None
    change = {
        "resourceVersion": metadata(live)["resourceVersion"],
        "ownerReferences": owners_without(live, uid),
        "finalizers": unlocked_finalizers(live),
    }
    return MergePatch(ref, {"metadata": change})


async def _without_finalizers(api: KubeApi, ref: ObjectRef, uid: str) -> None:
    meta = read_meta(await find(api, ref) or {})
    left = [name for name in meta.finalizers if name not in _HOLDING]
    if meta.uid == uid and len(left) < len(meta.finalizers):
        pinned = {"resourceVersion": meta.resource_version, "finalizers": left}
        with suppress(NotFound, Stale):
            await _merge(api, MergePatch(ref, {"metadata": pinned}))


async def _merge(api: KubeApi, patch: MergePatch) -> Manifest:
    return await api.patch(patch.ref, patch.patch, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)

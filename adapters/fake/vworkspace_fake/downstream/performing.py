"""Performs the effects of simulated controllers on a `KubeApi`: the only code here that writes to the cluster."""

from typing import assert_never

from vworkspace_core.errors import AlreadyExists, KindMissing, NotFound, Stale
from vworkspace_core.ports import KubeApi, PatchType
from vworkspace_fake.downstream.turns import Create, Delete, Patch

__all__ = ["perform"]


async def perform(api: KubeApi, effect: Patch | Create | Delete, field_manager: str) -> None:
    """Perform one effect. Raises what the port raises, but for what the effect says it takes in its stride."""
    match effect:
        case Patch():
            await _patch(api, effect, field_manager)
        case Create(kind, manifest):
            try:
                await api.create(manifest, kind=kind, field_manager=field_manager)
            except (AlreadyExists, KindMissing):
                return
        case Delete(ref, uid, propagation):
            try:
                await api.delete(ref, uid=uid, propagation=propagation)
            except (NotFound, Stale):
                return
        case _:
            assert_never(effect)


async def _patch(api: KubeApi, patch: Patch, field_manager: str) -> None:
    body = dict(patch.body)
    if patch.uid:
        body["metadata"] = {**body.get("metadata", {}), "uid": patch.uid}
    try:
        await api.patch(
            patch.ref, body, patch_type=PatchType.MERGE, field_manager=field_manager, subresource=patch.subresource
        )
    except (NotFound, Stale):
        return

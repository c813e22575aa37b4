"""Performs the effects of simulated controllers on a `KubeApi`: the only code here that writes to the cluster."""

import hashlib
from contextlib import suppress
from typing import assert_never

from vworkspace_core.apimachinery.errors import AlreadyExists, KindMissing, NotFound, OperatorError, Stale
from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.apimachinery.resources import CORE_EVENT
from vworkspace_core.ports import KubeApi, PatchType
from vworkspace_fake.downstream.turns import Create, Delete, Patch, Tell


async def perform(api: KubeApi, effect: Patch | Create | Delete | Tell, field_manager: str) -> None:
    """Perform one effect. Raises what the port raises, but for what the effect says it takes in its stride."""
    match effect:
        case Patch():
            await _patch(api, effect, field_manager)
        case Create(kind, manifest):
            try:
                await api.create(manifest, kind=kind, field_manager=field_manager)
            except (AlreadyExists, KindMissing):
                return
        case Tell():
            with suppress(OperatorError):
                await api.create(_event(effect, field_manager), kind=CORE_EVENT, field_manager=field_manager)
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


def _event(told: Tell, component: str) -> Manifest:
    """An Event of the core group, as controllers of Kubernetes post them: one for each text."""
    digest = hashlib.sha256(f"{told.uid}/{told.reason}/{told.message}".encode()).hexdigest()
    ref = told.ref
    about = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "namespace": ref.namespace, "name": ref.name}
    manifest = CORE_EVENT.manifest(f"{ref.name[:200]}.{digest[:16]}", ref.namespace)
    return {
        **manifest,
        "involvedObject": {**about, "uid": told.uid},
        "type": told.type,
        "reason": told.reason,
        "message": told.message,
        "source": {"component": component},
        "firstTimestamp": told.moment,
        "lastTimestamp": told.moment,
        "count": 1,
    }

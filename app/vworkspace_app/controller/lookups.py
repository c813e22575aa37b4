"""Reads for a command that looks once: an object, everything of a kind, whether a replica leads."""

from datetime import datetime, timedelta
from typing import Final

from vworkspace_core.apimachinery.errors import KindMissing, NotFound
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from vworkspace_core.apimachinery.resources import LEASE
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_core.controller.lease.peers import is_lease_of
from vworkspace_core.controller.lease.record import holder_of
from vworkspace_core.ports import KubeApi

_HELD: Final = timedelta(seconds=60)
"""A Lease that was renewed this recently has a holder, whatever the clocks of two machines differ by."""


async def find(api: KubeApi, ref: ObjectRef) -> Manifest | None:
    """The object; None where it or its kind is not there."""
    try:
        return await api.get(ref)
    except NotFound:
        return None


async def all_of(api: KubeApi, kind: Kind, *, selector: str = "", namespace: str | None = None) -> tuple[Manifest, ...]:
    """Every object of a kind that is served, by namespace and name."""
    manifests: list[Manifest] = []
    token = ""
    try:
        while True:
            page = await api.list(kind, namespace=namespace, label_selector=selector, limit=500, continue_token=token)
            manifests += page.items
            if not (token := page.continue_token):
                break
    except KindMissing:
        return ()
    return tuple(
        sorted(
            manifests, key=lambda manifest: (str(metadata(manifest).get("namespace")), str(metadata(manifest)["name"]))
        )
    )


async def leases_of(api: KubeApi, namespace: str, base: str) -> tuple[Manifest, ...]:
    """Those by which the replicas of an operator take turns: one, and with shards one of each (RUN-13)."""
    return tuple(
        lease
        for lease in await all_of(api, LEASE, namespace=namespace)
        if is_lease_of(base, str(metadata(lease)["name"]))
    )


def is_held(lease: Manifest | None, now: datetime) -> bool:
    """Whether a replica leads at this moment, as far as its Lease tells."""
    renewed = get_path(lease, "spec", "renewTime")
    return bool(holder_of(lease)) and isinstance(renewed, str) and renewed > format_time(now - _HELD)

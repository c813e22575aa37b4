"""Reads from the API server without a cache: an object, all objects of a kind, and an operator's Leases."""

from functools import partial

from purekube.apimachinery.errors import KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import LEASE
from purekube.controller.lease.record import is_lease_of
from purekube.ports import KubeApi


async def find(api: KubeApi, ref: ObjectRef) -> Manifest | None:
    """Return the object read from the API server, or None if the object does not exist or its kind is not served."""
    try:
        return await api.get(ref)
    except NotFound:
        return None


async def all_of(
    api: KubeApi, kind: Kind, *, selector: str = "", fields: str = "", namespace: str | None = None
) -> tuple[Manifest, ...]:
    """Return every object of a kind, sorted by namespace and name. The result is empty if the kind is not served.

    `selector` is a label selector, `fields` a field selector, and "" selects all objects. Without a `namespace`, all
    namespaces are read.
    """
    manifests: list[Manifest] = []
    token = ""
    listed = partial(api.list, kind, namespace=namespace, label_selector=selector, field_selector=fields, limit=500)
    try:
        while True:
            page = await listed(continue_token=token)
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


async def leases_of(api: KubeApi, namespace: str | None, base: str) -> tuple[Manifest, ...]:
    """Return the Leases of an operator: the Lease named `base`, or one Lease for each shard (RUN-13).

    A shard is one of several parts into which namespaces are divided. Without a `namespace`, all namespaces are
    searched.
    """
    return tuple(
        lease
        for lease in await all_of(api, LEASE, namespace=namespace)
        if is_lease_of(base, str(metadata(lease)["name"]))
    )

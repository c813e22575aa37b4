"""Reads for a command that runs once: an object, all objects of a kind, an operator's Leases, its installation."""

from vworkspace_core.api.installation import Installation, installation_of
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.apimachinery.errors import KindMissing, NotFound, OperatorError, Unauthorized, Unavailable
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from vworkspace_core.apimachinery.resources import LEASE, SERVICE_ACCOUNT
from vworkspace_core.controller.lease.peers import is_lease_of
from vworkspace_core.ports import KubeApi


async def find(api: KubeApi, ref: ObjectRef) -> Manifest | None:
    """Return the object; None if it or its kind does not exist."""
    try:
        return await api.get(ref)
    except NotFound:
        return None


async def all_of(api: KubeApi, kind: Kind, *, selector: str = "", namespace: str | None = None) -> tuple[Manifest, ...]:
    """Return every object of a kind, by namespace and name; none if the kind is not served."""
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


async def find_installation(api: KubeApi, namespace: str, *, agent: bool) -> Installation:
    """Return how the operator of that namespace was installed.

    If its account cannot be read, assume the printed manifests. Raises Unavailable and Unauthorized.
    """
    try:
        account = await find(api, ObjectRef(SERVICE_ACCOUNT, namespace, FIELD_MANAGER))
    except (Unavailable, Unauthorized):
        raise
    except OperatorError:
        account = None
    return installation_of(account, namespace, agent=agent)


async def leases_of(api: KubeApi, namespace: str | None, base: str) -> tuple[Manifest, ...]:
    """Return the Leases of an operator's replicas: one, or with shards one per shard (RUN-13).

    None: in all namespaces.
    """
    return tuple(
        lease
        for lease in await all_of(api, LEASE, namespace=namespace)
        if is_lease_of(base, str(metadata(lease)["name"]))
    )

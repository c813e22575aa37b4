"""Reads from the API server without a cache: an object, all objects of a kind, an operator's Leases, and rights."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import anyio

from purekube.apimachinery.errors import Expired, KindMissing, NotFound, OperatorError, Right
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import ACCESS_REVIEW, LEASE, SELF_ACCESS_REVIEW
from purekube.controller.lease.record import is_lease_of
from purekube.ports import KubeApi

PAGE: Final = 500
"""The maximum number of objects that one list request returns."""
_ATTEMPTS: Final = 5
"""The maximum number of attempts at a list whose continue tokens expire."""
_AT_ONCE: Final = 8
"""The maximum number of access reviews that are requested at the same time."""


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
    found = each_of(api, kind, selector=selector, fields=fields, namespace=namespace)
    try:
        manifests = [manifest async for manifest in found]
    except KindMissing:
        return ()
    return tuple(
        sorted(
            manifests, key=lambda manifest: (str(metadata(manifest).get("namespace")), str(metadata(manifest)["name"]))
        )
    )


async def each_of(
    api: KubeApi, kind: Kind, *, selector: str = "", fields: str = "", namespace: str | None = None
) -> AsyncIterator[Manifest]:
    """Yield every object of a kind, page by page, with the selectors and namespace of `all_of`.

    If a continue token expires, the list begins again, and only objects not yet seen are yielded. Raises the errors of
    `KubeApi.list`: KindMissing for a kind that is not served, Expired if the tokens of all attempts expired.
    """
    seen: set[ObjectRef] = set()
    token, attempts = "", _ATTEMPTS
    listed = partial(api.list, kind, namespace=namespace, label_selector=selector, field_selector=fields, limit=PAGE)
    while True:
        try:
            page = await listed(continue_token=token)
        except Expired:
            token, attempts = "", attempts - 1
            if not attempts:
                raise
            continue
        for manifest in page.items:
            ref = ref_of(manifest, kind)
            if ref not in seen:
                seen.add(ref)
                yield manifest
        if not (token := page.continue_token):
            return


async def lacking(
    api: KubeApi, desired: Sequence[tuple[Right, str]], subject: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Right, ...]:
    """Return the rights in `desired` that the caller or, if it is given, `subject` lacks, in the same order.

    `desired` has pairs of a right and the name of the object to which it is restricted, or "" if it is not restricted.
    `subject` has the fields of a SubjectAccessReview that name a user. Raises the OperatorErrors of `KubeApi.review`.
    """
    kind = ACCESS_REVIEW if subject else SELF_ACCESS_REVIEW
    limit, refused, errors = anyio.CapacityLimiter(_AT_ONCE), set[int](), list[OperatorError]()

    async def ask(number: int, right: Right, name: str) -> None:
        resource, _, below = right.resource.partition("/")
        asked = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": below}
        attributes = {**asked, "namespace": right.namespace, "name": name}
        spec = {**subject, "resourceAttributes": {key: text for key, text in attributes.items() if text}}
        review = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        async with limit:
            try:
                if get_path(await api.review(review, kind=kind), "status", "allowed") is not True:
                    refused.add(number)
            except OperatorError as error:  # raised below: from the task group it would come as an exception group
                errors.append(error)

    async with anyio.create_task_group() as group:
        for number, (right, name) in enumerate(desired):
            group.start_soon(ask, number, right, name)
    if errors:
        raise errors[0]
    return tuple(desired[number][0] for number in sorted(refused))


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

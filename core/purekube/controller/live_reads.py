"""Objects read directly from the API server for one snapshot (the observed state on which a decision is made), with the
kinds that are not served or may not be read.
"""

import attrs

from purekube.apimachinery.errors import Forbidden, Invalid, KindMissing, NotFound, Right, Unauthorized
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.controller.informer.outline import PAGE_SIZE, bounded, is_outline
from purekube.ports import KubeApi


@attrs.define
class LiveReads:
    """Objects read directly from the API server: `objects` holds those found so far.

    `missing` are kinds that the server does not serve. `hidden` are kinds that may not be listed, each with the missing
    right. With `lenient` an object that may not be read counts as absent. This is for a namespace that is being
    deleted: its roles may be deleted before its objects, and the deletion must not wait for them.
    """

    api: KubeApi
    objects: dict[ObjectRef, Manifest] = attrs.field(factory=dict)
    missing: set[Kind] = attrs.field(factory=set)
    hidden: dict[Kind, Right] = attrs.field(factory=dict)
    lenient: bool = False

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest | None:
        """Return the object `ref`; None if it does not exist, its kind is not served, or its name is not valid.

        With `resource_version` the server may answer from its cache if the cache is at least as recent; without it, the
        object is read as it is now. With `metadata_only` only apiVersion, kind and metadata are read. Raises the other
        errors of `KubeApi.get`.
        """
        try:
            if ref.name:
                return await self.api.get(ref, resource_version=resource_version, metadata_only=metadata_only)
        except KindMissing:
            self.missing.add(ref.kind)
        # A name that the API server cannot accept is answered by 422: no object has it, so it is simply absent.
        except (NotFound, Invalid):
            pass
        except Forbidden as error:
            self._raise_unless_lenient(error)
        return None

    async def add(self, ref: ObjectRef, *, metadata_only: bool = False) -> None:
        """Read the object `ref`, and add it to `objects` if it exists. Raises the same errors as `get`.

        With `metadata_only` only apiVersion, kind and metadata are read.
        """
        if (live := await self.get(ref, metadata_only=metadata_only)) is not None:
            self.objects[ref] = live

    async def add_full(self, ref: ObjectRef) -> None:
        """Read the object `ref` and add it to `objects` if it exists. Raises the same errors as `get`.

        Nothing is read if `objects` already has the whole object, not only an outline (its small parts).
        """
        known = self.objects.get(ref)
        if known is None or is_outline(known):
            await self.add(ref)

    async def add_labelled(self, kind: Kind, namespace: str, selector: str) -> None:
        """Read all objects of a kind in `namespace` that match the label `selector`, and add them to `objects`.

        Of each large object, only an outline (its small parts) is kept. Raises the errors of `KubeApi.list`.
        """
        token = ""
        while True:
            try:
                page = await self.api.list(
                    kind, namespace=namespace, label_selector=selector, limit=PAGE_SIZE, continue_token=token
                )
            except KindMissing:
                self.missing.add(kind)
                return
            except Forbidden as error:
                self._raise_unless_lenient(error)
                return
            self.objects |= {ref_of(manifest, kind): bounded(manifest) for manifest in page.items}
            if not (token := page.continue_token):
                return

    async def add_selected(
        self, kind: Kind, namespace: str, *, label_selector: str = "", field_selector: str = "", limit: int = 0
    ) -> None:
        """Read up to `limit` objects (0: all) of a kind in `namespace` that match both selectors, and add them to
        `objects`.

        Nothing is added if the server does not serve the kind, or if the kind may not be listed. This is for objects
        that are helpful but not required, such as Events. Raises the other errors of `KubeApi.list`.
        """
        try:
            page = await self.api.list(
                kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
            )
        except (KindMissing, Forbidden) as error:
            if isinstance(error, Unauthorized):
                raise
            return
        self.objects |= {ref_of(manifest, kind): manifest for manifest in page.items}

    def _raise_unless_lenient(self, error: Forbidden) -> None:
        if not self.lenient or isinstance(error, Unauthorized):
            raise error

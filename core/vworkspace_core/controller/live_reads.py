"""Live reads through the `KubeApi` port, collected for one snapshot; a kind that is not installed is remembered."""

import attrs

from vworkspace_core.apimachinery.errors import Forbidden, Invalid, KindMissing, NotFound, Right, Unauthorized
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.controller.informer.outline import bounded, is_outline
from vworkspace_core.controller.informer.state import PAGE_SIZE
from vworkspace_core.ports import KubeApi


@attrs.define
class LiveReads:
    """The objects that exist, by where they live, the kinds that are missing, and those that may not be looked at.

    With `lenient` what may not be looked at counts as not there: in a namespace that is being deleted, whose roles go
    before what they were for, nothing is worth holding it up.
    """

    api: KubeApi
    objects: dict[ObjectRef, Manifest] = attrs.field(factory=dict)
    missing: set[Kind] = attrs.field(factory=set)
    hidden: dict[Kind, Right] = attrs.field(factory=dict)
    lenient: bool = False

    async def get(self, ref: ObjectRef, *, resource_version: str = "") -> Manifest | None:
        """The object, None when it does not exist, as none does whose name no object can have.

        Raises what else `KubeApi.get` raises.
        """
        try:
            return await self.api.get(ref, resource_version=resource_version) if ref.name else None
        except KindMissing:
            self.missing.add(ref.kind)
        except (NotFound, Invalid):
            pass
        except Forbidden as error:
            self._raise_unless_lenient(error)
        return None

    async def add(self, ref: ObjectRef) -> None:
        """Read one object by name. Raises like `get`."""
        if (live := await self.get(ref)) is not None:
            self.objects[ref] = live

    async def add_whole(self, ref: ObjectRef) -> None:
        """Read one object by name unless it is there already, and not as an outline. Raises like `get`."""
        known = self.objects.get(ref)
        if known is None or is_outline(known):
            await self.add(ref)

    async def add_labelled(self, kind: Kind, namespace: str, selector: str) -> None:
        """Read everything of a kind that carries the labels; of what is large, the outline.

        Raises what `KubeApi.list` raises.
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
        """Read what the selectors find, as evidence; nothing where it may not be looked at.

        Raises what else `KubeApi.list` raises.
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

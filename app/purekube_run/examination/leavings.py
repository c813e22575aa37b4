"""The objects that an examination creates outside the namespaces of others, and their removal at its end."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs

from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import KubeApi, PatchType
from purekube_run.examination.patience import first_true

_EXAMINER: Final = "examiner"


@attrs.define(eq=False)
class Leavings:
    """The namespaces and cluster-scoped objects that the examiner has created in a cluster and that still exist.

    Each is known by its uid, so that an object that others created under the same name is never deleted.
    """

    api: KubeApi
    _made: dict[ObjectRef, str] = attrs.field(factory=dict)
    _held: dict[tuple[str | None, Kind], None] = attrs.field(factory=dict)

    def add(self, live: Manifest, kind: Kind) -> ObjectRef:
        """Record an object that the examiner has created, and return its reference."""
        ref = ref_of(live, kind)
        self._made[ref] = str(metadata(live).get("uid", ""))
        return ref

    def holds(self, kind: Kind, namespace: str | None) -> None:
        """Record that objects of this kind get finalizers, from the operator or from a part that the examiner
        simulates.
        """
        self._held[namespace, kind] = None

    async def delete(self, ref: ObjectRef) -> None:
        """Delete an object that the examiner has created. Do nothing if another one has its place."""
        if uid := self._made.get(ref):
            with suppress(OperatorError):
                await self.api.delete(ref, uid=uid)

    async def until_gone(self, seconds: float) -> None:
        """Delete all objects, and wait for at most `seconds` until they are gone."""
        for ref in self._made:
            await self.delete(ref)
        await first_true(self._are_gone, seconds)

    async def release(self, on_release: Callable[[ObjectRef], None]) -> None:
        """Delete all objects, and remove the finalizers that keep them although no operator runs any longer.

        `on_release` is called with each object from which finalizers were removed.
        """
        for ref in self._made:
            await self.delete(ref)
        if await self._are_gone():
            return
        namespaces = {ref.name for ref in self._made if ref.kind == NAMESPACE}
        for namespace, kind in self._held:
            if namespace is not None and namespace not in namespaces:
                continue
            with suppress(OperatorError):
                for live in (await self.api.list(kind, namespace=namespace)).items:
                    await self._free(live, kind, on_release)

    async def _free(self, live: Manifest, kind: Kind, on_release: Callable[[ObjectRef], None]) -> None:
        ref, meta = ref_of(live, kind), metadata(live)
        ours = ref.namespace is not None or self._made.get(ref) == meta.get("uid")
        if not ours or not meta.get("finalizers"):
            return
        change = {"metadata": {"finalizers": None, "uid": meta.get("uid")}}
        with suppress(OperatorError):
            await self.api.patch(ref, change, patch_type=PatchType.MERGE, field_manager=_EXAMINER)
            on_release(ref)
            await self.api.delete(ref, uid=str(meta.get("uid")))

    async def _are_gone(self) -> bool:
        for ref, uid in list(self._made.items()):
            if await self._is_gone(ref, uid):
                del self._made[ref]
        return not self._made

    async def _is_gone(self, ref: ObjectRef, uid: str) -> bool:
        try:
            return metadata(await self.api.get(ref)).get("uid") != uid
        except NotFound:
            return True
        except OperatorError:
            return False

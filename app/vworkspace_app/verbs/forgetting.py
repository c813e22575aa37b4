"""The removal of finalizers of a controller that will not run again, so that its objects can be deleted.

Objects that the controller created stay. Children with an owner reference are garbage-collected with their object;
external resources are no longer managed.
"""

from collections.abc import AsyncIterator, Callable, Collection

import attrs

from purekube.apimachinery.errors import Expired, KindMissing, NotFound, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.ports import KubeApi, PatchType

PAGE = 500
_MANAGER = "vworkspace-forget"
_ATTEMPTS = 5
"""The maximum number of attempts of a write that conflicts with other writers."""


@attrs.frozen
class Held:
    """The objects of `kind` whose deletion one of the `finalizers` prevents.

    `by` names the controller, for messages.
    """

    kind: Kind
    finalizers: Collection[str]
    by: str


@attrs.frozen
class Forgetting:
    """The component that removes finalizers from objects. `tell` is called with a line of text for each object.

    With `dry_run` no object is changed.
    """

    api: KubeApi
    tell: Callable[[str], None]
    dry_run: bool = False

    async def run(self, held: Held) -> int:
        """Remove `held.finalizers` from all objects of `held.kind`, and return how many objects had one of them.

        A dry run returns the same number. Raises OperatorError if a request fails; a second run then continues with the
        other objects.
        """
        refs = [ref async for ref in self._objects(held)]
        for ref in refs:
            if not self.dry_run:
                await self._release(ref, held.finalizers)
            self.tell(f"{ref}: {'would be' if self.dry_run else ''} free of the {held.by}".replace("  ", " "))
        return len(refs)

    async def _objects(self, held: Held) -> AsyncIterator[ObjectRef]:
        token, seen = "", set[ObjectRef]()
        while True:
            try:
                page = await self.api.list(held.kind, limit=PAGE, continue_token=token)
            except KindMissing:
                return
            except Expired:  # the continue token expired: list again, for objects not yet seen
                token = ""
                continue
            for manifest in page.items:
                ref = ref_of(manifest, held.kind)
                if ref not in seen and _is_held(manifest, held.finalizers):
                    seen.add(ref)
                    yield ref
            if not (token := page.continue_token):
                return

    async def _release(self, ref: ObjectRef, finalizers: Collection[str]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                live = metadata(await self.api.get(ref))
                left = [name for name in live.get("finalizers") or () if name not in finalizers]
                guard = {"uid": live["uid"], "resourceVersion": live["resourceVersion"]}
                patch = {"metadata": {**guard, "finalizers": left}}
                await self.api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=_MANAGER)
                return
            except NotFound:
                return
            except Stale:
                if attempt + 1 == _ATTEMPTS:
                    raise


def _is_held(manifest: Manifest, finalizers: Collection[str]) -> bool:
    return any(name in finalizers for name in metadata(manifest).get("finalizers") or ())

"""A `KubeApi` that takes down what is written through it: the audit log of any API server, as its client saw it."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.ports import KubeApi, ListPage, PatchType, Propagation, WatchEvent

__all__ = ["Witness", "Write"]


@attrs.frozen
class Write:
    """One write. `status` is 0 where the client does not learn it; `changed` tells whether it left a new version.

    Both are guessed until the answer is there.
    """

    method: str
    path: str
    status: int
    changed: bool


def _path(kind: Kind, namespace: str | None, name: str, subresource: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(part for part in (f"{root}{place}/{kind.plural}", name, subresource) if part)


@attrs.define
class Witness:
    """Passes everything on to `api`."""

    api: KubeApi
    writes: list[Write] = attrs.field(factory=list)
    _versions: dict[str, set[str]] = attrs.field(factory=dict)
    """resourceVersions by uid of everything that was ever answered."""

    def knows(self, manifest: Manifest) -> bool:
        """Whether its client has been told of this version of the object."""
        meta = metadata(manifest)
        return str(meta.get("resourceVersion")) in self._versions.get(str(meta.get("uid")), ())

    def _saw(self, manifest: Manifest) -> Manifest:
        meta = metadata(manifest)
        self._versions.setdefault(str(meta.get("uid")), set()).add(str(meta.get("resourceVersion")))
        return manifest

    async def _wrote(self, method: str, path: str, act: Awaitable[Manifest]) -> Manifest:
        # The watch may tell of the write before its answer is there; who has seen it, and forgets what was written
        # until then, has forgotten this one too.
        before = {uid: frozenset(versions) for uid, versions in self._versions.items()}
        begun = Write(method, path, 0, True)
        self.writes.append(begun)
        try:
            answer = await act
        except OperatorError:
            self._ended(begun, Write(method, path, 0, False))
            raise
        known = before.get(str(metadata(answer).get("uid")))
        changed = known is None or str(metadata(answer).get("resourceVersion")) not in known
        self._ended(begun, Write(method, path, 201 if known is None else 200, changed))
        return self._saw(answer)

    def _ended(self, begun: Write, ended: Write) -> None:
        self.writes[:] = [ended if one is begun else one for one in self.writes]

    def impersonating(self, account: ObjectRef) -> "Witness":
        """Return the same witness of what is done as an account."""
        return attrs.evolve(self, api=self.api.impersonating(account))

    async def get(self, ref: ObjectRef, **options: Any) -> Manifest:
        """Read one object."""
        return self._saw(await self.api.get(ref, **options))

    async def list(self, kind: Kind, **options: Any) -> ListPage:
        """Read one page."""
        page = await self.api.list(kind, **options)
        for item in page.items:
            self._saw(item)
        return page

    async def watch(self, kind: Kind, **options: Any) -> AsyncIterator[WatchEvent]:
        """Changes."""
        async for event in self.api.watch(kind, **options):
            self._saw(event.object)
            yield event

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """POST."""
        path = _path(kind, metadata(manifest).get("namespace"), "")
        return await self._wrote("POST", path, self.api.create(manifest, kind=kind, field_manager=field_manager))

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """PUT."""
        call = self.api.update(manifest, kind=kind, field_manager=field_manager)
        return await self._wrote("PUT", _of(manifest, kind), call)

    async def apply(self, manifest: Manifest, *, kind: Kind, **options: Any) -> Manifest:
        """Server-side apply."""
        return await self._wrote("PATCH", _of(manifest, kind), self.api.apply(manifest, kind=kind, **options))

    async def apply_status(self, manifest: Manifest, *, kind: Kind, **options: Any) -> Manifest:
        """Server-side apply to `/status`."""
        call = self.api.apply_status(manifest, kind=kind, **options)
        return await self._wrote("PATCH", _of(manifest, kind, "status"), call)

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """JSON, merge or strategic patch."""
        call = self.api.patch(ref, patch, patch_type=patch_type, field_manager=field_manager, subresource=subresource)
        return await self._wrote("PATCH", _path(ref.kind, ref.namespace, ref.name, subresource), call)

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> Manifest | None:
        """DELETE with preconditions."""
        self.writes.append(Write("DELETE", _path(ref.kind, ref.namespace, ref.name), 0, True))
        left = await self.api.delete(ref, uid=uid, resource_version=resource_version, propagation=propagation)
        return None if left is None else self._saw(left)


def _of(manifest: Manifest, kind: Kind, subresource: str = "") -> str:
    ref = ref_of(manifest, kind)
    return _path(kind, ref.namespace, str(get_path(manifest, "metadata", "name")), subresource)

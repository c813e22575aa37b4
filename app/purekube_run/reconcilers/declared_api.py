"""The `KubeApi` for a controller: what it declared, and no more (RUN-7).

A role is printed from the declaration, so this already refuses a call that is not declared: with the name of the
missing class attribute, and in tests too, where no role applies.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from purekube.apimachinery.errors import Forbidden
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.ports import KubeApi, ListPage, PatchType, Propagation, WatchEvent

IN_HAND: Final[ContextVar[ObjectRef | None]] = ContextVar("object in hand", default=None)
"""The object that a call is about, also in the tasks that it starts."""


class DeclaredApi:
    """`api` limited to `verbs`. `on_write` is called for each write, with the object being reconciled."""

    def __init__(self, api: KubeApi, name: str, verbs: Mapping[Kind, frozenset[str]]) -> None:
        self._api = api
        self._verbs = verbs
        self.name = name
        self.on_write: Callable[[ObjectRef, ObjectVersion], None] = lambda key, written: None

    def impersonating(self, account: ObjectRef) -> KubeApi:
        """Raise Forbidden: no declaration covers it."""
        raise Forbidden(f"{self.name} may not impersonate {account}")

    def _ask(self, verb: str, kind: Kind) -> None:
        allowed = self._verbs.get(kind, frozenset())
        if verb not in allowed:
            may = f"it may {', '.join(sorted(allowed))}" if allowed else "it names neither in owns nor in reads"
            raise Forbidden(f"{self.name} may not {verb} {kind.crd_name.rstrip('.')}, of which {may}")

    def _written(self, ref: ObjectRef, manifest: Manifest | None) -> None:
        key = IN_HAND.get()
        if key is not None and manifest is not None:
            self.on_write(key, (ref, str(metadata(manifest).get("resourceVersion", ""))))

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest:
        """See `KubeApi.get`."""
        self._ask("get", ref.kind)
        return await self._api.get(ref, resource_version=resource_version, metadata_only=metadata_only)

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
    ) -> ListPage:
        """See `KubeApi.list`."""
        self._ask("list", kind)
        return await self._api.list(
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            metadata_only=metadata_only,
        )

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 300,
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """See `KubeApi.watch`."""
        self._ask("watch", kind)
        return self._api.watch(
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            metadata_only=metadata_only,
        )

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """See `KubeApi.create`."""
        self._ask("create", kind)
        answer = await self._api.create(manifest, kind=kind, field_manager=field_manager)
        self._written(ref_of(answer, kind), answer)
        return answer

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """See `KubeApi.update`."""
        self._ask("update", kind)
        answer = await self._api.update(manifest, kind=kind, field_manager=field_manager)
        self._written(ref_of(answer, kind), answer)
        return answer

    async def apply(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """See `KubeApi.apply`."""
        self._ask("patch", kind)
        self._ask("create", kind)  # if the object does not exist yet
        answer = await self._api.apply(manifest, kind=kind, field_manager=field_manager, force=force, dry_run=dry_run)
        if not dry_run:
            self._written(ref_of(answer, kind), answer)
        return answer

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Refuse; see `KubeApi.apply_status`. A controller returns its own status instead."""
        self._ask("patch status", kind)
        return await self._api.apply_status(manifest, kind=kind, field_manager=field_manager, force=force)

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """See `KubeApi.patch`."""
        self._ask(f"patch {subresource}" if subresource else "patch", ref.kind)
        answer = await self._api.patch(
            ref, patch, patch_type=patch_type, field_manager=field_manager, subresource=subresource
        )
        self._written(ref, answer)
        return answer

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> Manifest | None:
        """See `KubeApi.delete`."""
        self._ask("delete", ref.kind)
        answer = await self._api.delete(ref, uid=uid, resource_version=resource_version, propagation=propagation)
        self._written(ref, answer)
        return answer

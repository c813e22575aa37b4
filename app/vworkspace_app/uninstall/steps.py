"""The steps of an uninstallation, in order: each can be told before it is done, and done again after it failed.

With applications: while the operator still runs, Operations end, then instances, whose releases Flux uninstalls;
nothing else is touched before they are gone. Without: the operator goes first, so that nobody acts on what is let go.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final

import anyio
import attrs

from vworkspace_app.controller.lookups import all_of, find, leases_of
from vworkspace_app.install.options import NAME
from vworkspace_app.uninstall.inventory import Inventory
from vworkspace_app.uninstall.letting_go import let_go
from vworkspace_core.api.labels import FIELD_MANAGER, UNINSTALL
from vworkspace_core.apimachinery.errors import NotFound
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.overview.replicas import is_held
from vworkspace_core.ports import KubeApi, PatchType

_POLL_SECONDS: Final = 0.5


class Stuck(Exception):
    """Something does not go; the message says what it says of itself."""


@attrs.frozen
class Step:
    """What is done, in words, and the doing. Raises Stuck, and what the `KubeApi` raises."""

    title: str
    act: Callable[[], Awaitable[None]] = attrs.field(repr=False)


def steps_of(
    api: KubeApi, inventory: Inventory, *, keep_applications: bool, patience: float, now: Callable[[], datetime]
) -> Iterator[Step]:
    """What there is to do in that cluster. `patience`: seconds for each thing that is waited for; `now`: in UTC."""
    work = _Work(api, inventory, patience, now)
    yield from work.keeping() if keep_applications else work.with_applications()
    yield from work.the_rest(keep_applications=keep_applications)


@attrs.frozen
class _Work:
    api: KubeApi
    inventory: Inventory
    patience: float
    now: Callable[[], datetime]

    # --- the two beginnings ------------------------------------------------------------------------------------------

    def with_applications(self) -> Iterator[Step]:
        for kind, manifests in (
            (OPERATION, self.inventory.operations),
            (APPLICATION_INSTANCE, self.inventory.instances),
        ):
            if manifests:
                words = "uninstall, by Flux, and delete" if kind == APPLICATION_INSTANCE else "delete"
                yield Step(f"{words} {_listed(kind, manifests)}", partial(self._delete_all, kind))
        yield from self._stop()

    def keeping(self) -> Iterator[Step]:
        yield from self._stop()
        for kind, manifests in (
            (OPERATION, self.inventory.operations),
            (APPLICATION_INSTANCE, self.inventory.instances),
        ):
            if manifests:
                left = "; their HelmReleases stay with Flux" if kind == APPLICATION_INSTANCE else ""
                yield Step(f"let go of and delete {_listed(kind, manifests)}{left}", partial(self._let_go, kind))

    def _stop(self) -> Iterator[Step]:
        for ref in self.inventory.webhooks:
            yield Step(f"delete {ref}", partial(self._delete, ref))
        if self.inventory.deployments:
            named = ", ".join(map(str, self.inventory.deployments))
            yield Step(f"delete {named}, and wait until no replica leads any more", self._stop_operator)

    # --- what is the same for both -----------------------------------------------------------------------------------

    def the_rest(self, *, keep_applications: bool) -> Iterator[Step]:
        for ref in self.inventory.definitions:
            yield Step(f"delete {ref}", partial(self._delete_definition, ref))
        for ref in (*self.inventory.beside, *self.inventory.rights):
            if not (keep_applications and ref in self.inventory.release_rights):
                yield Step(f"delete {ref}", partial(self._delete, ref))
        if self.inventory.namespace is not None:
            words = "with the credential of this cluster in it"
            yield Step(f"delete {self.inventory.namespace}, {words}", self._delete_namespace)

    # --- doing it ----------------------------------------------------------------------------------------------------

    async def _delete_all(self, kind: Kind) -> None:
        """And whatever somebody made meanwhile, until there is none."""
        limit = anyio.current_time() + self.patience
        while left := await all_of(self.api, kind):
            for manifest in left:
                await self._want_gone(manifest, kind)
            if anyio.current_time() >= limit:
                raise Stuck(f"{_listed(kind, left)}: not gone within {self.patience:g} seconds; {_said(left[0])}")
            await anyio.sleep(_POLL_SECONDS)

    async def _want_gone(self, manifest: Manifest, kind: Kind) -> None:
        ref = ref_of(manifest, kind)
        if not metadata(manifest).get("deletionTimestamp"):
            await self._delete(ref)
        elif kind == APPLICATION_INSTANCE and not get_path(manifest, "metadata", "annotations", UNINSTALL):
            # Where the definition went first, the operator waits for exactly this word.
            with suppress(NotFound):
                change = {"metadata": {"annotations": {UNINSTALL: "true"}}}
                await self.api.patch(ref, change, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)

    async def _let_go(self, kind: Kind) -> None:
        for manifest in await all_of(self.api, kind):
            await let_go(self.api, manifest, kind)
        await self._until_gone(lambda: all_of(self.api, kind), kind.crd_name)

    async def _stop_operator(self) -> None:
        for deployment in self.inventory.deployments:
            await self._delete(deployment)

        async def leading() -> tuple[Manifest, ...]:
            leases = await leases_of(self.api, self.inventory.system_namespace, NAME)
            return tuple(lease for lease in leases if is_held(lease, self.now()))

        await self._until_gone(leading, "the leader's Lease is still renewed: a replica runs somewhere else")

    async def _delete_definition(self, ref: ObjectRef) -> None:
        left = await self._objects_of(ref)
        if left:
            raise Stuck(f"{left} of {ref.name} came meanwhile: pause the control plane, and run this again")
        await self._delete(ref)
        await self._until_gone(lambda: self._there(ref), str(ref))

    async def _objects_of(self, ref: ObjectRef) -> int:
        for kind in (OPERATION, APPLICATION_INSTANCE):
            if kind.crd_name == ref.name:
                return len(await all_of(self.api, kind))
        return 0

    async def _delete_namespace(self) -> None:
        assert self.inventory.namespace is not None
        ref = self.inventory.namespace
        await self._delete(ref)
        await self._until_gone(
            lambda: self._there(ref), f"{ref}: kubectl describe namespace {ref.name} says what is left"
        )

    async def _there(self, ref: ObjectRef) -> tuple[Manifest, ...]:
        live = await find(self.api, ref)
        return () if live is None else (live,)

    async def _delete(self, ref: ObjectRef) -> None:
        with suppress(NotFound):
            await self.api.delete(ref)

    async def _until_gone(self, look: Callable[[], Awaitable[Iterable[Manifest]]], what: str) -> None:
        limit = anyio.current_time() + self.patience
        while await look():
            if anyio.current_time() >= limit:
                raise Stuck(f"{what}: not gone within {self.patience:g} seconds")
            await anyio.sleep(_POLL_SECONDS)


def _listed(kind: Kind, manifests: Iterable[Manifest]) -> str:
    names = [f"{metadata(manifest).get('namespace')}/{metadata(manifest)['name']}" for manifest in manifests]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    plural = kind.kind if len(names) == 1 else f"{kind.kind}s"
    return f"{len(names)} {plural} ({', '.join(names[:10])}{more})"


def _said(manifest: Manifest) -> str:
    """What the first of them says of its own end."""
    for condition in get_path(manifest, "status", "conditions") or ():
        if get_path(condition, "type") in ("Deleting", "Running") and get_path(condition, "status") == "True":
            return str(get_path(condition, "message"))
    return "it says nothing: is the operator running?"

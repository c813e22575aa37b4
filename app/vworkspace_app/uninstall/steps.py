"""The steps of an uninstallation, in order. Each can be printed before it is done, and repeated after a failure.

If applications are uninstalled too, Operations end first, while the operator runs, then instances, whose releases Flux
uninstalls; all other steps follow when they are gone. If applications are kept, the operator is removed first.

Objects are deleted without their children, even while an operator runs or is killed (RUN-7).

Expected flow
    An object gets the annotation that marks it as abandoned, and the operator's finalizer → it is deleted, with the
    propagation policy Orphan → its children are released: they lose their owner reference to it → the children are read
    again, until none is left to release → the finalizers are removed.
Guarantees
    A running operator cooperates from the first step on: it releases the children of an object that is marked and being
    deleted, and creates nothing for it. Its earlier decisions have no effect any more: each write carries the
    resourceVersion on which it was decided, and every object concerned has changed since. The owner exists until no
    child has an owner reference to it.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import attrs

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.errors import NotFound, Stale
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.meta import ABANDON, ObjectMeta, is_abandoned
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.apimachinery.structuring import read_meta
from purekube.controller.decision import MergePatch
from purekube.controller.lease.record import holder_of
from purekube.controller.ownership import owner_uids
from purekube.ports import KubeApi, PatchType, Propagation
from purekube_run.controller.lookups import all_of, find
from vworkspace_app.uninstall.installed_objects import Inventory, leases_by
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, OPERATION_UID, UNINSTALL
from vworkspace_core.install.access import named_by_releases
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS
from vworkspace_core.instances.ownership import orphaning_patch
from vworkspace_core.operations.deletion import is_marked, letting_go
from vworkspace_core.operations.engines import KINDS_ELSEWHERE, engine_kinds
from vworkspace_core.overview.tree import is_held

_POLL_SECONDS: Final = 0.5
_LAST_PODS_SECONDS: Final = 120.0
"""The seconds within which the pods of a deleted Deployment end, and their Lease expires."""
_OURS: Final = (OPERATION, APPLICATION_INSTANCE)
_BENEATH: Final = {APPLICATION_INSTANCE: DOWNSTREAM_KINDS, OPERATION: engine_kinds()}
_HOLDING: Final = (FINALIZER, "orphan")
"""The finalizers to remove once all children are released; without a garbage collector "orphan" would stay."""


class Stuck(Exception):
    """The error raised when a step makes no progress. Its message names the obstacle and the remedy."""


@attrs.frozen
class UninstallStep:
    """A step of the uninstallation: its title, and the function that performs it.

    The function raises Stuck, and the errors of `KubeApi`.
    """

    title: str
    act: Callable[[], Awaitable[None]] = attrs.field(repr=False)


@attrs.frozen
class Waiting:
    """The settings of waits: the time limit for one object, and the clock that measures it.

    `patience` is the limit in seconds, and `now` returns the time in UTC.
    """

    patience: float
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]] = attrs.field(repr=False)

    def limit(self, longest: float | None = None) -> datetime:
        """Return the time at which a wait that begins now must end.

        That is after `patience` seconds, or after `longest` seconds if that is less.
        """
        return self.now() + timedelta(seconds=self.patience if longest is None else min(longest, self.patience))


def steps_of(
    api: KubeApi, inventory: Inventory, waiting: Waiting, *, keep_applications: bool
) -> Iterator[UninstallStep]:
    """Yield the steps that uninstall everything in the inventory.

    With `keep_applications`, the releases of the instances stay. `waiting` limits the time for each object.
    """
    work = _Work(api, inventory, waiting, keep_applications)
    yield from work.keeping() if keep_applications else work.with_applications()
    yield from work.the_rest()


@attrs.frozen
class _Work:
    api: KubeApi
    inventory: Inventory
    waiting: Waiting
    keep: bool

    # --- the two beginnings ------------------------------------------------------------------------------------------

    def with_applications(self) -> Iterator[UninstallStep]:
        for kind, manifests in self._ours():
            instances = kind == APPLICATION_INSTANCE
            title = "; ".join(self._deletions()) if instances else f"delete {_count_and_names(kind, manifests)}"
            yield UninstallStep(title, partial(self._delete_all, kind))
        yield from self._stop()

    def _deletions(self) -> Iterator[str]:
        """Yield a line for each way to delete instances: with their application, without one, or keeping it."""
        inventory = self.inventory
        for words, instances, remark in (
            ("uninstall, by Flux, and delete", inventory.applications, ""),
            ("delete", inventory.without_application, ", which deployed nothing"),
            ("delete", inventory.abandoned, ", but keep what was deployed"),
        ):
            if instances:
                yield f"{words} {_count_and_names(APPLICATION_INSTANCE, instances)}{remark}"

    def keeping(self) -> Iterator[UninstallStep]:
        yield from self._stop()
        for kind, manifests in self._ours():
            left = "; their HelmReleases stay with Flux" if kind == APPLICATION_INSTANCE else ""
            yield UninstallStep(
                f"let go of and delete {_count_and_names(kind, manifests)}{left}", partial(self._let_go, kind)
            )

    def _ours(self) -> Iterator[tuple[Kind, tuple[Manifest, ...]]]:
        for kind, manifests in zip(_OURS, (self.inventory.operations, self.inventory.instances), strict=True):
            if manifests:
                yield kind, manifests

    def _stop(self) -> Iterator[UninstallStep]:
        for ref in self.inventory.webhooks:
            yield UninstallStep(f"delete {ref}", partial(self._delete, ref))
        deleting = "".join(f"delete {ref}, " for ref in self.inventory.deployments)
        # A Deployment's pods are deleted with it; any other holder must be stopped by the user.
        held = () if deleting else self._held(self.inventory.leases)
        if deleting or self.inventory.leases:
            words = f"{deleting}{'and ' if deleting else ''}wait until no replica leads any more"
            yield UninstallStep(words + (f" ({_holders(held)} does now)" if held else ""), self._stop_operator)

    # --- common steps ------------------------------------------------------------------------------------------------

    def the_rest(self) -> Iterator[UninstallStep]:
        for ref in self.inventory.definitions:
            yield UninstallStep(f"delete {ref}", partial(self._delete_definition, ref))
        needed = self.inventory.needed_rights(keep_applications=self.keep)
        for ref in self.inventory.beside:
            yield UninstallStep(f"delete {ref}", partial(self._delete, ref))
        for ref in self.inventory.rights:
            if ref not in needed:
                yield UninstallStep(f"delete {ref}", partial(self._delete_right, ref))
        if (namespace := self.inventory.namespace_to_delete(keep_applications=self.keep)) is not None:
            words = "with the credential of this cluster in it"
            yield UninstallStep(f"delete {namespace}, {words}", partial(self._delete_namespace, namespace))

    # --- execution ---------------------------------------------------------------------------------------------------

    async def _delete_all(self, kind: Kind) -> None:
        """Delete all objects of a kind until there are none. Objects that are created meanwhile are deleted too."""
        limit = self.waiting.limit()
        while left := await all_of(self.api, kind):
            for manifest in left:
                await self._want_gone(manifest, kind)
            await self._pause(limit, f"{_count_and_names(kind, left)}: not gone; {_deletion_message(left[0])}")

    async def _want_gone(self, manifest: Manifest, kind: Kind) -> None:
        ref = ref_of(manifest, kind)
        if not metadata(manifest).get("deletionTimestamp"):
            await self._delete(ref)
        elif kind == APPLICATION_INSTANCE and not get_path(manifest, "metadata", "annotations", UNINSTALL):
            # If the definition was deleted first, the operator waits for exactly this annotation.
            with suppress(NotFound):
                change = {"metadata": {"annotations": {UNINSTALL: "true"}}}
                await self.api.patch(ref, change, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)

    async def _let_go(self, kind: Kind) -> None:
        """Delete all objects of a kind, but not their children, until there are none.

        Objects that are created meanwhile are deleted, too.
        """
        limit = self.waiting.limit()
        while left := await all_of(self.api, kind):
            await advance_deletion(self.api, kind, left)
            await self._pause(limit, f"{_count_and_names(kind, left)}: not gone{_foreign_finalizers(left)}")

    async def _stop_operator(self) -> None:
        for deployment in self.inventory.deployments:
            await self._delete(deployment)
        limit = self.waiting.limit(None if self.inventory.deployments else _LAST_PODS_SECONDS)
        while held := self._held(await leases_by(self.api, self.inventory.lease_names)):
            named = ", ".join("{namespace}/{name}".format_map(metadata(lease)) for lease in held)
            obstacle = f"{_holders(held)} still renews Lease {named}"
            await self._pause(limit, f"{obstacle}: an operator runs that no Deployment here started. Stop it")

    def _held(self, leases: Iterable[Manifest]) -> tuple[Manifest, ...]:
        return tuple(lease for lease in leases if is_held(lease, self.waiting.now()))

    async def _delete_definition(self, ref: ObjectRef) -> None:
        """Delete a CRD.

        If applications are kept, instances that were created meanwhile are deleted before, without their children.
        """
        kind = next((kind for kind in _OURS if kind.crd_name == ref.name), None)
        if kind is not None and self.keep:
            await self._let_go(kind)
        elif kind is not None and (left := await all_of(self.api, kind)):
            raise Stuck(f"{len(left)} of {ref.name} came meanwhile: pause the control plane")
        await self._delete(ref)
        limit = self.waiting.limit()
        while await find(self.api, ref) is not None:
            if kind is not None and self.keep:
                await advance_deletion(self.api, kind, await all_of(self.api, kind))
            await self._pause(limit, f"{ref}: not gone")

    async def _delete_right(self, ref: ObjectRef) -> None:
        """Delete a role, binding or account, unless a HelmRelease uses it in the meantime."""
        live = await find(self.api, ref)
        rights = {**self.inventory.rights, **({} if live is None else {ref: live})}
        if ref not in named_by_releases(rights, await all_of(self.api, HELM_RELEASE, namespace=ref.namespace)):
            await self._delete(ref)

    async def _delete_namespace(self, ref: ObjectRef) -> None:
        if releases := await all_of(self.api, HELM_RELEASE, namespace=ref.name):
            raise Stuck(
                f"{_count_and_names(HELM_RELEASE, releases)} would be deleted with {ref}: move or delete it first"
            )
        await self._delete(ref)
        limit = self.waiting.limit()
        while await find(self.api, ref) is not None:
            await self._pause(limit, f"{ref}: not gone; kubectl describe namespace {ref.name} says what is left")

    async def _delete(self, ref: ObjectRef) -> None:
        with suppress(NotFound):
            await self.api.delete(ref)

    async def _pause(self, limit: datetime, obstacle: str) -> None:
        """Wait before the next attempt. Raises Stuck with `obstacle` if the time `limit` has passed."""
        if self.waiting.now() >= limit:
            raise Stuck(obstacle)
        await self.waiting.sleep(_POLL_SECONDS)


def _count_and_names(kind: Kind, manifests: Iterable[Manifest]) -> str:
    names = [f"{metadata(manifest).get('namespace')}/{metadata(manifest)['name']}" for manifest in manifests]
    return count_and_first(kind, names)


def count_and_first(kind: Kind, names: list[str]) -> str:
    """Return a string with the number of objects of a kind and the first ten of their `names`."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    plural = kind.kind if len(names) == 1 else f"{kind.kind}{'es' if kind.kind.endswith('x') else 's'}"
    return f"{len(names)} {plural} ({', '.join(names[:10])}{more})"


def _holders(leases: Iterable[Manifest]) -> str:
    return ", ".join(sorted({holder_of(lease) for lease in leases}))


def _deletion_message(manifest: Manifest) -> str:
    """Return the message of an object's condition about its deletion, or a hint if there is none."""
    for condition in conditions_of(manifest):
        if condition.get("type") in ("Deleting", "Running") and condition.get("status") == "True":
            return str(condition.get("message"))
    return "it says nothing: is the operator running?"


def _foreign_finalizers(manifests: Iterable[Manifest]) -> str:
    """Return a part of a message that names the finalizers of other controllers, or "" if there are none."""
    names = {name for manifest in manifests for name in metadata(manifest).get("finalizers") or ()} - {FINALIZER}
    return f", because of finalizers that are not the operator's: {', '.join(sorted(names))}" if names else ""


# --- orphaning --------------------------------------------------------------------------------------------------------


async def advance_deletion(api: KubeApi, kind: Kind, manifests: Sequence[Manifest]) -> None:
    """Take the next step to delete these objects without their children.

    Several steps are needed: call this again, with the objects as they are then, until they are gone.
    """
    owners = [owner for manifest in manifests if (owner := await _marked(api, kind, manifest)) is not None]
    if await _disowned(api, kind, owners):
        for owner in owners:
            await _without_finalizers(api, ObjectRef(kind, owner.namespace, owner.name), owner.uid)


async def _marked(api: KubeApi, kind: Kind, manifest: Manifest) -> ObjectMeta | None:
    """Mark an object as abandoned, delete exactly that version, and return its metadata.

    Return None if the object has changed in the meantime or no longer exists.
    """
    ref, meta = ref_of(manifest, kind), read_meta(manifest)
    try:
        if not is_abandoned(meta) or (FINALIZER not in meta.finalizers and not meta.deletion_timestamp):
            missing = () if FINALIZER in meta.finalizers or meta.deletion_timestamp else (FINALIZER,)
            change = {"annotations": {ABANDON: "true"}, "finalizers": [*meta.finalizers, *missing]}
            pinned = {"resourceVersion": meta.resource_version, **change}
            meta = read_meta(await _merge(api, MergePatch(ref, {"metadata": pinned})))
        if not meta.deletion_timestamp:
            # It leaves the finalizer "orphan" for the garbage collector (W-32).
            await api.delete(ref, uid=meta.uid, resource_version=meta.resource_version, propagation=Propagation.ORPHAN)
    except (NotFound, Stale):
        return None
    return meta


async def _disowned(api: KubeApi, kind: Kind, owners: Sequence[ObjectMeta]) -> bool:
    """Remove these owners from the owner references of their children, so that the children are not deleted with them.

    Return True if no child has one of these owners any longer.
    """
    by_namespace: dict[str | None, list[ObjectMeta]] = {}
    for owner in owners:
        by_namespace.setdefault(owner.namespace, []).append(owner)
    patches = [
        patch
        for beneath in _BENEATH[kind]
        for namespace, there in ({None: owners} if beneath in KINDS_ELSEWHERE else by_namespace).items()
        for live in await all_of(api, beneath, namespace=namespace)
        for patch in _next_patch(kind, ref_of(live, beneath), live, there)
    ]
    for patch in patches:
        with suppress(NotFound, Stale):
            await _merge(api, patch)
    return not patches


def _next_patch(kind: Kind, ref: ObjectRef, live: Manifest, owners: Sequence[ObjectMeta]) -> Iterator[MergePatch]:
    """Yield the patch that removes one of `owners` from a child, or nothing if none of them owns the child.

    If a child has several of these owners, further calls remove the others.
    """
    for owner in owners:
        patch = orphaning_patch(ref, live, owner) if kind == APPLICATION_INSTANCE else _unlocking(ref, live, owner.uid)
        if patch is not None:
            yield patch
            return


def _unlocking(ref: ObjectRef, live: Manifest, uid: str) -> MergePatch | None:
    """Return the patch that removes an owner and the operator's marks from an engine object, which then keeps running.

    Return None if there is nothing to remove: `uid` is not the uid of one of the object's owners, and the object has no
    mark for the Operation with that uid, such as the finalizer from its creation.
    """
    made = is_marked(live) and get_path(live, "metadata", "labels", OPERATION_UID) == bounded_name(uid)
    if not made and uid not in owner_uids(live):
        return None
    return letting_go(ref, live, uid)


async def _without_finalizers(api: KubeApi, ref: ObjectRef, uid: str) -> None:
    meta = read_meta(await find(api, ref) or {})
    left = [name for name in meta.finalizers if name not in _HOLDING]
    if meta.uid == uid and len(left) < len(meta.finalizers):
        pinned = {"resourceVersion": meta.resource_version, "finalizers": left}
        with suppress(NotFound, Stale):
            await _merge(api, MergePatch(ref, {"metadata": pinned}))


async def _merge(api: KubeApi, patch: MergePatch) -> Manifest:
    return await api.patch(patch.ref, patch.patch, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)

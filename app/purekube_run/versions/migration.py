"""Migration of objects to the storage version: all are written again, then status.storedVersions is trimmed (PH-8).

Guarantees
    `status.storedVersions` names a version as long as an object may be stored in it. It is trimmed when every listed
    object has been written, and only if the storage version is still the one with which the migration began. Objects
    that are created meanwhile are stored in the storage version anyway. If the migration is killed and run again, the
    result is the same; an object that was already written is patched again, without effect. If the API server refuses
    an object, that is reported, and nothing is trimmed.
Assumptions
    Every API server of the cluster knows the present storage version. For some seconds after a change, an API server
    that has not noticed it may still store objects in the old version.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from purekube.apimachinery.errors import Forbidden, Invalid, NotFound, OperatorError, Stale, Unavailable
from purekube.apimachinery.manifest import ObjectRef, metadata, ref_of
from purekube.apimachinery.problems import amount
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.ports import KubeApi, PatchType
from purekube.versions import VersionsInUse
from purekube_run.controller.lookups import each_of

_MANAGER: Final = "vworkspace-versions"
_STEP: Final = 100
"""The number of written objects between two lines of progress."""
_ATTEMPTS: Final = 5
"""The maximum number of attempts at a write that fails for a reason which may pass, with a pause in between."""
_PAUSE: Final = 1.0
_SHOWN: Final = 10
"""The maximum number of refused objects that a message lists."""

Tell = Callable[[str], None]
Sleep = Callable[[float], Awaitable[None]]


class NotMigrated(Exception):
    """The error raised when the migration of a CRD's objects failed. The message has the reason and the remedy."""


@attrs.frozen
class Migration:
    """The component that rewrites all objects of CRDs, so that they are stored in the storage version.

    `tell` is called with a line of text for each step; `sleep` waits before a retry. If `dry_run` is True, nothing is
    written.
    """

    api: KubeApi
    tell: Tell
    sleep: Sleep
    dry_run: bool = False

    async def run(self, name: str) -> None:
        """Rewrite all objects of the CRD `name`, and trim its status.storedVersions.

        Do nothing if all are stored in the storage version. Raises NotMigrated, and OperatorErrors of the API server.
        """
        found = await self._versions(name)
        if not found.stale:
            self.tell(f"{name}: every object is stored in {found.storage}")
            return
        if found.readable is None:
            told = f"the storage version {found.storage} is not served, so that nobody can write objects in it"
            raise NotMigrated(f"{name}: {told}: set served: true for it, and begin again")
        # Objects that are created later are stored in the storage version anyway.
        refs = [ref_of(manifest, found.kind) async for manifest in each_of(self.api, found.kind)]
        old, count = ", ".join(found.stale), amount(len(refs), "object")
        if self.dry_run:
            self.tell(f"{name}: would write {count} in {found.storage}, and take {old} out of status.storedVersions")
            return
        self.tell(f"{name}: {count} to write in {found.storage}; stored versions: {', '.join(found.stored)}")
        await self._write(found, refs)
        await self._trim(found)

    async def _versions(self, name: str) -> VersionsInUse:
        try:
            return VersionsInUse.of(await self.api.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name)))
        except NotFound as error:
            raise NotMigrated(f"{name}: there is no such definition; `versions list` shows them") from error

    async def _write(self, found: VersionsInUse, refs: list[ObjectRef]) -> None:
        refused: list[str] = []
        for number, ref in enumerate(refs, 1):
            try:
                await self._rewrite(ref)
            except (Invalid, Forbidden) as error:
                refused.append(f"{ref}: {error.message}")
            if number % _STEP == 0 and number < len(refs):
                self.tell(f"{found.definition}: {number} of {len(refs)}")
        if refused:
            more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
            failed, versions = amount(len(refused), "object"), ", ".join(found.stale)
            told = f"{failed} of {len(refs)} were refused, and may be stored in {versions}"
            listed = "; ".join(refused[:_SHOWN])
            raise NotMigrated(f"{found.definition}: {told}: {listed}{more}. Mend them, and begin again")

    async def _rewrite(self, ref: ObjectRef) -> None:
        """Make the API server store an object again, in the storage version, by an empty patch."""
        for attempt in range(_ATTEMPTS):
            try:
                await self.api.patch(ref, {}, patch_type=PatchType.MERGE, field_manager=_MANAGER)
                return
            except NotFound:
                return
            except (Stale, Unavailable) as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                asked = error.retry_after if isinstance(error, Unavailable) else None
                await self.sleep(max(_PAUSE, asked or 0.0))

    async def _trim(self, begun: VersionsInUse) -> None:
        for _ in range(_ATTEMPTS):
            crd = await self.api.get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, begun.definition))
            now = VersionsInUse.of(crd)
            if now.storage != begun.storage:
                told = f"the storage version became {now.storage} meanwhile: begin again"
                raise NotMigrated(f"{begun.definition}: {told}")
            # A precondition, since an upgrade may change the storage version between the read and this write.
            guard = {"uid": metadata(crd)["uid"], "resourceVersion": metadata(crd)["resourceVersion"]}
            try:
                await self.api.patch(
                    ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, begun.definition),
                    {"metadata": guard, "status": {"storedVersions": [begun.storage]}},
                    patch_type=PatchType.MERGE,
                    field_manager=_MANAGER,
                    subresource="status",
                )
            except Stale:
                continue
            self.tell(f"{begun.definition}: done; every object is stored in {begun.storage}")
            return
        raise NotMigrated(f"{begun.definition}: its status changes all the time: begin again")


async def definitions_in_use(api: KubeApi) -> list[VersionsInUse]:
    """Return the versions in which objects of each CRD may be stored, for all CRDs of the cluster, sorted by name."""
    found = [VersionsInUse.of(crd) async for crd in each_of(api, CUSTOM_RESOURCE_DEFINITION)]
    return sorted(found, key=lambda one: one.definition)


async def migrate(api: KubeApi, names: list[str], tell: Tell, sleep: Sleep, *, dry_run: bool) -> list[str]:
    """Rewrite the objects of the CRDs `names` in their storage versions, and return a message for each failure.

    If `names` is empty, all CRDs that need a migration are migrated. `tell` is called with a line of text for each
    step, and `sleep` waits before a retry. If `dry_run` is True, nothing is written. Raises OperatorError if the CRDs
    cannot be listed.
    """
    chosen = names or [
        versions_in_use.definition for versions_in_use in await definitions_in_use(api) if versions_in_use.stale
    ]
    if not chosen:
        tell("every object is stored in the storage version of its kind")
    migration, failures = Migration(api, tell, sleep, dry_run), []
    for name in dict.fromkeys(chosen):
        try:
            await migration.run(name)
        except NotMigrated as error:
            failures.append(str(error))
        except OperatorError as error:
            failures.append(f"{name}: {error.message}")
    return failures

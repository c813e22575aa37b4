"""Performs the effects of simulated passes on a `KubeApi`: the only code here that writes to the cluster."""

from typing import Any, Final, assert_never

from vworkspace_core.apimachinery.errors import NotFound, Stale
from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.ports import KubeApi, PatchType
from vworkspace_fake.flux.behaviour import FluxBehaviour
from vworkspace_fake.flux.effects import (
    ApplyChild,
    CanImpersonate,
    CorrectDrift,
    Decide,
    Effect,
    FindDrift,
    LoadReleases,
    Patch,
    Pull,
    Read,
    Remove,
    Sleep,
    StoreReleases,
)
from vworkspace_fake.flux.helm_storage import HelmStorage
from vworkspace_fake.flux.script import Script
from vworkspace_fake.flux.writes import conditions_patch, metadata_patch, status_patch

_ATTEMPTS: Final = 5


class Interpreter:
    """Answers effects: the API through the port, registries and Helm by the script and the storage."""

    def __init__(self, api: KubeApi, behaviour: FluxBehaviour) -> None:
        self._api = api
        self.script = Script(behaviour)
        self.storage = HelmStorage(api)

    async def perform(self, effect: Effect) -> Any:
        """Perform one effect and return its answer. Raises what the port raises."""
        match effect:
            case Patch():
                return await self._patch(effect)
            case Read(ref):
                return await self._read(ref)
            case ApplyChild(kind, manifest, manager):
                return await self._api.apply(manifest, kind=kind, field_manager=manager, force=True)
            case Remove(ref):
                return await self._remove(ref)
            case LoadReleases() | StoreReleases():
                return await self._helm(effect)
            case Sleep():
                raise AssertionError("time passes in the driver, not here")
            case _:
                return self._ask(effect)

    def _ask(self, effect: Pull | Decide | CanImpersonate | FindDrift | CorrectDrift) -> Any:
        match effect:
            case Pull(request):
                return self.script.pull(request)
            case Decide(action, target, timeout):
                return self.script.decide(action, target, timeout)
            case CanImpersonate(namespace, name):
                return self.script.can_impersonate(namespace, name)
            case FindDrift(owner):
                return self.script.drift(owner)
            case CorrectDrift(owner):
                return self.script.correct(owner)
            case _:
                assert_never(effect)

    async def _helm(self, effect: LoadReleases | StoreReleases) -> Any:
        secrets = self.script.behaviour.release_secrets
        place = (effect.namespace, effect.name, effect.owner)
        if isinstance(effect, LoadReleases):
            return await self.storage.load(*place, secrets=secrets)
        return await self.storage.store(*place, effect.releases, secrets=secrets)

    async def _read(self, ref: ObjectRef) -> Any:
        try:
            return await self._api.get(ref)
        except NotFound:
            return None

    async def _remove(self, ref: ObjectRef) -> None:
        try:
            await self._api.delete(ref)
        except NotFound:
            return

    async def _patch(self, patch: Patch) -> None:
        """Conditions, then metadata, then the rest of the status. An object that is gone takes no more writes."""
        try:
            await self._patch_conditions(patch)
            body = metadata_patch(patch.before, patch.after)
            if body is not None:
                await self._merge(patch, body, "")
            body = status_patch(patch.before, patch.after)
            if body is not None:
                await self._merge(patch, body, "status")
        except NotFound:
            return

    async def _patch_conditions(self, patch: Patch) -> None:
        for attempt in range(_ATTEMPTS):
            latest = await self._api.get(patch.ref)
            body = conditions_patch(latest, patch.before, patch.after, patch.now)
            if body is None:
                return
            try:
                await self._merge(patch, body, "status")
            except Stale:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    async def _merge(self, patch: Patch, body: Any, subresource: str) -> None:
        await self._api.patch(
            patch.ref, body, patch_type=PatchType.MERGE, field_manager=patch.field_manager, subresource=subresource
        )

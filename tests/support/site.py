"""A cluster and the people who act in it, while controllers run: what stories about boxes and controllers share."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import attrs

from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.ports import Clock, KubeApi, PatchType
from tests.support.patience import PATIENCE, pause_after


@attrs.define
class Site:
    """Both ends: `admin` is the client of people, `api` that of controllers."""

    admin: KubeApi
    api: KubeApi
    clock: Clock

    async def edit(self, ref: ObjectRef, patch: Mapping[str, Any], manager: str = "kubectl-edit") -> Manifest:
        """A merge patch by somebody."""
        return await self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=manager)

    async def get(self, ref: ObjectRef) -> Manifest | None:
        """An object; None where there is none."""
        try:
            return await self.admin.get(ref)
        except NotFound:
            return None

    async def condition(self, ref: ObjectRef, kind: str = "Ready", *, current: bool = True) -> tuple[str, str, str]:
        """Status, reason and message of a condition, if `current` of this generation; empty where it has none."""
        live = await self.get(ref)
        generation = get_path(live, "metadata", "generation")
        for condition in get_path(live, "status", "conditions") or ():
            if condition["type"] == kind and (not current or condition["observedGeneration"] == generation):
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    async def until(self, holds: Callable[[], Awaitable[Any]], within: float = PATIENCE) -> None:
        """Wait for something to come about. Raises TimeoutError."""
        began = self.clock.monotonic()
        with anyio.fail_after(within):
            while not await holds():
                await self.clock.sleep(pause_after(self.clock.monotonic() - began))

    async def until_ready(self, ref: ObjectRef, status: str = "True") -> None:
        """Wait for a status of Ready at the present generation."""

        async def says_so() -> bool:
            return (await self.condition(ref))[0] == status

        await self.until(says_so)

    async def until_gone(self, *refs: ObjectRef) -> None:
        """Wait until none of them is there."""
        for ref in refs:

            async def is_gone(ref: ObjectRef = ref) -> bool:
                return await self.get(ref) is None

            await self.until(is_gone)

"""The objects that the demo creates in a user's cluster (those that `manifests` prints), and deletes at the end.

All their names are unique to one run of the demo, except those of CRDs: an existing CRD is used and not deleted.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import attrs

from purekube.apimachinery.errors import NotFound, Unavailable
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    HELM_RELEASE,
    NAMESPACE,
    RBAC_KINDS,
    RESOURCE_QUOTA,
    SERVICE_ACCOUNT,
    service_account_user,
)
from purekube.ports import PatchType
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import all_of, find
from purekube_run.process.command_line import CommandError
from vworkspace_app.demo.stage import Stage
from vworkspace_app.install import InstallOptions, rights, tenant
from vworkspace_app.install.names import NAME
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION, OWN_KINDS
from vworkspace_core.api.labels import NAMESPACE_GATE, NAMESPACE_GATE_VALUE

T = TypeVar("T")
_KINDS: Final = {kind.kind: kind for kind in (*RBAC_KINDS, SERVICE_ACCOUNT)}
_MANAGER: Final = "vworkspace-demo"
_TOKEN_SECONDS: Final = 3600
_LOOK: Final = 0.2
_PATIENCE: Final = 120.0
"""The time limit in seconds for an object to appear or disappear."""


@attrs.frozen
class ClusterFixture:
    """The objects that one run of the demo creates in a user's cluster, and deletes at the end.

    Their names begin with `name`, which is unique to the run. `defined` has the names of the CRDs that the run created
    because they did not exist.
    """

    api: KubeApiClient
    name: str
    defined: list[str] = attrs.field(factory=list)

    @property
    def namespace(self) -> str:
        """The operator's own namespace in this run of the demo."""
        return self.name

    @property
    def applications(self) -> str:
        """The managed namespace in which the operator works in this run."""
        return f"{self.name}-apps"

    async def token(self) -> str:
        """Return a token of the operator's ServiceAccount."""
        return await self.api.token_of(ObjectRef(SERVICE_ACCOUNT, self.namespace, NAME), _TOKEN_SECONDS)

    # --- making ------------------------------------------------------------------------------------------------------

    async def make(self) -> None:
        """Create all objects of the demo's run in the cluster."""
        await self._define()
        gate = {NAMESPACE_GATE: NAMESPACE_GATE_VALUE}
        for name, labels in ((self.namespace, {}), (self.applications, gate)):
            manifest = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": labels}}
            await self.api.create(manifest, kind=NAMESPACE, field_manager=_MANAGER)
        account = SERVICE_ACCOUNT.manifest(NAME, self.namespace)
        await self.api.create(account, kind=SERVICE_ACCOUNT, field_manager=_MANAGER)
        for manifest in self._printed():
            await self.api.apply(manifest, kind=_KINDS[manifest["kind"]], field_manager=_MANAGER, force=False)

    def _printed(self) -> Iterator[dict[str, Any]]:
        """Yield the roles and accounts that the command `manifests` prints, for the ServiceAccount of this run's
        operator.
        """
        options = InstallOptions(namespace=self.namespace, user=service_account_user(self.namespace, NAME))
        yield from rights(options)
        yield from tenant(self.applications, options)

    async def _define(self) -> None:
        for crd in crd_manifests():
            ref = ref_of(crd, CUSTOM_RESOURCE_DEFINITION)
            if await find(self.api, ref) is None:
                await self.api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager=_MANAGER)
                self.defined.append(ref.name)
        for kind in OWN_KINDS:
            if not await _until(partial(self._is_served, kind)):
                raise CommandError(f"{kind.crd_name} is defined, and the API server does not serve it")

    async def _is_served(self, kind: Kind) -> bool:
        with suppress(NotFound):  # KindMissing is one, too
            await self.api.list(kind, limit=1)
            return True
        return False

    async def forbid_services(self) -> None:
        """Forbid Services in the managed namespace by a quota, and wait until the quota is in force.

        Raises CommandError if the quota is not in force within the time limit.
        """
        ref = ObjectRef(RESOURCE_QUOTA, self.applications, _MANAGER)
        manifest = {**RESOURCE_QUOTA.manifest(ref.name, ref.namespace), "spec": {"hard": {"services": "0"}}}
        await self.api.create(manifest, kind=RESOURCE_QUOTA, field_manager=_MANAGER)
        if not await _until(partial(self._is_in_force, ref)):
            raise CommandError(
                f"ResourceQuota {ref.namespace}/{ref.name} is not in force: does kube-controller-manager run?"
            )

    async def _is_in_force(self, quota: ObjectRef) -> bool:
        return get_path(await self.api.get(quota), "status", "hard") is not None

    async def make_room(self) -> None:
        """Delete the quota that forbids Services in the managed namespace, so that the failed upgrade can succeed."""
        await self.api.delete(ObjectRef(RESOURCE_QUOTA, self.applications, _MANAGER))

    # --- taking away -------------------------------------------------------------------------------------------------

    async def remove_applications(self) -> None:
        """Delete all Operations and instances, and wait until they are gone. The operator has to run meanwhile."""
        for kind in (OPERATION, APPLICATION_INSTANCE):
            await self._remove_all(kind)

    async def _remove_all(self, kind: Kind) -> bool:
        return await _until(partial(_retry_unavailable, partial(self._ask_to_go, kind)))

    async def _ask_to_go(self, kind: Kind) -> bool:
        """Request the deletion of the objects of a kind in the managed namespace. Return True if there is none left."""
        items = await all_of(self.api, kind, namespace=self.applications)
        for item in items:
            if "deletionTimestamp" not in metadata(item):
                await self._delete(ref_of(item, kind))
        return not items

    async def remove(self) -> list[str]:
        """Delete all objects of the run. Return the names of objects that could not be deleted."""
        return await _retry_unavailable(self._remove)

    async def _remove(self) -> list[str]:
        for kind in (OPERATION, APPLICATION_INSTANCE):  # the operator has ended: no controller will remove them
            await self._let_go(kind)
        if not await self._remove_all(HELM_RELEASE):
            await self._let_go(HELM_RELEASE)
        for manifest in self._printed():
            if not _KINDS[manifest["kind"]].namespaced:
                await self._delete(ref_of(manifest, _KINDS[manifest["kind"]]))
        await self._delete(ObjectRef(CLUSTER, None, self.name))
        for event in await all_of(self.api, EVENT, namespace="default"):
            if get_path(event, "regarding", "name") == self.name:
                await self._delete(ref_of(event, EVENT))
        refs = [ObjectRef(NAMESPACE, None, name) for name in (self.applications, self.namespace)]
        refs += [ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, name) for name in self.defined]
        for ref in refs:
            if not await self._is_used(ref):
                await self._delete(ref)
        return [f"{ref.kind.kind} {ref.name}" for ref in refs if not await _until(partial(self._has_gone, ref))]

    async def _let_go(self, kind: Kind) -> None:
        """Delete the remaining objects of a kind in the managed namespace, even without the operator: remove their
        finalizers.
        """
        bare = {"metadata": {"finalizers": None}}
        for item in await all_of(self.api, kind, namespace=self.applications):
            ref = ref_of(item, kind)
            await self._delete(ref)
            with suppress(NotFound):
                await self.api.patch(ref, bare, patch_type=PatchType.MERGE, field_manager=_MANAGER)

    async def _is_used(self, ref: ObjectRef) -> bool:
        """Report whether `ref` is a CRD with objects outside the managed namespace, so that it must not be deleted."""
        kind = next((kind for kind in OWN_KINDS if kind.crd_name == ref.name), None)
        if kind is None:
            return False
        others = (get_path(item, "metadata", "namespace") for item in await all_of(self.api, kind))
        return any(namespace != self.applications for namespace in others)

    async def _delete(self, ref: ObjectRef) -> None:
        with suppress(NotFound):
            await self.api.delete(ref)

    async def _has_gone(self, ref: ObjectRef) -> bool:
        return await find(self.api, ref) is None


async def _until(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Call `holds` repeatedly until it returns True. Return False if that takes longer than the time limit."""
    with anyio.move_on_after(_PATIENCE):
        while not await holds():
            await anyio.sleep(_LOOK)
        return True
    return False


async def _retry_unavailable(act: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `act`. Retry while the API server is unavailable, up to the time limit."""
    limit = anyio.current_time() + _PATIENCE
    while True:
        try:
            return await act()
        except Unavailable:
            if anyio.current_time() > limit:
                raise
            await anyio.sleep(1)


@asynccontextmanager
async def prepared(ground: ClusterFixture, stage: Stage) -> AsyncIterator[None]:
    """Create the demo's objects (`ground`) before the block, and delete them after it, even after an error.

    `stage` prints what happens. Raises CommandError if an object cannot be deleted.
    """
    try:
        await ground.make()
        yield
    finally:
        stage.say("")
        stage.say("taking everything away again")
        with anyio.CancelScope(shield=True):
            left = await ground.remove()
        if left:
            raise CommandError(f"this stays in the cluster, delete it: {', '.join(left)}")

"""REC-10, REC-12: a kind that is installed, but that an API server does not serve yet, is not missing."""

from contextlib import nullcontext
from typing import Any

import anyio
import pytest

from kubelab.clock import VirtualClock
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.errors import KindMissing, Unavailable
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE
from purekube.controller.informer.store import ObjectStore
from purekube.ports import KubeApi
from purekube_run.controller.definitions import refuse_late
from tests.support.builders import chart, instance_manifest
from tests.support.furnished import furnish
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings

CLUSTER = "cluster-1"
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
REF = ObjectRef(APPLICATION_INSTANCE, "n", "crm")


class StartingServer:
    """One of several API servers, which has just started and does not serve HelmReleases for a while."""

    def __init__(self, api: KubeApi) -> None:
        self._api, self.is_starting = api, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def list(self, kind: Kind, **options: Any) -> Any:
        if self.is_starting and kind == HELM_RELEASE:
            raise KindMissing("the server could not find the requested resource")
        return await self._api.list(kind, **options)

    async def get(self, ref: ObjectRef, **options: Any) -> Any:
        if self.is_starting and ref.kind == HELM_RELEASE:
            raise KindMissing("the server could not find the requested resource")
        return await self._api.get(ref, **options)


def test_a_deletion_goes_on_as_soon_as_every_api_server_serves_flux() -> None:
    async def main() -> None:
        clock = VirtualClock()
        server = ApiServer(now=clock.now)
        admin = InProcessKube(server)
        furnish(admin, (*crd_manifests(), *flux_crds()), "n", gated=True)
        api: Any = StartingServer(InProcessKube(server, caller=Caller("operator", agent="operator/1")))
        settings = OperatorSettings(Settings(cluster_id=CLUSTER))
        manager = Manager(api, clock, settings, random=lambda: 0.5)
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_ready()
            manifest = instance_manifest("crm", "n", metadata={"labels": LABELS}, chart=chart("1.0.0"))
            await admin.create(manifest, kind=APPLICATION_INSTANCE, field_manager="odoo")
            await anyio.sleep(10)
            assert (await admin.list(HELM_RELEASE)).items

            api.is_starting = True
            await admin.delete(REF)
            await anyio.sleep(5)
            api.is_starting = False
            await anyio.sleep(30)

            assert not (await admin.list(HELM_RELEASE)).items
            assert not (await admin.list(APPLICATION_INSTANCE)).items
            group.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize(
    ("established", "version", "late"), [(True, "v2", True), (True, "v2beta2", False), (False, "v2", False)]
)
def test_a_kind_is_late_only_if_its_definition_serves_its_version(established: bool, version: str, late: bool) -> None:
    """A cluster with an older Flux has the definition, and never serves the version."""
    definition = {
        **CUSTOM_RESOURCE_DEFINITION.manifest(HELM_RELEASE.crd_name),
        "spec": {"versions": [{"name": version, "served": True}]},
        "status": {"conditions": [{"type": "Established", "status": str(established)}]},
    }
    definition["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    definitions = ObjectStore(CUSTOM_RESOURCE_DEFINITION)
    definitions.put(definition)

    refuse_late([], definitions)
    with pytest.raises(Unavailable) if late else nullcontext():
        refuse_late([HELM_RELEASE], definitions)

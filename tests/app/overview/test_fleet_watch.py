"""`status -w` outlives an API server that is away for a while (SEE-1)."""

from typing import Any

import anyio

from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind
from purekube.ports import ListPage
from tests.support.builders import cluster_manifest
from tests.support.furnished import furnish
from tests.support.patience import PATIENCE
from tests.support.server_thread import wall_clock
from vworkspace_app.overview.fleet_watch import FollowedObjects
from vworkspace_app.overview.reading import OwnObjects
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import CLUSTER


class Away(InProcessKube):
    """An API server that does not answer the first list."""

    refusals = 1

    async def list(self, kind: Kind, **options: Any) -> ListPage:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("the API server does not answer")
        return await super().list(kind, **options)


def test_what_is_followed_stays_followed_while_the_api_server_is_away_SEE_1() -> None:
    shown: list[OwnObjects] = []

    async def story() -> None:
        api, enough = Away(ApiServer(now=wall_clock)), anyio.Event()
        furnish(api, crd_manifests())

        def show(objects: OwnObjects) -> None:
            shown.append(objects)
            if objects.objects:
                enough.set()
            else:
                group.start_soon(create)

        async def create() -> None:
            await api.create(cluster_manifest(clusterId="cluster"), kind=CLUSTER, field_manager="test")

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(FollowedObjects(api, None, "vworkspace-system").run, show)
                await enough.wait()
                group.cancel_scope.cancel()

    anyio.run(story)
    assert shown[0].unreadable == ("leases: the API server does not answer",)
    assert not shown[-1].unreadable

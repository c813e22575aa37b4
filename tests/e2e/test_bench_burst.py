"""`bench.burst` measures operators, not itself: its watches go on, its Flux answers each generation, and when it gives
up it says what the server holds."""

from typing import Any

import aiohttp
import anyio
import pytest

from bench import burst
from bench.burst import SPACE, ApiClient, Play, instance
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.ports import PatchType
from tests.support.embedded_server import embedded
from tests.support.furnished import furnish
from tests.support.patience import PATIENCE
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

pytestmark = pytest.mark.anyio

RELEASE = ObjectRef(HELM_RELEASE, SPACE, "one")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def prepare(server: ApiServer) -> InProcessKube:
    api = InProcessKube(server)
    furnish(api, (*crd_manifests(), *flux_crds()), SPACE)
    source = {
        **OCI_REPOSITORY.manifest("source", SPACE),
        "spec": {"interval": "1h", "url": "oci://charts.example.com/a"},
    }
    run_sync(api.create(source, kind=OCI_REPOSITORY, field_manager="test"))
    return api


def release(**spec: Any) -> Manifest:
    desired = {"interval": "1h", "chartRef": {"kind": "OCIRepository", "name": "source"}, **spec}
    return {**HELM_RELEASE.manifest("one", SPACE), "spec": desired}


async def until(holds: Any) -> None:
    with anyio.fail_after(PATIENCE):
        while not holds():
            await anyio.sleep(0.02)


async def test_the_player_answers_each_generation_and_outlives_streams_that_the_server_ends() -> None:
    async with embedded() as (server, url), aiohttp.ClientSession(url) as session, anyio.create_task_group() as group:
        api = prepare(server)
        scene = Play(ApiClient(session))
        group.start_soon(scene.api.watch, HELM_RELEASE, scene.release_seen)
        group.start_soon(scene.api.watch, APPLICATION_INSTANCE, scene.instance_seen)
        group.start_soon(scene.flux)

        def observed() -> Any:
            return get_path(run_sync(api.get(RELEASE)), "status", "observedGeneration")

        run_sync(api.create(instance("one"), kind=APPLICATION_INSTANCE, field_manager="test"))
        run_sync(api.create(release(), kind=HELM_RELEASE, field_manager="test"))
        await until(lambda: observed() == 1)
        for generation, how in ((2, server.streams.end), (3, server.store.compact)):
            how()
            server.streams.end()
            patch = {"spec": {"timeout": f"{generation}m"}}
            run_sync(api.patch(RELEASE, patch, patch_type=PatchType.MERGE, field_manager="test"))
            await until(lambda: observed() == generation)  # noqa: B023
        assert scene.changes == {"one": 1}, "a stream that begins again is no change"
        group.cancel_scope.cancel()


async def test_when_it_gives_up_it_says_what_the_server_holds_for_each_missing_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(burst, "PATIENCE", 0.0)
    async with embedded() as (server, url), aiohttp.ClientSession(url) as session:
        api = prepare(server)
        run_sync(api.create(instance("one"), kind=APPLICATION_INSTANCE, field_manager="test"))
        with pytest.raises(AssertionError) as given_up:
            await Play(ApiClient(session)).until_ready(["one", "two"], 0.01)

    told = str(given_up.value)
    assert "after 0 s 2 instances are not Ready" in told
    assert "one: generation None of its HelmRelease was seen here, and not answered" in told
    assert "ApplicationInstance: generation 1, observed None; no conditions" in told
    assert "ApplicationInstance: not there" in told

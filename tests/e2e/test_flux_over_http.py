"""The simulated Flux over HTTP, through the adapter that the operator itself uses (RUN-8, RUN-9)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import attrs
import pytest

from kubelab.flux import FluxBehaviour, FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.simulation.queue import workers
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube_http import KubeApiClient
from purekube_run.process.machine import SystemClock
from tests.support.embedded_server import config_of, embedded
from tests.support.furnished import furnish
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.anyio

RELEASE = ObjectRef(HELM_RELEASE, "org", "shop")
QUICK = FluxBehaviour(
    source_fetch_seconds=0.05,
    install_seconds=0.05,
    upgrade_seconds=0.05,
    uninstall_seconds=0.05,
    dependency_requeue_seconds=0.5,
    min_retry_seconds=0.05,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def repository(tag: str, name: str = "shop") -> dict[str, Any]:
    spec = {"interval": "5m", "url": "oci://registry.example/charts/nextcloud", "ref": {"tag": tag}}
    return {**OCI_REPOSITORY.manifest(name, "org"), "spec": spec}


def release(name: str = "shop") -> dict[str, Any]:
    spec = {"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": name}}
    return {**HELM_RELEASE.manifest(name, "org"), "spec": spec}


async def until(api: KubeApiClient, holds: Callable[[Manifest], bool], ref: ObjectRef = RELEASE) -> None:
    with anyio.fail_after(PATIENCE):
        while not holds(await api.get(ref)):
            await anyio.sleep(0.05)


async def until_gone(api: KubeApiClient) -> None:
    try:
        await until(api, lambda _: False)
    except NotFound:
        return


def ready_at(tag: str) -> Callable[[Manifest], bool]:
    def holds(manifest: Manifest) -> bool:
        ready = [item for item in get_path(manifest, "status", "conditions") or () if item["type"] == "Ready"]
        version = str(get_path(manifest, "status", "history", 0, "chartVersion"))
        return bool(ready) and ready[0]["status"] == "True" and version.startswith(f"{tag}+")

    return holds


@attrs.define
class Watched:
    """Work that several workers do: how much of it at once."""

    under_way: int = 0
    most: int = 0

    async def piece(self) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await anyio.sleep(0.01)
        self.under_way -= 1


@pytest.mark.parametrize(("count", "pieces", "most"), [(3, 10, 3), (8, 2, 2), (1, 4, 1), (4, 0, 0)])
async def test_workers_do_everything_and_no_more_than_so_much_at_once(count: int, pieces: int, most: int) -> None:
    seen, done = Watched(), list[int]()

    async def piece(number: int) -> None:
        await seen.piece()
        done.append(number)

    await workers(count)([partial(piece, number) for number in range(pieces)])

    assert sorted(done) == list(range(pieces))
    assert (seen.under_way, seen.most) == (0, most)


@pytest.mark.slow
async def test_flux_works_on_many_releases_at_once_and_each_is_installed_once() -> None:
    names = [f"shop-{number}" for number in range(12)]
    async with embedded() as (server, url), KubeApiClient(config_of(url)) as api, anyio.create_task_group() as group:
        furnish(InProcessKube(server), flux_crds(), "org")
        flux = FluxSimulator(api, QUICK, together=workers(8))
        group.start_soon(run_simulator, api, SystemClock(), flux)
        for name in names:
            await api.apply(repository("6.6.0", name), kind=OCI_REPOSITORY, field_manager="test")
            await api.apply(release(name), kind=HELM_RELEASE, field_manager="test")
        for name in names:
            ref = ObjectRef(HELM_RELEASE, "org", name)
            await until(api, ready_at("6.6.0"), ref)
            assert len(get_path(await api.get(ref), "status", "history")) == 1
        assert sorted(workload.release for workload in flux.workloads) == sorted(names)
        assert flux.errors == {}
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_flux_installs_upgrades_and_uninstalls_over_http() -> None:
    async with embedded() as (server, url), KubeApiClient(config_of(url)) as api, anyio.create_task_group() as group:
        furnish(InProcessKube(server), flux_crds(), "org")
        flux = FluxSimulator(api, QUICK)
        group.start_soon(run_simulator, api, SystemClock(), flux)
        await api.apply(repository("6.6.0"), kind=OCI_REPOSITORY, field_manager="test")
        await api.apply(release(), kind=HELM_RELEASE, field_manager="test")
        await until(api, ready_at("6.6.0"))
        await api.apply(repository("6.7.0"), kind=OCI_REPOSITORY, field_manager="test")
        await until(api, ready_at("6.7.0"))
        await api.delete(RELEASE)
        await until_gone(api)
        assert flux.workloads == ()
        group.cancel_scope.cancel()

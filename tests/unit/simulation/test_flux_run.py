"""The simulated Flux on an event loop, over nothing but the `KubeApi` port (RUN-9), in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubelab.clock import VirtualClock, VirtualTimeLoop, virtual_loop
from kubelab.flux import Action, FluxBehaviour, FluxOutcome, FluxSimulator, OutcomeKind, ReleaseRule
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE, NAMESPACE, OCI_REPOSITORY
from tests.support.flux_world import NAME, ORG, helm_release, oci_repository
from tests.support.furnished import furnish
from tests.support.run_by import run_by

Story = Callable[[InProcessKube, FluxSimulator], Awaitable[None]]


def tell(story: Story, *, crds_at_once: bool = True) -> float:
    """Run a story beside the simulated Flux; the virtual seconds it took."""
    loop: VirtualTimeLoop = virtual_loop()()
    clock = VirtualClock()

    async def main() -> float:
        api = InProcessKube(ApiServer(now=clock.now))
        await api.create(NAMESPACE.manifest(ORG), kind=NAMESPACE, field_manager="test")
        if crds_at_once:
            await install_crds(api)
        flux = FluxSimulator(api)
        running = asyncio.create_task(run_simulator(api, clock, flux))
        await story(api, flux)
        running.cancel()
        outcome = (await asyncio.gather(running, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError), outcome
        return clock.monotonic()

    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


async def install_crds(api: InProcessKube) -> None:
    furnish(api, flux_crds())


async def apply(api: InProcessKube) -> None:
    await api.apply(oci_repository(), kind=OCI_REPOSITORY, field_manager="test")
    await api.apply(helm_release(), kind=HELM_RELEASE, field_manager="test")


async def until(api: InProcessKube, holds: Callable[[Manifest], Any], seconds: float = 600.0) -> Manifest:
    """Wait until the HelmRelease is as asked for."""
    async with asyncio.timeout(seconds):
        while True:
            manifest = await api.get(ObjectRef(HELM_RELEASE, ORG, NAME))
            if holds(manifest):
                return manifest
            await asyncio.sleep(0.25)


def reads(type_: str, status: str, reason: str) -> Callable[[Manifest], bool]:
    def holds(manifest: Manifest) -> bool:
        conditions = get_path(manifest, "status", "conditions") or ()
        return any((item["type"], item["status"], item["reason"]) == (type_, status, reason) for item in conditions)

    return holds


def test_a_release_is_installed_upgraded_and_removed_while_flux_runs() -> None:
    async def story(api: InProcessKube, flux: FluxSimulator) -> None:
        await apply(api)
        await until(api, reads("Ready", "True", "InstallSucceeded"))
        await api.apply(oci_repository("6.7.0"), kind=OCI_REPOSITORY, field_manager="test")
        await until(api, reads("Ready", "True", "UpgradeSucceeded"))
        assert [item.version[:5] for item in flux.workloads] == ["6.7.0"]
        await api.delete(ObjectRef(HELM_RELEASE, ORG, NAME))
        await asyncio.sleep(5)
        assert not flux.workloads

    assert tell(story) < 60


@run_by(tell)
async def test_behaviour_changes_while_it_runs(api: InProcessKube, flux: FluxSimulator) -> None:
    await apply(api)
    await until(api, reads("Ready", "True", "InstallSucceeded"))
    flux.behaviour = FluxBehaviour(
        release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.FAIL, "boom"), action=Action.UPGRADE),)
    )
    await api.apply(oci_repository("6.7.0"), kind=OCI_REPOSITORY, field_manager="test")
    await until(api, reads("Stalled", "True", "RetriesExceeded"))


@run_by(tell, crds_at_once=False)
async def test_kinds_that_are_installed_later_are_noticed(api: InProcessKube, flux: FluxSimulator) -> None:
    await asyncio.sleep(30)
    await install_crds(api)
    await apply(api)
    await until(api, reads("Ready", "True", "InstallSucceeded"))


@run_by(tell)
async def test_an_hour_of_intervals_writes_reconciling_and_nothing_else(
    api: InProcessKube, flux: FluxSimulator
) -> None:
    await apply(api)
    settled = await until(api, reads("Ready", "True", "InstallSucceeded"))
    await asyncio.sleep(10)
    api.server.audit.clear()
    await asyncio.sleep(3600)
    writes = api.server.audit.writes()
    assert 22 <= len(writes) <= 24, "two an interval of five minutes"
    manifest = await api.get(ObjectRef(HELM_RELEASE, ORG, NAME))
    assert manifest["status"]["history"] == settled["status"]["history"]

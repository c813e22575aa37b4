"""RUN-5: the statistics of a living operator, under virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import attrs
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import NAMESPACE
from purekube.controller.health import healthy, ready
from purekube.ports import PatchType
from tests.support.agent_site import Site
from tests.support.instance_worlds import instance_manifest
from tests.support.operation_worlds import operation_manifest
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.instances.context import Settings


@attrs.define
class Scene:
    """A site whose operator's informers run, and what watches it."""

    site: Site
    telemetry: MetricsTelemetry
    manager: Manager
    leads: bool = True

    @property
    def snapshot(self) -> ProcessStats:
        self.telemetry.refresh()
        return self.telemetry.latest.current

    def metric(self, start: str) -> float:
        """The sum of the samples that begin so."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.lines(start))

    def lines(self, start: str) -> list[str]:
        """The samples that begin so."""
        body, _ = self.telemetry.metrics.exposition("")
        return [line for line in body.decode().splitlines() if line.startswith(start)]

    async def namespace(self, name: str, **labels: str) -> None:
        manifest = {**NAMESPACE.manifest(name), "metadata": {"name": name, "labels": labels}}
        await self.site.kube.apply(manifest, kind=NAMESPACE, field_manager="test", force=True)
        await anyio.sleep(1)

    async def operation(self, name: str, namespace: str) -> Manifest:
        """An Operation that nobody has looked at."""
        manifest: dict[str, Any] = dict(operation_manifest())
        manifest["metadata"] = {"name": name, "namespace": namespace}
        manifest.pop("status", None)
        return await self.site.kube.create(manifest, kind=OPERATION, field_manager="test")

    async def phase(self, operation: Manifest, phase: str) -> None:
        patch = {"status": {"phase": phase}}
        await self.site.kube.patch(
            ref_of(operation, OPERATION),
            patch,
            patch_type=PatchType.MERGE,
            field_manager="test",
            subresource="status",
        )
        await anyio.sleep(1)


def watched(body: Callable[[Scene], Awaitable[None]], before: Callable[[Scene], Awaitable[None]] | None = None) -> None:
    async def main() -> None:
        site = Site()
        await site.prepare()
        latest = LatestStats(ProcessStats(0.0))
        telemetry = MetricsTelemetry(site.clock, latest, Metrics(latest, lambda: 0.0))
        manager = Manager(site.kube, site.clock, OperatorSettings(Settings(cluster_id="c")), telemetry=telemetry)
        scene = Scene(site, telemetry, manager)
        if before is not None:
            await before(scene)
        telemetry.attach(attrs.evolve(manager.components, agent=site.agent, leases=lambda: (("lease", scene.leads),)))
        async with anyio.create_task_group() as group:
            group.start_soon(manager.informers.run)
            await manager.wait_ready()
            await body(scene)
            group.cancel_scope.cancel()

    run(main)


@run_by(watched)
async def test_gated_namespaces_are_counted_as_they_come_and_go(scene: Scene) -> None:
    before = scene.snapshot.managed_namespaces
    assert before == 1
    await scene.namespace("org-new", **{"managed-by": "vworkspace"})
    await scene.namespace("kitchen")
    assert scene.snapshot.managed_namespaces == before + 1
    await scene.namespace("org-new")
    assert scene.snapshot.managed_namespaces == before


def test_an_operation_is_counted_once_for_each_phase_that_it_comes_to_and_by_the_leader_only() -> None:
    earlier: list[Manifest] = []

    async def before(scene: Scene) -> None:
        earlier.append(await scene.operation("earlier", "org-myteam"))
        await scene.phase(earlier[0], "Running")

    async def body(scene: Scene) -> None:
        assert scene.metric("vworkspace_operator_operation_total") == 0
        await scene.phase(earlier[0], "Succeeded")
        fresh = await scene.operation("fresh", "org-myteam")
        await scene.phase(fresh, "Pending")
        await scene.site.kube.patch(
            ref_of(fresh, OPERATION),
            {"metadata": {"labels": {"touched": "yes"}}},
            patch_type=PatchType.MERGE,
            field_manager="test",
        )
        await scene.phase(fresh, "Running")
        assert scene.metric("vworkspace_operator_operation_total") == 3

        scene.leads = False
        await scene.phase(fresh, "Failed")
        assert scene.metric("vworkspace_operator_operation_total") == 3
        assert scene.snapshot.leases == (("lease", False),)

    watched(body, before)


@pytest.mark.slow
def test_the_first_failure_after_a_start_is_an_increase_that_an_alert_sees() -> None:
    """`increase()` of a series that begins with 1 is 0: each series has to be there before the first failure."""
    earlier: list[Manifest] = []
    failed = 'vworkspace_operator_operation_total{engine="job",phase="Failed",type="RunCommand"}'

    async def before(scene: Scene) -> None:
        earlier.append(await scene.operation("earlier", "org-myteam"))
        await scene.phase(earlier[0], "Running")

    async def body(scene: Scene) -> None:
        assert scene.lines(failed) == [f"{failed} 0.0"]
        await scene.phase(earlier[0], "Failed")
        assert scene.lines(failed) == [f"{failed} 1.0"]

    watched(body, before)


@run_by(watched)
async def test_applications_are_counted_by_what_their_conditions_say(scene: Scene) -> None:
    """As they change, whoever reconciles them; reasons of others are `other`; strangers do not count."""

    def ready(status: str, reason: str) -> dict[str, Any]:
        return {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}

    async def say(scene: Scene, name: str, *conditions: dict[str, Any]) -> None:
        ref = ObjectRef(APPLICATION_INSTANCE, "org-myteam", name)
        await scene.site.kube.patch(
            ref,
            {"status": {"conditions": list(conditions)}},
            patch_type=PatchType.MERGE,
            field_manager="test",
            subresource="status",
        )
        await anyio.sleep(1)

    async def create(scene: Scene, name: str, **labels: str) -> None:
        manifest = instance_manifest()
        manifest["metadata"] = {"name": name, "namespace": "org-myteam", "labels": labels}
        await scene.site.kube.create(manifest, kind=APPLICATION_INSTANCE, field_manager="test")

    def count(scene: Scene, condition: str, status: str, reason: str) -> float:
        scene.telemetry.refresh()
        labels = f'{{condition="{condition}",reason="{reason}",status="{status}"}}'
        return scene.metric("vworkspace_operator_instances" + labels) + scene.metric(
            f'vworkspace_operator_instances{{condition="{condition}",status="{status}",reason="{reason}"}}'
        )

    for name in ("one", "two"):
        await create(scene, name, **{"app.vworkspace.io/managed-by": "control-plane"})
        await say(scene, name, ready("False", "ChartUnreachable"))
    await create(scene, "stranger")
    await say(scene, "stranger", ready("False", "ChartUnreachable"))
    assert count(scene, "Ready", "False", "ChartUnreachable") == 2

    stalled = {**ready("True", "SomeReasonOfFlux"), "type": "Stalled"}
    foreign = {**ready("True", "Audited"), "type": "Audited"}
    await say(scene, "one", ready("True", "HelmReleaseReady"), stalled, foreign)
    assert count(scene, "Ready", "False", "ChartUnreachable") == 1
    assert count(scene, "Ready", "True", "HelmReleaseReady") == 1
    assert count(scene, "Stalled", "True", "other") == 1
    assert scene.metric('vworkspace_operator_instances{condition="Audited"') == 0

    await scene.site.kube.delete(ObjectRef(APPLICATION_INSTANCE, "org-myteam", "two"))
    await anyio.sleep(1)
    assert count(scene, "Ready", "False", "ChartUnreachable") == 0
    assert sum(sample.count for sample in scene.snapshot.instances) == 2


@pytest.mark.slow
@run_by(watched)
async def test_the_snapshot_of_a_standby_is_healthy_and_ready(scene: Scene) -> None:
    await anyio.sleep(3600)
    vitals = scene.snapshot.vitals
    assert {worker_pool.name for worker_pool in vitals.worker_pools} == set(scene.manager.worker_pools)
    assert not any(worker_pool.active for worker_pool in vitals.worker_pools)
    assert healthy(vitals, 0.0).ok
    assert ready(vitals, 0.0).ok
    assert scene.snapshot.agent is not None
    assert (scene.snapshot.agent.open_jobs, scene.snapshot.agent.lag) == (0, 0.0)

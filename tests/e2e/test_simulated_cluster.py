"""`cluster --simulate`: the simulated downstream controllers in a process and over HTTP (RUN-8, RUN-9)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import anyio
import attrs
import pytest

from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.cluster.simulators import SIMULATORS
from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamSimulator,
    JobBehaviour,
    VeleroBehaviour,
    WorkflowBehaviour,
)
from kubelab.downstream.crds import downstream_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.simulation.effects import ControllerResult, PassStep
from kubelab.simulation.running import run_simulator
from kubelab.simulation.simulator import ControllerPass
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    JOB,
    NAMESPACE,
    SERVICE_ACCOUNT,
    VELERO_BACKUP,
    WORKFLOW,
)
from purekube_http import KubeApiClient
from purekube_run.process.machine import SystemClock
from tests.support.commands import run as command
from tests.support.downstream_world import NS, VELERO_NS, backup, job, workflow
from tests.support.embedded_server import config_of, embedded
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.anyio

QUICK = DownstreamBehaviour(
    velero=VeleroBehaviour(backup_seconds=0.05, finalize_seconds=0.05, sync_seconds=1),
    workflow=WorkflowBehaviour(step_seconds=0.05),
    job=JobBehaviour(pod_seconds=0.05, terminating_seconds=0.05),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def until(api: KubeApiClient, ref: ObjectRef, holds: Callable[[Manifest], Any]) -> Manifest:
    with anyio.fail_after(PATIENCE):
        while not holds(manifest := await api.get(ref)):
            await anyio.sleep(0.05)
    return manifest


@pytest.mark.slow
async def test_jobs_workflows_and_backups_run_over_http() -> None:
    async with embedded() as (_, url), KubeApiClient(config_of(url)) as api, anyio.create_task_group() as group:
        for crd in downstream_crds():
            await api.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test")
        for name in (NS, VELERO_NS):
            await api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager="test")
        await api.create(SERVICE_ACCOUNT.manifest("runner", NS), kind=SERVICE_ACCOUNT, field_manager="test")
        simulator = DownstreamSimulator(api, QUICK)
        group.start_soon(run_simulator, api, SystemClock(), simulator)
        await api.create(job(), kind=JOB, field_manager="test")
        await api.create(workflow(), kind=WORKFLOW, field_manager="test")
        await api.create(backup(), kind=VELERO_BACKUP, field_manager="test")
        await until(api, ObjectRef(JOB, NS, "j"), lambda it: get_path(it, "status", "completionTime"))
        await until(api, ObjectRef(WORKFLOW, NS, "w"), lambda it: get_path(it, "status", "phase") == "Succeeded")
        saved = ObjectRef(VELERO_BACKUP, VELERO_NS, "b")
        first = await until(api, saved, lambda it: get_path(it, "status", "phase") == "Completed")
        await api.delete(saved)
        await anyio.sleep(1.5)
        again = await until(api, saved, lambda it: get_path(it, "status", "phase") == "Completed")
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        assert simulator.errors == {}
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("names", "served"),
    [
        ((), set()),
        (("job",), set()),
        (("velero",), {"Backup", "Restore", "DeleteBackupRequest", "BackupStorageLocation"}),
        (("workflow",), {"Workflow", "WorkflowTemplate"}),
        (("volsync",), {"ReplicationSource", "ReplicationDestination"}),
        (("snapshot",), {"VolumeSnapshot", "VolumeSnapshotClass", "VolumeSnapshotContent"}),
        (("flux",), {"HelmRelease", "OCIRepository", "HelmRepository", "HelmChart"}),
    ],
)
def test_each_simulator_brings_its_own_crds_and_no_others(names: tuple[str, ...], served: set[str]) -> None:
    cluster = EmbeddedCluster.start([], names)
    assert _served(cluster) == served
    assert (cluster.flux is not None) == ("flux" in names)
    assert (cluster.downstream is not None) == bool(set(names) - {"flux"})


def _served(cluster: EmbeddedCluster) -> set[str]:
    page = run_sync(InProcessKube(cluster.server).list(CUSTOM_RESOURCE_DEFINITION))
    return {item["spec"]["names"]["kind"] for item in page.items}


def test_crds_that_are_given_are_used_in_place_of_the_simulators_own() -> None:
    given = downstream_crds(["velero"])[0]
    given["metadata"]["labels"] = {"given": "yes"}
    cluster = EmbeddedCluster.start([given], SIMULATORS)
    kind = Kind("velero.io", "v1", "Backup", "backups")
    live = run_sync(InProcessKube(cluster.server).get(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, kind.crd_name)))
    assert live["metadata"]["labels"] == {"given": "yes"}


async def test_a_cluster_simulates_while_it_serves() -> None:
    cluster = EmbeddedCluster.start([], ("job",))
    assert cluster.downstream is not None
    cluster.downstream.behaviour = QUICK
    async with cluster.serving() as url, KubeApiClient(config_of(url)) as api:
        await api.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="test")
        await api.create(job(), kind=JOB, field_manager="test")
        await until(api, ObjectRef(JOB, NS, "j"), lambda it: get_path(it, "status", "completionTime"))


def _defect() -> PassStep[ControllerResult]:
    raise ZeroDivisionError
    yield


async def test_a_defect_of_a_simulated_controller_ends_neither_the_server_nor_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """controller-runtime recovers what panics, and tries it again later."""
    cluster = EmbeddedCluster.start([], ("job",))
    assert cluster.downstream is not None
    cluster.downstream.behaviour = QUICK
    begin = cluster.downstream._begin

    def broken(ref: ObjectRef, now: datetime) -> ControllerPass:
        return attrs.evolve(begin(ref, now), steps=_defect()) if ref.name == "broken" else begin(ref, now)

    monkeypatch.setattr(cluster.downstream, "_begin", broken)
    async with cluster.serving() as url, KubeApiClient(config_of(url)) as api:
        await api.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="test")
        for name in ("broken", "j"):
            manifest = job()
            manifest["metadata"]["name"] = name
            await api.create(manifest, kind=JOB, field_manager="test")
        await until(api, ObjectRef(JOB, NS, "j"), lambda it: get_path(it, "status", "completionTime"))


@pytest.mark.slow
def test_the_command_s_help_names_every_simulator() -> None:
    shown = " ".join(call_help("cluster", "--help").split())
    assert f"by comma: {', '.join(SIMULATORS)}; or all" in shown


def call_help(*words: str) -> str:
    """What the command prints, without the frame it draws around it."""
    return command(*words).out.replace("│", " ")

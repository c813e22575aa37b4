"""RUN-13: several processes share one cluster: each object is reconciled by one of them, whatever ends and begins.

Whole managers with real elections and a simulated Flux, on the embedded API server in process and under virtual time.
"""

from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest
from anyio.abc import TaskGroup

from kubelab.clock import VirtualClock
from kubelab.flux import FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.health import ready
from purekube.controller.shard import Shard
from purekube.ports import KubeRequest, Send
from purekube_run.controller.election import Elector, Fence
from purekube_run.controller.manager import Election
from tests.support.builders import chart, instance_manifest
from tests.support.furnished import furnish
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.observability.metrics import Metrics
from vworkspace_app.observability.metrics_telemetry import MetricsTelemetry
from vworkspace_app.observability.stats import LatestStats, ProcessStats
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.instances.context import Settings

CLUSTER = "cluster-1"
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
SPACES = [f"org-{number}" for number in range(4)]


@attrs.define
class Process:
    """One operator process: its user in the audit log, its manager, and how it ends."""

    user: str
    shard: Shard
    manager: Manager
    elector: Elector
    telemetry: MetricsTelemetry
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)

    async def run(self) -> None:
        with self.scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self.elector.run)
                group.start_soon(self.manager.run)

    def kill(self) -> None:
        """Nothing is released."""
        self.scope.cancel()

    async def stop(self) -> None:
        """As at SIGTERM: the Lease comes last."""
        await self.manager.finish()
        await self.elector.release()
        self.scope.cancel()


@attrs.define
class World:
    """A cluster with gated namespaces and Flux, and the processes that were started on it."""

    group: TaskGroup
    clock: VirtualClock = attrs.field(factory=VirtualClock)
    server: ApiServer = attrs.field(init=False)
    admin: InProcessKube = attrs.field(init=False)
    version: int = 0

    def __attrs_post_init__(self) -> None:
        self.server = ApiServer(now=self.clock.now)
        self.admin = InProcessKube(self.server)

    async def begin(self) -> None:
        furnish(self.admin, (*crd_manifests(), *flux_crds()), *SPACES, gated=True)
        flux = InProcessKube(self.server, caller=Caller("flux", agent="flux/1"))
        self.group.start_soon(run_simulator, flux, self.clock, FluxSimulator(flux))

    def start(self, user: str, shard: str) -> Process:
        api = InProcessKube(self.server, caller=Caller(user, agent="operator/1"))
        elector = Elector(
            api,
            fence := Fence(self.clock.monotonic),
            namespace="default",
            name="vworkspace-operator",
            identity=user,
            field_manager=FIELD_MANAGER,
            wall=self.clock.now,
            random=lambda: 0.5,
            shard=Shard.of(shard),
        )
        latest = LatestStats(ProcessStats(self.clock.monotonic()))
        telemetry = MetricsTelemetry(self.clock, latest, Metrics(latest, self.clock.monotonic))
        manager = Manager(
            fenced(api, fence.check),
            self.clock,
            OperatorSettings(Settings(cluster_id=CLUSTER), shard=Shard.of(shard)),
            election=Election(elector.wait_leading, lambda: ((elector.name, elector.is_leader),), fence.check),
            telemetry=telemetry,
            random=lambda: 0.5,
        )
        process = Process(user, Shard.of(shard), manager, elector, telemetry)
        self.group.start_soon(process.run)
        return process

    async def ask_for_a_new_version(self) -> None:
        """Everywhere at once."""
        self.version += 1
        for name in SPACES:
            manifest = instance_manifest("app", name, metadata={"labels": LABELS}, chart=chart(f"1.{self.version}.0"))
            await self.admin.apply(manifest, kind=APPLICATION_INSTANCE, field_manager="odoo")

    async def pass_until_converged(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        for name in SPACES:
            live = await self.admin.get(ObjectRef(APPLICATION_INSTANCE, name, "app"))
            assert get_path(live, "status", "lastAppliedChart", "version") == f"1.{self.version}.0", (name, live)
            said = {condition["type"]: condition["status"] for condition in live["status"]["conditions"]}
            assert said["Ready"] == "True", (name, said)

    def writers(self, since: int = 0) -> dict[str, set[str]]:
        """Who of the operator's processes wrote in each namespace, after so many entries of the audit log."""
        found: dict[str, set[str]] = {name: set() for name in SPACES}
        for entry in self.server.audit.writes()[since:]:
            if entry.user.startswith("pod-"):
                for name in SPACES:
                    if f"/namespaces/{name}/" in entry.path:
                        found[name].add(entry.user)
        return found

    def mark(self) -> int:
        return len(self.server.audit.writes())


def fenced(api: InProcessKube, check: Callable[[], None]) -> InProcessKube:
    """Return the API with the fence that the transport has in production."""

    async def fence(request: KubeRequest, proceed: Send) -> Manifest:
        if request.writes:
            check()
        return await proceed(request)

    return api.through(fence)


def ready_instances(process: Process) -> int:
    """As the metric has it."""
    process.telemetry.refresh()
    samples = process.telemetry.latest.current.instances
    return sum(sample.count for sample in samples if sample.labels[:2] == ("Ready", "True"))


def in_world(story: Callable[[World], Any]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            world = World(group)
            await world.begin()
            await story(world)
            group.cancel_scope.cancel()

    run(main)


def only(user_of: dict[int, str], count: int) -> dict[str, set[str]]:
    """Each namespace with the user of its shard."""
    return {name: {user_of[next(i for i in range(count) if Shard(i, count).owns(name))]} for name in SPACES}


@pytest.mark.slow
@run_by(in_world)
async def test_each_object_is_reconciled_by_its_own_shard_and_shard_0_alone_speaks_for_the_cluster(
    world: World,
) -> None:
    zero, one = world.start("pod-zero", "0/2"), world.start("pod-one", "1/2")
    await world.ask_for_a_new_version()
    await world.pass_until_converged(60)
    await anyio.sleep(700)  # a resync

    assert world.writers() == only({0: "pod-zero", 1: "pod-one"}, 2)
    clusters = [entry.user for entry in world.server.audit.writes() if "/clusters" in entry.path]
    assert set(clusters) == {"pod-zero"}
    for process in (zero, one):
        for kind in (APPLICATION_INSTANCE, HELM_RELEASE):
            held = {namespace for namespace, _ in process.manager.informers.store(kind).names()}
            assert held == {name for name in SPACES if process.shard.owns(name)}, "nothing else is kept in memory"
    counted = [ready_instances(process) for process in (zero, one)]
    assert sum(counted) == len(SPACES)
    assert min(counted) > 0
    assert "[+]shard 1/2 ok" in ready(one.telemetry.latest.current.vitals, 0.0).text()


@pytest.mark.slow
@run_by(in_world)
async def test_after_a_kill_the_standby_of_that_shard_goes_on_and_nobody_else(world: World) -> None:
    world.start("pod-zero", "0/2")
    one = world.start("pod-one", "1/2")
    await anyio.sleep(5)
    world.start("pod-next", "1/2")
    await world.ask_for_a_new_version()
    await world.pass_until_converged(60)
    assert world.writers() == only({0: "pod-zero", 1: "pod-one"}, 2)

    since = world.mark()
    one.kill()
    await world.ask_for_a_new_version()
    await world.pass_until_converged(60)
    assert world.writers(since) == only({0: "pod-zero", 1: "pod-next"}, 2)


@pytest.mark.slow
@run_by(in_world)
async def test_when_n_changes_the_new_shards_wait_for_the_last_of_the_old_and_then_do_everything(world: World) -> None:
    old = [world.start("pod-old-0", "0/2"), world.start("pod-old-1", "1/2")]
    await anyio.sleep(5)
    for index in range(3):
        world.start(f"pod-new-{index}", f"{index}/3")
    await world.ask_for_a_new_version()
    await world.pass_until_converged(60)
    assert world.writers() == only({0: "pod-old-0", 1: "pod-old-1"}, 2)

    since = world.mark()
    await old[0].stop()
    await world.ask_for_a_new_version()
    await anyio.sleep(60)
    still = {user for users in world.writers(since).values() for user in users}
    assert still == {"pod-old-1"}, "one of the old ones works still"

    old[1].kill()
    since = world.mark()
    await world.pass_until_converged(90)
    await world.ask_for_a_new_version()
    await world.pass_until_converged(60)
    assert world.writers(since) == only({0: "pod-new-0", 1: "pod-new-1", 2: "pod-new-2"}, 3)

"""One cluster with an agent under virtual time: what the tests of the agent's driver act on and look at."""

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import structlog
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import NAMESPACE as NAMESPACE_KIND
from purekube.apimachinery.timestamps import Instant
from purekube.ports import WatchEventType
from tests.support.builders import NAME, NAMESPACE, condition
from tests.support.furnished import furnish
from tests.support.jobs import CLUSTER_ID, instance
from tests.support.memory_job_store import MemoryJobStore
from tests.support.virtual_time import run
from vworkspace_app.control_plane.connection import AgentSettings
from vworkspace_app.jobs.agent import Agent
from vworkspace_core.api import labels
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.clusters.decision import wanted_conditions
from vworkspace_core.clusters.inventory import ClusterInventory
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.jobs.scope import JobScope
from vworkspace_fake.controlplane import AgentCall, ControlPlaneServer, InProcessControlPlane, JobEntry

REF = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, NAME)
READY = condition("Ready", "True", "HelmReleaseReady")
FAILED = condition("Ready", "False", "HelmReleaseFailed")


class Site:
    """One cluster with an agent, under virtual time."""

    def __init__(self, **server: Any) -> None:
        self.clock = VirtualClock()
        numbers = iter(range(1000))
        self.server = ControlPlaneServer(now=self.clock.now, mint=lambda: f"minted-{next(numbers)}", **server)
        self.server.tokens.add(CLUSTER_ID, "token")
        self.control = InProcessControlPlane(self.server, "token")
        self.kube = InProcessKube(ApiServer(now=self.clock.now))
        self.store = MemoryJobStore()
        self.known: dict[ObjectRef, Manifest] = {}
        self.agent = self.new_agent()

    def new_agent(self, **fields: Any) -> Agent:
        options: dict[str, Any] = {
            "control": self.control,
            "kube": self.kube,
            "store": self.store,
            "clock": self.clock,
            "scope": JobScope(CLUSTER_ID),
            "random": random.Random(7).random,
            "settings": AgentSettings(),
            "objects": lambda: list(self.known.values()),
            "find": self.known.get,
        }
        return Agent(**{**options, **fields})

    async def prepare(self) -> None:
        furnish(self.kube, crd_manifests())
        namespace = {
            **NAMESPACE_KIND.manifest(NAMESPACE),
            "metadata": {"name": NAMESPACE, "labels": {"managed-by": "vworkspace"}},
        }
        await self.kube.create(namespace, kind=NAMESPACE_KIND, field_manager="setup")

    async def watch(self) -> None:
        """The informer."""
        async for event in self.kube.watch(APPLICATION_INSTANCE, timeout_seconds=10**6):
            if event.type is WatchEventType.BOOKMARK:
                continue
            ref = ref_of(event.object, APPLICATION_INSTANCE)
            live = None if event.type is WatchEventType.DELETED else event.object
            if live is None:
                self.known.pop(ref, None)
            else:
                self.known[ref] = live
            self.agent.on_object_changed(live, ref)

    def enqueue(self, generation: int = 1, name: str = NAME) -> JobEntry:
        return self.server.enqueue(
            CLUSTER_ID,
            kind="apply",
            payload=instance(name),
            idempotency_key=f"ApplicationInstance/{NAMESPACE}/{name}@{generation}",
        )

    async def report(self, *conditions: Mapping[str, Any], name: str = NAME) -> None:
        """The reconciler writes a status."""
        live = await self.kube.get(ObjectRef(APPLICATION_INSTANCE, NAMESPACE, name))
        generation = live["metadata"]["generation"]
        at = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        manifest = {
            **APPLICATION_INSTANCE.manifest(name, NAMESPACE),
            "status": {
                "observedGeneration": generation,
                "conditions": [{**c, "observedGeneration": generation, "lastTransitionTime": at} for c in conditions],
            },
        }
        await self.kube.apply_status(manifest, kind=APPLICATION_INSTANCE, field_manager=labels.FIELD_MANAGER)

    def connectivity(self) -> Connectivity:
        """What the agent thinks of the control plane now."""
        return self.agent.connection_state.connectivity

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Status and reason by type, as the status of a Cluster would have them now."""
        now = Instant(self.clock.now(), self.clock.monotonic())
        inventory = ClusterInventory(cluster_id=CLUSTER_ID, now=now, agent=self.agent.report())
        return {str(c.type): (str(c.status), str(c.reason)) for c in wanted_conditions(inventory, ())}

    def asked(self, call: AgentCall, since: float = 0.0) -> list[float]:
        """When requests of one kind came, in virtual seconds."""
        began = self.clock.now().timestamp() - self.clock.monotonic()
        times = [at.timestamp() - began for at, found in self.server.requests if found is call]
        return [at for at in times if at >= since]

    def events(self, kind: str) -> list[Any]:
        return [event for event in self.server.events_of(CLUSTER_ID) if event["kind"] == kind]


Body = Callable[[Site], Awaitable[None]]


def simulate(body: Body, prepare: Callable[[Site], None] = lambda _: None, **server: Any) -> None:
    """Run `body` beside the agent and its informer."""

    async def main() -> None:
        site = Site(**server)
        prepare(site)
        await site.prepare()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(site.agent.run)
            tasks.start_soon(site.watch)
            await body(site)
            tasks.cancel_scope.cancel()

    run(main)


def outcome(job: JobEntry) -> str:
    """Outcome of a job's result; "none" while it has none."""
    return str(job.result["outcome"]) if job.result else "none"


def quiet(body: Body, *args: Any, **server: Any) -> list[Any]:
    """`simulate`, giving the log lines at warning and above, and the changes of connectivity."""
    structlog.reset_defaults()
    with capture_logs() as lines:
        simulate(body, *args, **server)
    return [line for line in lines if line["log_level"] in ("warning", "error") or "connected" in line["event"]]


def recent(site: Site, found: Mapping[str, Any]) -> dict[str, Any]:
    """A condition that changed just now."""
    return {**found, "lastTransitionTime": site.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}

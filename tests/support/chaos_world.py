"""Agent, cluster and control plane under virtual time, with everything noted that the laws speak of (PULL-4, PULL-5).

The operator's side is the product: `Agent`, `HttpControlPlane`, `KubeJobStore`. The servers are the embedded ones.
A small reconciler makes instances Ready, or fail, and takes their finalizer off.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

import anyio
import attrs
import structlog
from structlog.testing import LogCapture

from kubelab.clock import VirtualTimeLoop
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import NAMESPACE as NAMESPACE_KIND
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeRequest, PatchType, Send, WatchEventType
from tests.support.builders import NAMESPACE, condition
from tests.support.chaos_network import FaultyTransport, Killed, Network, Restarted, SlowKube, Trouble
from tests.support.furnished import furnish
from tests.support.jobs import CLUSTER_ID, delete_payload, instance
from vworkspace_app.jobs.agent import Agent
from vworkspace_core.api import labels
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.control_plane.outbox import generation_in
from vworkspace_core.jobs.scope import DeleteTask, JobScope
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_core.jobs.store.codec import head_name
from vworkspace_fake.controlplane import ControlPlaneServer, JobEntry
from vworkspace_fake.controlplane.http import control_plane_app
from vworkspace_fake.controlplane.waiting import LongPolls
from vworkspace_odoo import HttpControlPlane

OWN_NAMESPACE = "vworkspace-system"
TOKEN = "tok-3f9a"
PASSWORD = "pass-77c1"
SECRETS = ("tok-", PASSWORD)
READY = condition("Ready", "True", "HelmReleaseReady")
FAILED = (
    condition("Ready", "False", "HelmReleaseFailed", message="upgrade failed"),
    condition("Stalled", "True", "RetriesExceeded"),
)


@attrs.frozen
class Deed:
    """A call of the operator that changed an instance, whether or not it heard of it."""

    verb: str
    key: str
    name: str
    uid: str
    generation: int
    on_generation: int


class LocalClock:
    """The operator's clocks: its wall clock can be set wrong."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self.offset = timedelta(0)

    def now(self) -> datetime:
        return self._loop.now() + self.offset

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class Replica(Killed):
    """One operator process, the leader while it runs."""

    def __init__(self, world: "ChaosWorld") -> None:
        self.world = world
        self.network = Network(world.loop.now, self.die, lambda: world.outage)
        self.kube = SlowKube(world.kube, self.network, self._effect)
        self.control = HttpControlPlane(
            "http://control-plane",
            lambda: world.secret,
            allow_http=True,
            transport=FaultyTransport(world.app, self.network),
        )
        self.store = KubeJobStore(self.kube, OWN_NAMESPACE, lock=anyio.Lock(), report=world.reports.append)
        self.agent = Agent(
            control=self.control,
            kube=self.kube,
            store=self.store,
            clock=world.clock,
            scope=JobScope(CLUSTER_ID),
            random=Random(world.starts).random,
            reread=self._reread,
            rotate=self._rotate,
            objects=world.instances,
            find=world.find,
        )
        self._token = world.secret
        self.main = world.loop.create_task(self._run())

    async def _run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._inform)
            group.start_soon(self.agent.run)

    async def _inform(self) -> None:
        """The informer."""
        async for event in self.world.kube.watch(APPLICATION_INSTANCE, timeout_seconds=10**8):
            await asyncio.sleep(0.002)
            if event.type is not WatchEventType.BOOKMARK:
                live = None if event.type is WatchEventType.DELETED else event.object
                self.agent.on_object_changed(live, ref_of(event.object, APPLICATION_INSTANCE))

    async def _reread(self) -> bool:
        changed, self._token = self._token != self.world.secret, self.world.secret
        return changed

    async def _rotate(self, request: str) -> None:
        """A new credential, kept durably before it is used."""
        issued = await self.control.rotate()
        self.world.secret = str(issued["token"])

    async def _effect(self, request: KubeRequest, proceed: Send) -> Manifest:
        """Perform a request of this process, and note what it did to an instance."""
        if request.kind != APPLICATION_INSTANCE or request.action not in ("apply", "delete"):
            return await proceed(request)
        before = self.world.find(request.ref)
        answer = await proceed(request)
        self._note(request.action, request.ref, before, self.world.find(request.ref))
        return answer

    def _note(self, verb: str, ref: ObjectRef, before: Manifest | None, after: Manifest | None) -> None:
        if verb == "apply":
            if after is None or _mark(before) == _mark(after):
                return
            key = str(get_path(after, "metadata", "annotations", labels.IDEMPOTENCY_KEY))
            generation = generation_in(key, ref) or 0
        else:
            if before is None or before["metadata"].get("deletionTimestamp"):
                return
            jobs = (job for job in self.agent.state.jobs.values() if job.ref == ref)
            mine = (job for job in jobs if isinstance(job.task, DeleteTask) and job.intent is not None)
            key = next((job.key for job in mine if job.intent and job.intent.uid == before["metadata"]["uid"]), "?")
            generation = generation_in(key, ref) or 0
        on = int(get_path(before, "metadata", "annotations", labels.LAST_APPLIED_GENERATION) or 0)
        uid = (after or before or {})["metadata"]["uid"]
        self.world.deeds.append(Deed(verb, key, ref.name, uid, generation, on))


def _mark(live: Manifest | None) -> Any:
    """What an apply of a job changes on an instance."""
    return live and (
        live["metadata"]["uid"],
        live["spec"],
        get_path(live, "metadata", "annotations", labels.IDEMPOTENCY_KEY),
    )


class ChaosWorld(Restarted[Replica]):
    """Everything around one cluster. Time passes only in `run`."""

    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = LocalClock(self.loop)
        self.kube = InProcessKube(ApiServer(now=self.loop.now, collects=True))
        numbers = itertools.count()
        self.server = ControlPlaneServer(now=self.loop.now, mint=lambda: f"tok-minted-{next(numbers)}")
        self.server.tokens.add(CLUSTER_ID, TOKEN)
        self.secret = TOKEN
        self.app = control_plane_app(self.server, LongPolls(self.server), admin_token="admin")
        self.outage: Trouble | None = None
        self.deeds: list[Deed] = []
        self.reports: list[str] = []
        self.ready: set[tuple[str, int]] = set()
        self.gone: set[str] = set()
        self.failing: set[str] = set()
        self.starts = 0
        self.logs = LogCapture()
        structlog.configure(processors=[self.logs])
        self._prepare()
        self._reconciler = self.loop.create_task(self._reconcile())
        self.process = self.run(self.start())

    def _prepare(self) -> None:
        furnish(self.kube, crd_manifests())
        for name, found in ((NAMESPACE, {"managed-by": "vworkspace"}), (OWN_NAMESPACE, {})):
            manifest = {**NAMESPACE_KIND.manifest(name), "metadata": {"name": name, "labels": found}}
            run_sync(self.kube.create(manifest, kind=NAMESPACE_KIND, field_manager="setup"))

    async def start(self) -> Replica:
        """A new process, which knows what is durable."""
        self.starts += 1
        return Replica(self)

    # --- Odoo's side ----------------------------------------------------------------------------------------

    def ask(self, name: str, generation: int) -> JobEntry:
        """Odd generations apply, even ones delete, so that a key always means the same."""
        key = f"ApplicationInstance/{NAMESPACE}/{name}@{generation}"
        return self._ask(name, key, f"6.{generation}.0", delete=generation % 2 == 0)

    def ask_with_a_hash(self, name: str, number: int, *, delete: bool) -> JobEntry:
        """A key that gives no generation."""
        return self._ask(name, f"hash-{name}-{number}-{delete}", f"7.{number}.0", delete=delete)

    def _ask(self, name: str, key: str, version: str, *, delete: bool) -> JobEntry:
        payload = delete_payload(name) if delete else instance(name)
        if not delete:
            payload["spec"]["chart"]["version"] = version
            payload["spec"]["values"] = {"source": "inline", "inline": {"note": PASSWORD}}
        kind = "delete" if delete else "apply"
        return self.server.enqueue(CLUSTER_ID, kind=kind, payload=payload, idempotency_key=key)

    def offer_again(self, job: JobEntry) -> None:
        """The control plane was restored from before the ack: it knows neither ack nor result."""
        job.acked_at = job.closed_at = job.offered_at = job.result = None
        self.server.wake()

    def rotate(self, *, grace: bool) -> None:
        """Somebody gives the cluster a new credential. Without a grace period the old one is refused at once."""
        old, self.secret = self.secret, self.server.tokens.rotate(self.secret).text
        if not grace:
            self.server.tokens.revoke(old)

    # --- the cluster ----------------------------------------------------------------------------------------

    def find(self, ref: ObjectRef) -> Manifest | None:
        """The object as it stands."""
        try:
            return run_sync(self.kube.get(ref))
        except NotFound:
            return None

    def instances(self) -> list[Manifest]:
        """Every ApplicationInstance there is."""
        return list(run_sync(self.kube.list(APPLICATION_INSTANCE)).items)

    def has_record(self, job_id: str) -> bool:
        """Whether the job's record is in the cluster."""
        return self.find(ObjectRef(SECRET, OWN_NAMESPACE, head_name(job_id))) is not None

    def open_records(self) -> list[str]:
        """Names of the records of open jobs."""
        page = run_sync(self.kube.list(SECRET, namespace=OWN_NAMESPACE, label_selector=f"{labels.JOB_STORE}=record"))
        return [str(item["metadata"]["name"]) for item in page.items]

    async def _reconcile(self) -> None:
        """Take every instance on, make it Ready or fail after two seconds, and let it go when it is deleted."""
        handled: dict[str, Any] = defaultdict(int)
        async for event in self.kube.watch(APPLICATION_INSTANCE, timeout_seconds=10**8):
            if event.type is WatchEventType.DELETED:
                self.gone.add(event.object["metadata"]["uid"])
            elif event.type is not WatchEventType.BOOKMARK:
                meta = event.object["metadata"]
                state = (meta["generation"], bool(meta.get("deletionTimestamp")))
                if handled[meta["uid"]] != state:
                    handled[meta["uid"]] = state
                    self.loop.call_later(2.0, self._settle, ref_of(event.object, APPLICATION_INSTANCE), meta["uid"])

    def _settle(self, ref: ObjectRef, uid: str) -> None:
        live = self.find(ref)
        if live is None or live["metadata"]["uid"] != uid:
            return
        with suppress(OperatorError):
            if live["metadata"].get("deletionTimestamp"):
                self._patch(ref, {"metadata": {"finalizers": None}})
                return
            self._patch(ref, {"metadata": {"finalizers": [labels.FINALIZER]}})
            is_ready = ref.name not in self.failing
            self._report(ref, live["metadata"]["generation"], (READY,) if is_ready else FAILED)
            if is_ready:
                self.ready.add((uid, live["metadata"]["generation"]))

    def _patch(self, ref: ObjectRef, patch: Any) -> None:
        run_sync(self.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="reconciler"))

    def _report(self, ref: ObjectRef, generation: int, conditions: tuple[Mapping[str, Any], ...]) -> None:
        at = self.loop.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        found = [{**one, "observedGeneration": generation, "lastTransitionTime": at} for one in conditions]
        status = {"observedGeneration": generation, "conditions": found}
        manifest = {**APPLICATION_INSTANCE.manifest(ref.name, ref.namespace), "status": status}
        run_sync(self.kube.apply_status(manifest, kind=APPLICATION_INSTANCE, field_manager=labels.FIELD_MANAGER))

"""An API server with generated answers: every object is a copy, under other names, of one that came to rest.

    python -m bench.made_up SIZE [SHARD]

starts an operator on it in this process and prints the measurements as a line of JSON; `bench.scale` makes a table of
them. Thus sizes can be measured that no machine at hand could hold, and the memory is the operator's alone. A write
ends the process, because there is nothing to write at rest.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import attrs
import msgspec

from bench.burst import instance
from bench.operators import CLUSTER
from bench.stage import SPACES
from kubelab.clock import VirtualClock, virtual_loop
from kubelab.flux import FluxSimulator
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from kubelab.simulation.running import run_simulator
from purekube.apimachinery.errors import KindMissing
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE, OCI_REPOSITORY
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import KubeApi, KubeRequest, KubeVerb, ListPage, Send, WatchEvent, WatchEventType
from purekube_run.process.machine import SystemClock
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.kinds import CLUSTER as CLUSTER_KIND
from vworkspace_core.instances.context import Settings

PILOT = ("pilotname", "pilotspace")


def space_of(name: str) -> str:
    """Return an instance's namespace: its number spreads instances evenly."""
    return SPACES[int(name.rpartition("-")[2]) % len(SPACES)]


def resident_megabytes(process: "int | str" = "self", field: str = "VmRSS") -> float:
    rows = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(row for row in rows if row.startswith(field)).split()[1]) / 1024


# --- what the copies are made of -------------------------------------------------------------------------------------


@attrs.frozen
class Template:
    """An object at rest as JSON; for an object with a stamp (hash) also the applied manifest and the stamp."""

    live: str
    applied: str = ""
    stamp: str = ""


async def pilot() -> dict[str, Template]:
    """Return an instance at rest, its source, its release and their namespace, by plural."""
    clock, (name, space) = VirtualClock(), PILOT
    server = ApiServer(now=clock.now)
    admin = InProcessKube(server)
    for crd in (*crd_manifests(), *flux_crds()):
        await admin.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="bench")
    gated = {**NAMESPACE.manifest(space), "metadata": {"name": space, "labels": {"managed-by": "vworkspace"}}}
    await admin.create(gated, kind=NAMESPACE, field_manager="bench")
    manifest = instance(name)
    manifest["metadata"]["namespace"] = manifest["spec"]["release"]["namespace"] = space
    await admin.create(manifest, kind=APPLICATION_INSTANCE, field_manager="odoo")
    last_applied: dict[Kind, Manifest] = {}

    async def record(request: KubeRequest, proceed: Send) -> Manifest:
        if request.action == KubeVerb.APPLY:
            last_applied[request.kind] = request.body
        return await proceed(request)

    api = InProcessKube(server).through(record)
    async with anyio.create_task_group() as group:
        group.start_soon(run_simulator, admin, clock, FluxSimulator(admin))
        group.start_soon(Manager(api, clock, OperatorSettings(Settings(cluster_id=CLUSTER))).run)
        await anyio.sleep(600)
        group.cancel_scope.cancel()
    found = {}
    for kind in (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE, NAMESPACE):
        live = next(item for item in (await admin.list(kind)).items if "pilot" in json.dumps(item["metadata"]))
        applied = last_applied.get(kind, {})
        stamped = kind in (OCI_REPOSITORY, HELM_RELEASE)
        found[kind.plural] = _stamped(live, applied) if stamped else Template(json.dumps(live))
    return found


def _stamped(live: Manifest, applied: Manifest) -> Template:
    """Return a template with the text whose hash the stamp is.

    The text is the applied manifest without stamp and preconditions.
    """
    meta = {name: value for name, value in applied["metadata"].items() if name not in ("uid", "resourceVersion")}
    stamp = meta.pop("annotations")[APPLIED_HASH]
    text = canonical_json({**applied, "metadata": meta})
    assert hashlib.sha256(text).hexdigest()[:16] == stamp, "the stamp is made of something else"
    return Template(json.dumps(live), text.decode(), stamp)


# --- the API server --------------------------------------------------------------------------------------------------


@attrs.define
class MadeUp:
    """An API with `size` instances and their other objects. It counts the requests."""

    size: int
    templates: Mapping[str, Template]
    definitions: Sequence[Manifest]
    requests: Counter[str] = attrs.field(factory=Counter)
    bytes: int = 0
    seconds: float = 0.0
    """The processor time that generating answers took, which is not the operator's."""

    @property
    def _uid(self) -> str:
        uid: str = json.loads(self.templates[APPLICATION_INSTANCE.plural].live)["metadata"]["uid"]
        return uid

    async def send(self, request: KubeRequest) -> Manifest:
        self.requests[request.action] += 1
        assert request.verb is KubeVerb.LIST, f"{request}: nothing is to be read live or written at rest"
        limit, first = request.params["limit"], request.params["continue"]
        began = time.process_time()
        try:
            page = self._page(request.kind, int(limit or self.size), int(first or 0))
            meta = {"resourceVersion": page.resource_version, "continue": page.continue_token}
            return {"items": page.items, "metadata": meta}
        finally:
            self.seconds += time.process_time() - began
            await anyio.sleep(0)

    def _page(self, kind: Kind, limit: int, first: int) -> ListPage:
        if kind == CUSTOM_RESOURCE_DEFINITION:
            return ListPage(self.definitions, "1000", "")
        if kind == CLUSTER_KIND:
            return ListPage([], "1000", "")
        if kind == NAMESPACE:
            return ListPage([self._object(kind, number) for number in range(len(SPACES))], "1000", "")
        if kind.plural not in self.templates:
            if kind.crd_name in {definition["metadata"]["name"] for definition in self.definitions} or not kind.group:
                return ListPage([], "1000", "")
            raise KindMissing(f"{kind.crd_name} is not served")
        last = min(first + limit, self.size)
        items = [self._object(kind, number) for number in range(first, last)]
        return ListPage(items, "1000", str(last) if last < self.size else "")

    def _object(self, kind: Kind, number: int) -> Any:
        template = self.templates[kind.plural]
        text = self._renamed(template.live, number)
        if template.stamp:
            digest = hashlib.sha256(self._renamed(template.applied, number).encode()).hexdigest()[:16]
            text = text.replace(template.stamp, digest)
        self.bytes += len(text)
        return msgspec.json.decode(text)

    def _renamed(self, text: str, number: int) -> str:
        name, uid = f"scale-{number}", self._uid
        text = text.replace(PILOT[0], name).replace(PILOT[1], space_of(name))
        return text.replace(uid, f"{number:08d}{uid[8:]}")

    async def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        self.requests["watch"] += 1
        await anyio.sleep_forever()
        yield WatchEvent(WatchEventType.BOOKMARK, {})  # never reached: it makes this a generator


@attrs.frozen
class Made:
    """The cost of a generated cluster for the operator."""

    size: int
    shard: str
    empty: float
    resident: float
    peak: float
    listed: float
    looked: float
    resync: float
    requests: int
    megabytes: float
    keys: int
    blocked: float
    """The longest wait of a task of the event loop for its turn, in seconds of processor time."""


async def measure(size: int, shard: Shard, templates: Mapping[str, Template]) -> Made:
    transport = MadeUp(size, templates, [_established(one) for one in (*crd_manifests(), *flux_crds())])
    settings = OperatorSettings(Settings(cluster_id=CLUSTER), shard=shard, resync_seconds=1e9)
    clock = SystemClock()
    latest = LatestStats(ProcessStats(clock.monotonic()))
    telemetry = MetricsTelemetry(clock, latest, Metrics(latest, clock.monotonic))
    manager = Manager(KubeApi(transport), clock, settings, telemetry=telemetry, random=lambda: 0.5)
    # The Cluster's status is a write, and about as large whatever the size.
    if "cluster" in manager.worker_pools:
        manager.worker_pools["cluster"].shutdown()
    empty, began = resident_megabytes(), time.process_time()
    pool = manager.worker_pools["applicationinstance"]
    mine = sum(shard.owns(space_of(f"scale-{number}")) for number in range(size))

    async def looked_at(count: int) -> None:
        while sum(pool.stats().results.values()) < count:
            await anyio.sleep(0.05)

    blocked = 0.0

    async def look_at_the_loop() -> None:
        nonlocal blocked
        while True:
            before, made = time.process_time(), transport.seconds
            await anyio.sleep(0.01)
            blocked = max(blocked, time.process_time() - before - (transport.seconds - made))

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        group.start_soon(telemetry.run)
        group.start_soon(look_at_the_loop)
        await manager.wait_ready()
        listed = time.process_time() - began - transport.seconds
        await looked_at(mine)
        looked = time.process_time() - began - transport.seconds
        made, before = transport.seconds, time.process_time()
        for namespace, name in manager.informers.store(APPLICATION_INSTANCE).names():
            pool.enqueue(ObjectRef(APPLICATION_INSTANCE, namespace, name))
        await looked_at(2 * mine)
        resync = time.process_time() - before - (transport.seconds - made)
        resident = resident_megabytes()
        counts = pool.stats()
        assert {label for label, count in counts.results.items() if count} <= {"success", "requeue_after"}, counts
        group.cancel_scope.cancel()
    return Made(
        size, str(shard), empty, resident, resident_megabytes(field="VmHWM"), listed, looked, resync,
        sum(transport.requests.values()), transport.bytes / 1e6, mine, blocked,
    )  # fmt: skip


def _established(definition: Manifest) -> Manifest:
    said = {"conditions": [{"type": "Established", "status": "True"}]}
    return {**definition, "metadata": {**definition["metadata"], "uid": "u", "resourceVersion": "1"}, "status": said}


def main() -> None:
    if sys.argv[1:] == ["--pilot"]:
        found = anyio.run(pilot, backend_options={"loop_factory": virtual_loop()})
        print(msgspec.json.encode({plural: attrs.asdict(one) for plural, one in found.items()}).decode())
        return
    # The pilot runs in a process of its own, whose memory is not counted.
    command = [sys.executable, "-m", "bench.made_up", "--pilot"]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
    templates = {plural: Template(**one) for plural, one in json.loads(told).items()}
    shard = Shard.of(sys.argv[2]) if len(sys.argv) > 2 else WHOLE
    print(json.dumps(attrs.asdict(anyio.run(measure, int(sys.argv[1]), shard, templates))))


if __name__ == "__main__":
    main()

"""Hundreds of instances at once, with a Flux that answers at once: this operator next to one written with kopf.

    python -m bench.burst [--instances 500] [--rounds 2] [--only ours]

Each round of each operator runs on a fresh API server: the embedded one, or with KUBEBUILDER_ASSETS a kube-apiserver
with etcd. This process creates the instances, plays Flux (a source with its artifact, then a release in Helm's history,
as soon as a HelmRelease is there) and watches, so that only the operator and its cost for the API server are measured.
All share the machine: the ratios matter, not the absolute figures.
"""

import argparse
import asyncio
import json
import math
import os
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import attrs
import msgspec

from bench.machine import describe
from bench.operators import CLUSTER, Program, Stage, Start, kopfs, ours, stage, started
from bench.stage import SPACES
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.apimachinery.timestamps import format_time
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

SPACE: Final = SPACES[0]
PATIENCE: Final = 300.0
FLUX_AT_ONCE: Final = 4
CREATORS: Final = 4
DIGEST: Final = "sha256:2e830331e011" + "0" * 52
VERSION: Final = "6.6.0"
MERGE: Final = "application/merge-patch+json"


def path_of(kind: Kind, name: str = "", below: str = "") -> str:
    parts = [f"/apis/{kind.api_version}/namespaces/{SPACE}/{kind.plural}", name, below]
    return "/".join(part for part in parts if part)


def instance(name: str) -> dict[str, Any]:
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
    chart = {"sourceType": "oci", "url": "oci://charts.example.com/apps", "name": "nextcloud", "version": VERSION}
    values = {"replicaCount": 2, "ingress": {"enabled": True, "host": f"{name}.example.com"}}
    spec = {
        "appRef": {"catalogId": "nextcloud"},
        "chart": chart,
        "release": {"name": name, "namespace": SPACE},
        "values": {"source": "inline", "inline": values},
    }
    metadata = {"name": name, "namespace": SPACE, "labels": labels}
    return {**APPLICATION_INSTANCE.manifest(name, SPACE), "metadata": metadata, "spec": spec}


@attrs.frozen
class ApiClient:
    """A client of the API server for this process."""

    session: aiohttp.ClientSession

    async def send(self, method: str, path: str, body: Any, *, media: str = "application/json", who: str) -> Any:
        """Return the answered object, None for 404 and 409; any other refusal ends the measurement."""
        headers = {"content-type": media}
        query = {"fieldManager": who}
        async with self.session.request(method, path, data=json.dumps(body), headers=headers, params=query) as answer:
            text = await answer.text()
            assert answer.status < 300 or answer.status in (404, 409), text
            return msgspec.json.decode(text) if answer.status < 300 else None

    async def get(self, path: str) -> Any:
        """Return the object; empty if it does not exist."""
        async with self.session.get(path) as answer:
            return msgspec.json.decode(await answer.read()) if answer.status == 200 else {}

    async def watch(self, kind: Kind, seen: Callable[[str, dict[str, Any]], None]) -> None:
        """Report every change of the kind, from the beginning, until cancelled; a stream that ends is resumed."""
        version = ""
        while True:
            async for change, manifest in self._stream(kind, version):
                version = manifest.get("metadata", {}).get("resourceVersion", "") if change != "ERROR" else ""
                if change not in ("ERROR", "BOOKMARK"):  # 410 is an ERROR: all objects are sent again
                    seen(change, manifest)
            await asyncio.sleep(0.1)

    async def _stream(self, kind: Kind, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        query = {"watch": "true", "timeoutSeconds": "3600", "allowWatchBookmarks": "true", "resourceVersion": version}
        limits = aiohttp.ClientTimeout(total=None)
        with suppress(aiohttp.ClientError):  # a broken connection is an end like any other
            async with self.session.get(path_of(kind), params=query, timeout=limits) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = msgspec.json.decode(line)
                        yield event["type"], event["object"]


@asynccontextmanager
async def client(on: Stage) -> AsyncIterator[ApiClient]:
    trust = ssl.create_default_context(cadata=on.access.authority) if on.access.authority else False
    headers = {"user-agent": "bench/1"}
    if on.access.admin:
        headers["authorization"] = f"Bearer {on.access.admin}"
    pool = aiohttp.TCPConnector(ssl=trust, limit=32)
    async with aiohttp.ClientSession(on.access.url, connector=pool, headers=headers) as session:
        yield ApiClient(session)


# --- Flux, played ----------------------------------------------------------------------------------------------------


def _true(kind: str, reason: str, now: str, generation: int) -> dict[str, Any]:
    condition = {"type": kind, "status": "True", "reason": reason, "message": "ok"}
    return {**condition, "lastTransitionTime": now, "observedGeneration": generation}


def source_status(generation: int, now: str) -> dict[str, Any]:
    """Return the status of an OCIRepository with its artifact."""
    url = "http://source.flux-system/a.tgz"
    artifact = {"path": "a", "url": url, "revision": f"{VERSION}@{DIGEST}", "digest": DIGEST, "size": 1}
    conditions = [_true(kind, "Succeeded", now, generation) for kind in ("Ready", "ArtifactInStorage")]
    status = {"observedGeneration": generation, "url": url, "artifact": {**artifact, "lastUpdateTime": now}}
    return {"status": {**status, "conditions": conditions}}


def release_status(name: str, generation: int, now: str) -> dict[str, Any]:
    """Return the status of a HelmRelease after a successful installation: the attempt, and Helm's record of it."""
    version = f"{VERSION}+2e830331e011"
    record = {"name": name, "namespace": SPACE, "version": 1, "status": "deployed", "chartName": "nextcloud"}
    record |= {"chartVersion": version, "configDigest": DIGEST, "digest": DIGEST, "ociDigest": DIGEST}
    record |= {"firstDeployed": now, "lastDeployed": now}
    attempt = {
        "lastAttemptedGeneration": generation,
        "lastAttemptedRevision": version,
        "lastAttemptedRevisionDigest": DIGEST,
        "lastAttemptedReleaseAction": "install",
        "lastAttemptedConfigDigest": DIGEST,
    }
    conditions = [_true(kind, "InstallSucceeded", now, generation) for kind in ("Released", "Ready")]
    status = {**attempt, "storageNamespace": SPACE, "history": [record], "observedGeneration": generation}
    return {"status": {**status, "conditions": conditions}}


@attrs.define
class Play:
    """The simulated Flux, and the times at which this process saw events, in seconds of one clock."""

    api: ApiClient
    releases: "asyncio.Queue[tuple[str, str, int]]" = attrs.field(factory=asyncio.Queue)
    answered: dict[str, float] = attrs.field(factory=dict)
    """The time at which Flux had written Ready, by instance."""
    ready: dict[str, float] = attrs.field(factory=dict)
    """The time at which the instance was first seen Ready."""
    changes: dict[str, int] = attrs.field(factory=dict)
    """The number of changes of the instance that were seen."""
    _taken: dict[str, int] = attrs.field(factory=dict)
    """The generation of a HelmRelease that has been answered or is queued for it."""
    _seen: dict[str, str] = attrs.field(factory=dict)

    def release_seen(self, change: str, manifest: Mapping[str, Any]) -> None:
        meta = manifest["metadata"]
        if change == "DELETED":
            self._taken.pop(meta["name"], None)
        elif meta["generation"] > self._taken.get(meta["name"], 0):
            self._taken[meta["name"]] = meta["generation"]
            source = manifest["spec"]["chartRef"]["name"]
            self.releases.put_nowait((meta["name"], source, meta["generation"]))

    def instance_seen(self, change: str, manifest: Mapping[str, Any]) -> None:
        name, version = manifest["metadata"]["name"], manifest["metadata"]["resourceVersion"]
        if self._seen.get(name) == version:
            return  # a stream that was opened again repeats it
        self._seen[name] = version
        self.changes[name] = self.changes.get(name, 0) + 1
        conditions = (manifest.get("status") or {}).get("conditions") or ()
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            self.ready.setdefault(name, time.perf_counter())

    async def flux(self) -> None:
        """Answer for one HelmRelease after the other, each at once."""
        while True:
            name, source, generation = await self.releases.get()
            now = format_time(datetime.now(UTC))
            seen = await self._status(OCI_REPOSITORY, source, source_status(1, now), "source-controller")
            if seen != 1:
                await self._status(OCI_REPOSITORY, source, source_status(seen, now), "source-controller")
            await self._status(HELM_RELEASE, name, release_status(name, generation, now), "helm-controller")
            if name not in self.ready:
                self.answered[name] = time.perf_counter()

    async def _status(self, kind: Kind, name: str, body: Mapping[str, Any], who: str) -> int:
        """Write a status and return the object's generation."""
        for _ in range(500):
            written = await self.api.send("PATCH", path_of(kind, name, "status"), body, media=MERGE, who=who)
            if written is not None:
                return int(written["metadata"]["generation"])
            await asyncio.sleep(0.02)
        raise AssertionError(f"{kind.kind} {name} never came")

    async def create(self, names: Sequence[str]) -> None:
        for name in names:
            await self.api.send("POST", path_of(APPLICATION_INSTANCE), instance(name), who="bench")

    async def until_ready(self, names: Sequence[str], pause: float) -> None:
        end = time.perf_counter() + PATIENCE
        while missing := [name for name in names if name not in self.ready]:
            assert time.perf_counter() < end, await self.held_of(missing)
            await asyncio.sleep(pause)

    async def held_of(self, names: Sequence[str]) -> str:
        """Describe the stored objects of instances that never became Ready, and what was seen of them here."""
        lines = [f"after {PATIENCE:g} s {len(names)} instances are not Ready; of the first {min(len(names), 10)}:"]
        for name in names[:10]:
            answered = "answered" if name in self.answered else "not answered"
            lines.append(f"{name}: generation {self._taken.get(name)} of its HelmRelease was seen here, and {answered}")
            for kind in (APPLICATION_INSTANCE, HELM_RELEASE):
                lines.append(f"  {kind.kind}: {told(await self.api.get(path_of(kind, name)))}")
        return "\n".join(lines)

    def reactions(self, names: Sequence[str]) -> list[float]:
        """Return the milliseconds from a HelmRelease that reports Ready to its instance that reports Ready."""
        return sorted(1000 * (self.ready[name] - self.answered[name]) for name in names)


def told(manifest: Mapping[str, Any]) -> str:
    """Describe an object by what explains why it is not Ready."""
    if not manifest:
        return "not there"
    status, generation = manifest.get("status") or {}, manifest["metadata"].get("generation")
    conditions = [
        f"{condition['type']}={condition['status']}/{condition.get('reason')}: {str(condition.get('message'))[:160]}"
        for condition in status.get("conditions") or ()
    ]
    observed = status.get("observedGeneration")
    return f"generation {generation}, observed {observed}; {'; '.join(conditions) or 'no conditions'}"


# --- measuring -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Measured:
    """One round of one operator. Reactions are in milliseconds, processor times in milliseconds per instance."""

    per_second: float
    loaded_median: float
    loaded_p99: float
    idle_median: float
    idle_longest: float
    operator: float
    server: float
    peak: float
    writes: float
    changes: float


ROWS: Final = (
    ("per_second", "instances per second, creation to Ready"),
    ("loaded_median", "HelmRelease Ready to instance Ready under load, median, ms"),
    ("loaded_p99", "the same, 99th percentile, ms"),
    ("idle_median", "the same when idle, median, ms"),
    ("idle_longest", "the same when idle, longest, ms"),
    ("operator", "operator's processor time an instance, ms"),
    ("server", "API server's processor time an instance, ms"),
    ("peak", "operator's peak memory, MB"),
    ("writes", "operator's writes an instance, Events apart"),
    ("changes", "changes of an instance until all are Ready"),
)


async def play(on: Stage, program: Program, instances: int, alone: int) -> Measured:
    async with client(on) as api, asyncio.TaskGroup() as group:
        scene = Play(api)
        tasks = [
            group.create_task(api.watch(HELM_RELEASE, scene.release_seen)),
            group.create_task(api.watch(APPLICATION_INSTANCE, scene.instance_seen)),
            *(group.create_task(scene.flux()) for _ in range(FLUX_AT_ONCE)),
        ]
        await _warm(scene)
        measured = await _burst(on, program, scene, instances, alone)
        for task in tasks:
            task.cancel()
    return measured


async def _warm(scene: Play) -> None:
    """Wait until the operator is up and the first instance is Ready."""
    await scene.create(["warm"])
    await scene.until_ready(["warm"], 0.05)


async def _burst(on: Stage, program: Program, scene: Play, instances: int, alone: int) -> Measured:
    names = [f"burst-{at}" for at in range(instances)]
    used, served, written = program.processor_seconds(), on.server_processor_seconds(), on.writes(but="warm")
    began = time.perf_counter()
    await asyncio.gather(*(scene.create(names[at::CREATORS]) for at in range(CREATORS)))
    await scene.until_ready(names, 0.05)
    took = max(scene.ready[name] for name in names) - began
    await asyncio.sleep(2)  # the last Events
    used, served = program.processor_seconds() - used, on.server_processor_seconds() - served
    written = on.writes(but="warm") - written
    loaded, idle = scene.reactions(names), await _idle(scene, alone)
    return Measured(
        per_second=instances / took,
        loaded_median=statistics.median(loaded),
        loaded_p99=loaded[math.ceil(len(loaded) * 0.99) - 1],
        idle_median=statistics.median(idle),
        idle_longest=idle[-1],
        operator=1000 * used / instances,
        server=1000 * served / instances,
        peak=program.peak_megabytes(),
        writes=written / instances,
        changes=sum(scene.changes[name] for name in names) / instances,
    )


async def _idle(scene: Play, count: int) -> list[float]:
    names = [f"idle-{at}" for at in range(count)]
    for name in names:
        await scene.create([name])
        await scene.until_ready([name], 0.002)
        await asyncio.sleep(0.1)
    return scene.reactions(names)


def measure(start: Start, instances: int, alone: int) -> Measured:
    with stage("--without-flux") as on, started(start, on) as program:
        return asyncio.run(play(on, program, instances, alone))


def print_table(results: Mapping[str, Sequence[Measured]]) -> None:
    """Print one row per figure, with each round's value and the ratio of ours to kopf's."""
    print(f"| what | {' | '.join(results)} | ours to kopf |\n|---|{'---|' * (len(results) + 1)}")
    for field, what in ROWS:
        values = {name: [getattr(one, field) for one in rounds] for name, rounds in results.items()}
        cells = [", ".join(f"{value:,.1f}" for value in column) for column in values.values()]
        medians = [statistics.median(column) for column in values.values()]
        ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) == 2 and medians[1] else ""
        print(f"| {what} | {' | '.join(cells)} | {ratio} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--alone", type=int, default=20, help="how many are made one after the other, last of all")
    parser.add_argument("--only", choices=["ours", "kopf"])
    options = parser.parse_args()
    os.environ.setdefault("BENCH_EVENTS", "0")  # kopf writes no Events unless a handler does
    print(describe(), flush=True)
    chosen = {name: start for name, start in (("ours", ours), ("kopf", kopfs)) if options.only in (None, name)}
    results: dict[str, list[Measured]] = {name: [] for name in chosen}
    for _ in range(options.rounds):
        for name, start in chosen.items():
            results[name].append(measure(start, options.instances, options.alone))
    print_table(results)


if __name__ == "__main__":
    main()

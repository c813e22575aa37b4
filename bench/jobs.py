"""Jobs per second from poll to accepted result, and milliseconds from enqueue to apply, over HTTP (PULL-2).

    python -m bench.jobs [--jobs N] [--runs N]

Two processes on one machine: both embedded servers in one, with a stand-in for the reconciler that makes an instance
Ready as soon as it is there; in the other the agent with its production adapters (lightkube, HTTP, records in Secrets)
and an informer. Only the agent's own path is measured, not Helm's: record, ack, look, record, apply, record, watch,
result, tombstone, record away. Times are taken in the servers' process.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import structlog

from bench.machine import describe, line
from kubelab.http.serving import serve_forever
from kubelab.inprocess import InProcessKube
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.apimachinery.resources import NAMESPACE as NAMESPACE_KIND
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.ports import WatchEventType
from purekube_http import KubeApiClient
from purekube_run.controller.informer import InformerRunner
from purekube_run.process.machine import SystemClock
from tests.support.builders import NAMESPACE, condition
from tests.support.embedded_server import config_of
from tests.support.jobs import CLUSTER_ID, instance
from vworkspace_app.jobs.agent import Agent
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.store import KubeJobStore
from vworkspace_fake.controlplane import ControlPlaneServer, JobEntry
from vworkspace_fake.controlplane.http import serve as serve_control
from vworkspace_odoo import HttpControlPlane

OWN_NAMESPACE = "vworkspace-system"
TOKEN = "token"


class Servers:
    """Both servers, a reconciler that finds everything Ready, and the times of applies."""

    def __init__(self) -> None:
        self.kube = InProcessKube(ApiServer(now=lambda: datetime.now(UTC), collects=True))
        self.control = ControlPlaneServer()
        self.control.tokens.add(CLUSTER_ID, TOKEN)
        self.applied: dict[str, float] = {}
        self._number = 0

    async def prepare(self) -> None:
        for crd in crd_manifests():
            await self.kube.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="bench")
        for name, found in ((NAMESPACE, {"managed-by": "vworkspace"}), (OWN_NAMESPACE, {})):
            manifest = {**NAMESPACE_KIND.manifest(name), "metadata": {"name": name, "labels": found}}
            await self.kube.create(manifest, kind=NAMESPACE_KIND, field_manager="bench")

    async def reconcile(self) -> None:
        """Record when an instance appeared, and make it Ready."""
        async for event in self.kube.watch(APPLICATION_INSTANCE, timeout_seconds=10**6):
            if event.type is WatchEventType.ADDED:
                self.applied[event.object["metadata"]["name"]] = time.perf_counter()
                await self.kube.apply_status(
                    _ready(event.object), kind=APPLICATION_INSTANCE, field_manager=FIELD_MANAGER
                )

    def ask(self) -> JobEntry:
        """Enqueue a job for one more instance."""
        self._number += 1
        name = f"app-{self._number}"
        key = f"ApplicationInstance/{NAMESPACE}/{name}@1"
        return self.control.enqueue(CLUSTER_ID, kind="apply", payload=instance(name), idempotency_key=key)

    async def latency(self) -> float:
        """Return the milliseconds from enqueue to apply while a long poll waits."""
        while not self.control.waiting:
            await anyio.sleep(0.001)
        began = time.perf_counter()
        job = self.ask()
        await _until_all_answered([job])
        return 1000 * (self.applied[job.raw["payload"]["metadata"]["name"]] - began)

    async def throughput(self, jobs: int) -> float:
        """Return the jobs per second, from enqueuing all of them at once to the last result."""
        began = time.perf_counter()
        await _until_all_answered([self.ask() for _ in range(jobs)])
        return jobs / (time.perf_counter() - began)


def _ready(live: Manifest) -> dict[str, Any]:
    generation = live["metadata"]["generation"]
    found = {**condition("Ready", "True", "HelmReleaseReady"), "observedGeneration": generation}
    status = {"observedGeneration": generation, "conditions": [found]}
    return {**APPLICATION_INSTANCE.manifest(live["metadata"]["name"], NAMESPACE), "status": status}


async def _until_all_answered(jobs: list[JobEntry]) -> None:
    while any(job.result is None for job in jobs):
        await anyio.sleep(0.002)
    assert all(job.result["outcome"] == "succeeded" for job in jobs)


async def serve(jobs: int, runs: int) -> None:
    """Run the servers' process: print their addresses, measure, print the measurements."""
    servers = Servers()
    await servers.prepare()
    urls: dict[str, str] = {}

    async def cluster() -> None:
        await serve_forever(servers.kube.server, ready=lambda url: urls.update(cluster=url))

    async def control() -> None:
        await serve_control(
            servers.control, "127.0.0.1", 0, admin_token="admin", ready=lambda url: urls.update(control=url)
        )

    async with anyio.create_task_group() as group:
        group.start_soon(cluster)
        group.start_soon(control)
        group.start_soon(servers.reconcile)
        while len(urls) < 2:
            await anyio.sleep(0.01)
        print(json.dumps(urls), flush=True)
        latencies = [await servers.latency() for _ in range(60)][10:]
        rates = [await servers.throughput(jobs) for _ in range(runs)]
        done = sum(1 for _ in servers.control.jobs)
        print(json.dumps({"latencies": latencies, "rates": rates, "jobs": done}), flush=True)
        group.cancel_scope.cancel()


async def operate(urls: dict[str, str], found: Iterator[str]) -> Any:
    """Run the agent's process until the servers have measured."""
    clock = SystemClock()
    async with (
        KubeApiClient(config_of(urls["cluster"])) as kube,
        HttpControlPlane(urls["control"], lambda: TOKEN) as odoo,
    ):
        informer = InformerRunner(kube, APPLICATION_INSTANCE, clock=clock, random=lambda: 0.5)
        store = KubeJobStore(kube, OWN_NAMESPACE, lock=anyio.Lock())
        agent = Agent(
            control=odoo,
            kube=kube,
            store=store,
            clock=clock,
            scope=JobScope(CLUSTER_ID),
            random=lambda: 0.5,
            find=lambda ref: None,
        )

        def changed(change: CacheChange) -> None:
            agent.on_object_changed(None if change.type is ChangeType.DELETED else change.object, change.ref)

        informer.subscribe(changed)
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await informer.wait_for_sync()
            group.start_soon(agent.run)
            began = time.process_time()
            measured = json.loads(await anyio.to_thread.run_sync(lambda: next(found)))
            spent = time.process_time() - began
            group.cancel_scope.cancel()
    return {**measured, "spent": 1000 * spent / measured["jobs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        anyio.run(serve, options.jobs, options.runs)
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(describe())
    command = [sys.executable, "-m", "bench.jobs", "--serve", f"--jobs={options.jobs}", f"--runs={options.runs}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rows = iter(process.stdout)
        measured = anyio.run(operate, json.loads(next(rows)), rows)
    print(line(f"{options.jobs} jobs, poll to accepted result", measured["rates"], "jobs/s", "200"))
    print(f"processor time of the agent's process: {measured['spent']:.1f} ms a job")
    print(line("enqueue to apply with an idle long poll", measured["latencies"], "ms", "below 20"))


if __name__ == "__main__":
    main()

"""The agent's reports in numbers: events per second through the outbox, memory of a full buffer, requests when idle.

    python -m bench.outbox [--events N] [--runs N]

Events are ConditionTransitions as an instance's status makes them. Over HTTP, client and embedded control plane share
one process and its core. Memory is what Python allocates for a full buffer, by tracemalloc; the largest event has a
message as long as a condition may have.
"""

import argparse
import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import anyio
import structlog

from bench.machine import describe, line
from purekube_run.process.machine import SystemClock
from tests.support.agent_site import Site
from tests.support.builders import condition
from tests.support.control_planes import served
from tests.support.jobs import CLUSTER_ID, instance
from tests.support.virtual_time import run
from vworkspace_app.control_plane.connection import AgentSettings, Connection
from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_core.control_plane.outbox import CAPACITY, Outbox
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.jobs.events import condition_events
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_odoo import HttpControlPlane

TOKEN = "token"
LONGEST_MESSAGE = 32_768
HOURS = 4


def events(count: int, message: str = "Helm upgrade succeeded for release org-myteam/nextcloud.v3 " * 3) -> list[Any]:
    """Return the transitions of `count` instances."""
    now = SystemClock().now()
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {**condition("Ready", "True", "HelmReleaseReady", message=message), "lastTransitionTime": at}
    found: list[Any] = []
    for number in range(count):
        live = {**instance(f"app-{number}", uid=f"00000000-0000-0000-0000-{number:012}"), "status": {}}
        found += condition_events({}, {**live, "status": {"conditions": [dict(ready)]}}, now)
    return found


async def drained(control: ControlPlane, batch: Sequence[Any]) -> float:
    """Return the events per second of `batch`, sent in portions that fit the buffer, until all have arrived."""
    clock = SystemClock()
    at_once = AgentSettings(batch_seconds=0.0)
    telling = EventSender(control, Connection(clock), clock, lambda: 0.5, at_once, tuple, find=lambda ref: None)
    telling.release()
    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(telling.run)
        for start in range(0, len(batch), CAPACITY):
            telling.put(batch[start : start + CAPACITY])
            await telling.drain()
        tasks.cancel_scope.cancel()
    seconds = time.perf_counter() - began
    assert telling.outbox.dropped == 0
    return len(batch) / seconds


def new_server() -> ControlPlaneServer:
    server = ControlPlaneServer()
    server.tokens.add(CLUSTER_ID, TOKEN)
    return server


async def in_process(batch: Sequence[Any]) -> float:
    server = new_server()
    rate = await drained(InProcessControlPlane(server, TOKEN), batch)
    assert len(server.events_of(CLUSTER_ID)) == len(batch)
    return rate


async def over_http(batch: Sequence[Any]) -> float:
    server = new_server()
    async with served(server) as url, HttpControlPlane(url, lambda: TOKEN) as control:
        rate = await drained(control, batch)
    assert len(server.events_of(CLUSTER_ID)) == len(batch)
    return rate


def full_buffer(message: str) -> float:
    """Return the KiB that a full outbox takes."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    # In production every status is decoded separately, so that events share no text.
    outbox = Outbox().put([event for number in range(CAPACITY) for event in events(1, f"{message}{number}")])
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(outbox) == CAPACITY
    return held / 1024


def idle_hour() -> Counter[str]:
    """Return the requests per hour of an idle agent, by call, in virtual time."""
    found: Counter[str] = Counter()

    async def main() -> None:
        site = Site()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(site.agent.run)
            await anyio.sleep(600)
            site.server.requests.clear()
            await anyio.sleep(3600 * HOURS)
            tasks.cancel_scope.cancel()
        found.update(call.value for _, call in site.server.requests)

    run(main)
    return Counter({name: round(count / HOURS) for name, count in found.items()})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    print(describe())
    batch = events(options.events)
    for name, measure in (("in process", in_process), ("over HTTP", over_http)):
        rates = [anyio.run(measure, batch) for _ in range(options.runs)]
        print(line(f"events through the outbox, {name}", rates, "events/s"), flush=True)
    for name, message in (("usual", "x" * 180), ("largest", "x" * LONGEST_MESSAGE)):
        sizes = [full_buffer(message) for _ in range(3)]
        print(line(f"a full buffer of {CAPACITY} events, {name} messages", sizes, "KiB"), flush=True)
    calls = idle_hour()
    told = ", ".join(f"{name} {count}" for name, count in sorted(calls.items()))
    print(f"requests in an idle hour: {sum(calls.values())} ({told}); aim: only long polls and heartbeats")


if __name__ == "__main__":
    main()

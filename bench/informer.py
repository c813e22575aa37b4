"""Watch events per second, from the socket through the informer into the store (RUN-1).

    python -m bench.informer [--events N] [--runs N]

Prints the median of several runs for each stage, the size of the events and the machine, since figures mean nothing
without them. The server writes ready-made bytes from the same process, so the last stage shares one core with it.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from bench.machine import describe, line
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller.informer.machine import step
from purekube.controller.informer.messages import InformerState, PutObject
from purekube.controller.informer.store import ObjectStore
from purekube.ports import KubeRequest, KubeVerb
from purekube_http import KubeApiClient
from purekube_http.watch import decode_line
from purekube_run.controller.informer import InformerRunner
from purekube_run.process.machine import SystemClock

OBJECTS = 1000
CHUNK = 256 * 1024
ASKED = KubeRequest(KubeVerb.WATCH, HELM_RELEASE)


def release(number: int, version: int) -> dict[str, Any]:
    """Return a HelmRelease as Flux leaves it, including managedFields: about 4.7 KB of JSON."""
    fields: dict[str, Any] = {f"f:field{field}": {".": {}, "f:value": {}} for field in range(40)}
    manager = {"manager": "helm-controller", "operation": "Update", "apiVersion": "helm.toolkit.fluxcd.io/v2"}
    condition = {
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "Helm upgrade succeeded " * 4,
        "status": "True",
    }
    history = {"chartName": "app", "chartVersion": "6.6.0", "digest": "sha256:" + "0" * 64, "status": "deployed"}
    return {
        "apiVersion": HELM_RELEASE.api_version,
        "kind": HELM_RELEASE.kind,
        "metadata": {
            "name": f"release-{number}",
            "namespace": f"ns-{number % 20}",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(version),
            "generation": 3,
            "labels": {f"label-{label}": "value" for label in range(8)},
            "ownerReferences": [
                {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "X", "name": "x", "uid": f"u{number}"}
            ],
            "managedFields": [
                {**manager, "fieldsV1": {"f:spec": fields}},
                {**manager, "fieldsV1": {"f:status": fields}},
            ],
        },
        "spec": {
            "chart": {"spec": {"chart": "app", "version": "6.6.0"}},
            "interval": "5m",
            "values": {"k": ["v"] * 20},
        },
        "status": {
            "conditions": [{**condition, "type": one} for one in ("Ready", "Released")],
            "history": [history] * 4,
        },
    }


def lines(events: int) -> list[bytes]:
    """Return the lines of a watch: changes of the objects in turn."""
    encode = msgspec.json.encode
    return [encode({"type": "MODIFIED", "object": release(at % OBJECTS, at + 2)}) + b"\n" for at in range(events)]


def decoding(stream: list[bytes]) -> float:
    """Return the events per second of decoding lines alone."""
    began = time.perf_counter()
    for row in stream:
        decode_line(ASKED, row)
    return len(stream) / (time.perf_counter() - began)


def into_store(stream: list[bytes]) -> float:
    """Return the events per second of decoding lines, stepping the informer and storing."""
    store, state = ObjectStore(HELM_RELEASE), InformerState(resource_version="1")
    began = time.perf_counter()
    for row in stream:
        state, effects = step(state, decode_line(ASKED, row), began, 0.5)
        for effect in effects:
            if isinstance(effect, PutObject):
                store.put(effect.object)
    return len(stream) / (time.perf_counter() - began)


async def over_http(stream: list[bytes]) -> float:
    """Return the events per second through a loopback socket, the adapter and the informer."""
    body, last, done = b"".join(stream), str(len(stream) + 1), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"watch=true" in head:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            for start in range(0, len(body), CHUNK):
                writer.write(body[start : start + CHUNK])
                await writer.drain()
            await done.wait()
        page = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(page), page))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User()).get()
    assert config is not None
    async with KubeApiClient(config) as api:
        informer = InformerRunner(api, HELM_RELEASE, clock=SystemClock(), random=lambda: 0.5)
        running = asyncio.create_task(informer.run())
        await informer.wait_for_sync()
        began = time.perf_counter()
        while informer.store.resource_version != last:
            await asyncio.sleep(0.01)
        seconds = time.perf_counter() - began
        done.set()
        running.cancel()
        await asyncio.wait([running])
    server.close()
    assert len(informer.store) == min(OBJECTS, len(stream))
    return len(stream) / seconds


def awaited(measure: Callable[[list[bytes]], Awaitable[float]]) -> Callable[[list[bytes]], float]:
    """Return a measurement that runs a coroutine, each time on a loop of its own."""

    async def measured(stream: list[bytes]) -> float:
        return await measure(stream)

    return lambda stream: asyncio.run(measured(stream))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    stream = lines(options.events)
    store = ObjectStore(HELM_RELEASE)
    store.buffer(release(number, number) for number in range(1, 101))
    list(store.replace("100"))
    size = statistics.mean(map(len, stream))
    print(describe())
    print(f"{options.events} events of {size:.0f} bytes, {store.bytes / len(store):.0f} bytes each in the store")
    stages = {"decode": decoding, "decode, machine, store": into_store, "loopback HTTP to store": awaited(over_http)}
    for name, measure in stages.items():
        print(line(name, [measure(stream) for _ in range(options.runs)], "events/s"))


if __name__ == "__main__":
    main()

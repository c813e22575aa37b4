"""The embedded API server in numbers (RUN-9): start, applies, memory, watches, and cost by number of objects.

    python -m bench.apiserver [--crds FOLDER]

The applied object is an ApplicationInstance of the project's own CRD, so every write is decoded, merged, owned,
defaulted, validated (rules included) and stored. Over HTTP the server is a process of its own on one core, the client
on another if there is one. Rates and costs are per second of the server's processor time, which other load on a shared
machine does not stretch, and for HTTP by the clock as well. `--crds` is a folder of further CRDs whose loading is
timed.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio
import attrs

from bench.machine import describe, line
from bench.reaching import Client
from kubelab.cluster.embedded import EmbeddedCluster
from kubelab.http.serving import serve_forever
from kubelab.model.calls import ADMIN, RequestTarget, WriteOptions
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, NAMESPACE
from purekube_run.process.yaml_documents import read_documents
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "manifests" / "crds"
APPLY = WriteOptions("bench", force=True)
SPACE = "org-bench"
T = TypeVar("T")


def instance(name: str, version: str = "1.0.0") -> dict[str, Any]:
    """Return an ApplicationInstance as the control plane sends it: about 700 bytes."""
    return {
        **APPLICATION_INSTANCE.manifest(name, SPACE),
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "labels": {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": "bench"},
        },
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "mode": "managed",
            "chart": {
                "sourceType": "oci",
                "url": "oci://r.example.test/charts",
                "name": "nextcloud",
                "version": version,
            },
            "release": {"name": name, "namespace": SPACE},
            "values": {"source": "inline", "inline": {"replicaCount": 2, "persistence": {"size": "10Gi"}}},
            "suspend": False,
            "integrations": {"ingress": {"enabled": True, "host": "cloud.example.test"}},
        },
    }


def documents(folder: Path) -> list[Any]:
    """Return every manifest of a folder."""
    return list(read_documents([str(path) for path in sorted(folder.glob("*.yaml"))]))


def cluster() -> ApiServer:
    """Return a server with our CRDs and a namespace."""
    server = EmbeddedCluster.start(documents(OWN)).server
    server.create(RequestTarget(server.resource(NAMESPACE)), NAMESPACE.manifest(SPACE))
    return server


def target(server: ApiServer, name: str, kind: Kind = APPLICATION_INSTANCE) -> RequestTarget:
    return RequestTarget(server.resource(kind), SPACE, name)


# --- in process ------------------------------------------------------------------------------------------------------


def applies_in_process(objects: int, applies: int = 2_000) -> Iterator[float]:
    """Yield the rate of applies that change one field of one of `objects` objects, per second."""
    server = cluster()
    for at in range(objects):
        server.apply(target(server, f"i-{at}"), instance(f"i-{at}"), APPLY, ADMIN)
    round_ = 0
    while True:
        round_ += 1
        bodies = [instance(f"i-{at * 7 % objects}", f"{round_}.{at // objects}.0") for at in range(applies)]
        began = time.process_time()
        for body in bodies:
            server.apply(target(server, body["metadata"]["name"]), body, APPLY, ADMIN)
        yield applies / (time.process_time() - began)


def noops_in_process(applies: int = 2_000) -> Iterator[float]:
    """Yield the rate of applies that change nothing, per second."""
    server = cluster()
    where, body = target(server, "i"), instance("i")
    while True:
        began = time.process_time()
        for _ in range(applies):
            server.apply(where, body, APPLY, ADMIN)
        yield applies / (time.process_time() - began)


def several(measure: Iterator[T], count: int = 5) -> list[T]:
    """Return samples of a measurement, after one to warm up."""
    next(measure)
    return [next(measure) for _ in range(count)]


# --- memory ----------------------------------------------------------------------------------------------------------


def memory_of_objects(objects: int = 10_000, size: int = 4_096) -> float:
    """Return the megabytes of a whole process with this many ConfigMaps of `size` bytes. Run in its own process."""
    server = ApiServer(now=lambda: datetime.now(UTC))
    server.create(RequestTarget(server.resource(NAMESPACE)), NAMESPACE.manifest(SPACE))
    where = RequestTarget(server.resource(CONFIG_MAP), SPACE)
    for at in range(objects):
        body = {**CONFIG_MAP.manifest(f"c-{at}", SPACE), "data": {"text": f"{at:05}" + "x" * (size - 600)}}
        server.create(where, body, WriteOptions("bench"), ADMIN)
    stored = [len(record.raw) for record in server.store.scan(where.resource.storage, SPACE)]
    assert len(stored) == objects
    assert abs(statistics.mean(stored) - size) < 400, "the objects are not of that size"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(what: str) -> float:
    """Run a measurement of this module in a new interpreter."""
    code = f"from bench.apiserver import {what}; print({what}())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return float(done.stdout)


# --- over HTTP -------------------------------------------------------------------------------------------------------


COLLECTION = f"/apis/{APPLICATION_INSTANCE.api_version}/namespaces/{SPACE}/{APPLICATION_INSTANCE.plural}"


def apply(client: Client, name: str, version: str) -> None:
    """Apply an instance."""
    path = f"{COLLECTION}/{name}?fieldManager=bench&force=true"
    client.send("PATCH", path, json.dumps(instance(name, version)).encode(), "application/apply-patch+yaml")


@attrs.frozen
class Served:
    """The command `cluster` as a process. `started` is the milliseconds from exec to its first answer."""

    url: str
    pid: int
    started: float

    def processor_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def process() -> Iterator[Served]:
    """Run the command on a core of its own while the block runs."""
    command = [sys.executable, "-m", "vworkspace_app", "cluster"]
    cores = sorted(os.sched_getaffinity(0))
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        os.sched_setaffinity(running.pid, cores[-1:])
        try:
            assert running.stdout is not None
            url = running.stdout.readline().split()[1]
            with closing(Client(url)) as client:
                client.send("GET", "/api/v1/namespaces")
            yield Served(url, running.pid, 1000 * (time.perf_counter() - began))
        finally:
            running.terminate()


def start_in_process() -> float:
    """Return the milliseconds from constructing a server to its first answer over HTTP, with loaded modules.

    Run in its own process.
    """
    began, found = time.perf_counter(), list[float]()

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def ask(url: str) -> None:
                await anyio.to_thread.run_sync(Client(url).send, "GET", "/api/v1/namespaces")
                found.append(1000 * (time.perf_counter() - began))
                group.cancel_scope.cancel()

            def tell(url: str) -> None:
                group.start_soon(ask, url)

            await serve_forever(ApiServer(now=lambda: datetime.now(UTC)), ready=tell)

    anyio.run(main)
    return found[0]


def prepared(url: str) -> Client:
    """Return a client of the command, which has our CRDs, after creating a namespace to write to."""
    client = Client(url)
    client.send("POST", "/api/v1/namespaces", json.dumps(NAMESPACE.manifest(SPACE)).encode())
    return client


def applies_over_http(
    served: Served, client: Client, objects: int, applies: int = 1_000
) -> Iterator[tuple[float, float]]:
    """Yield the rates of applies on one connection to `objects` objects: per second and per processor second."""
    for at in range(objects):
        apply(client, f"i-{at}", "0.0.1")
    round_ = 0
    while True:
        round_ += 1
        began, used = time.perf_counter(), served.processor_seconds()
        for at in range(applies):
            apply(client, f"i-{at * 7 % objects}", f"{round_}.{at // objects}.1")
        yield applies / (time.perf_counter() - began), applies / (served.processor_seconds() - used)


def watch_latencies(url: str, client: Client, writes: int = 200) -> list[float]:
    """Return the milliseconds from sending each write to reading its event on another connection, write included."""
    path = f"{COLLECTION}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    seen: list[float] = []
    opened, arrived = threading.Event(), threading.Event()

    def follow() -> None:
        for row in Client(url).stream(path):
            at, told = time.perf_counter(), json.loads(row)
            if told["type"] == "BOOKMARK":
                opened.set()
            elif opened.is_set():
                seen.append(at)
                arrived.set()

    threading.Thread(target=follow, daemon=True).start()
    assert opened.wait(10)
    sent = []
    for at in range(writes):
        arrived.clear()
        sent.append(time.perf_counter())
        apply(client, "watched", f"2.{at}.0")
        assert arrived.wait(10)
    return [1000 * (there - left) for left, there in zip(sent, seen, strict=True)]


# --- printing --------------------------------------------------------------------------------------------------------


def starting() -> None:
    whole, used = [], []
    for _ in range(5):
        with process() as served:
            whole.append(served.started)
            used.append(1000 * served.processor_seconds())
    print(line("start to first answer", [in_a_process("start_in_process") for _ in range(5)], "ms", "under 300"))
    print(line("the command, interpreter and imports included, by the clock", whole, "ms"))
    print(line("the command, interpreter and imports included", used, "ms", "under 1,000"))


def loading(folder: Path) -> None:
    crds = documents(folder)

    def load() -> float:
        began = time.perf_counter()
        EmbeddedCluster.start(crds)
        return time.perf_counter() - began

    print(line(f"create {len(crds)} CRDs of {folder.name}", [load() for _ in range(3)], "s", "seconds"))


def over_http() -> None:
    with process() as served:
        client = prepared(served.url)
        rates = several(applies_over_http(served, client, 100))
        print(line("applies over HTTP, by the clock", [rate for rate, _ in rates], "/s"))
        print(line("applies over HTTP", [rate for _, rate in rates], "/s", "1,500"))
        print(line("write sent to event read", watch_latencies(served.url, client), "ms", "5 after the write"))
    by_count("apply over HTTP", _over_http_among)


def _over_http_among(objects: int) -> list[float]:
    with process() as served:
        return [rate for _, rate in several(applies_over_http(served, prepared(served.url), objects))]


def by_count(what: str, measure: Callable[[int], list[float]]) -> None:
    """Print the cost of one write among 100, 1,000 and 10,000 objects."""
    for objects in (100, 1_000, 10_000):
        costs = [1e6 / rate for rate in measure(objects)]
        print(line(f"{what} among {objects:,} objects", costs, "microseconds", "flat"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--crds", type=Path)
    options = parser.parse_args()
    print(describe())
    starting()
    print(line("applies in process", several(applies_in_process(100)), "/s", "3,000"))
    print(line("applies in process that change nothing", several(noops_in_process()), "/s"))
    print(line("process with 10,000 objects of 4 KB", [in_a_process("memory_of_objects")], "MB", "under 200"))
    by_count("apply in process", lambda objects: several(applies_in_process(objects)))
    over_http()
    if options.crds is not None:
        loading(options.crds)


if __name__ == "__main__":
    main()

"""Growth of the operator with the number of instances: memory, restart, requests, rate.

    python -m bench.scale [--sizes 1000,5000,20000] [--simulated 1000,5000,20000,100000] [--shards 2]

Two measurements, each a table with a column a size.

`sizes`: `run` as a process over HTTP on the embedded API server (with KUBEBUILDER_ASSETS a kube-apiserver), with a Flux
that answers at once. The cluster grows from one size to the next; at each the operator is killed and started again, and
at the last one it is started as shards as well.

`simulated`: the operator alone, in a process of its own, on an API server with generated answers: every object of its
lists is a copy, under other names, of one that a simulated Flux brought to rest. Thus the API server takes no memory,
and the operator's requests can be counted for sizes that no machine at hand could hold. A write ends the measurement,
because there is nothing to write at rest.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from bench.burst import MERGE, ApiClient, client, instance, release_status, source_status
from bench.machine import describe
from bench.made_up import Made, resident_megabytes, space_of
from bench.operators import BIN, CLUSTER, Program, Stage, program, stage
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_RELEASE, OCI_REPOSITORY
from purekube.apimachinery.timestamps import format_time
from purekube.controller.shard import WHOLE, Shard
from tests.support.commands import free_port
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

PATIENCE: Final = 3600.0
FLUX_AT_ONCE: Final = 8
CREATORS: Final = 4
IN_FLIGHT: Final = 400
"""The number of instances that are created ahead of the Ready ones, so that there is growth instead of a burst."""
MARKER: Final = "scale-0"
Row: TypeAlias = tuple[str, Callable[[Any], str]]


# --- a cluster that grows --------------------------------------------------------------------------------------------


@attrs.define
class Growth:
    """A growing cluster: it creates instances in many namespaces, plays Flux for them, and sees them become Ready."""

    api: ApiClient
    ready: set[str] = attrs.field(factory=set)
    generations: dict[str, int] = attrs.field(factory=dict)
    """The highest generation for which a status of each instance was seen."""
    made: int = 0
    _releases: "asyncio.Queue[tuple[str, str, int]]" = attrs.field(factory=asyncio.Queue)
    _known: set[tuple[str, int]] = attrs.field(factory=set)

    async def follow(self, kind: Kind, seen: Callable[[dict[str, Any]], None]) -> None:
        query = {"watch": "true", "timeoutSeconds": "36000"}
        async with self.api.session.get(
            f"/apis/{kind.api_version}/{kind.plural}", params=query, timeout=None
        ) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    if event["type"] in ("ADDED", "MODIFIED"):
                        seen(event["object"])

    def release_seen(self, manifest: Mapping[str, Any]) -> None:
        meta = manifest["metadata"]
        if (key := (meta["name"], meta["generation"])) not in self._known:
            self._known.add(key)
            self._releases.put_nowait((meta["name"], manifest["spec"]["chartRef"]["name"], meta["generation"]))

    def instance_seen(self, manifest: Mapping[str, Any]) -> None:
        name, status = manifest["metadata"]["name"], manifest.get("status") or {}
        self.generations[name] = status.get("observedGeneration", 0)
        if any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in status.get("conditions") or ()
        ):
            self.ready.add(name)

    async def flux(self) -> None:
        while True:
            name, source, generation = await self._releases.get()
            now, space = format_time(datetime.now(UTC)), space_of(name)
            await self._status(OCI_REPOSITORY, space, source, source_status(1, now), "source-controller")
            told = release_status(name, generation, now)
            told["status"]["storageNamespace"] = told["status"]["history"][0]["namespace"] = space
            await self._status(HELM_RELEASE, space, name, told, "helm-controller")

    async def _status(self, kind: Kind, space: str, name: str, body: Mapping[str, Any], who: str) -> None:
        path = f"/apis/{kind.api_version}/namespaces/{space}/{kind.plural}/{name}/status"
        while await self.api.send("PATCH", path, body, media=MERGE, who=who) != 200:
            await asyncio.sleep(0.05)

    async def grow(self, size: int) -> float:
        """Create instances until there are `size`, all Ready; return the seconds."""
        began = time.perf_counter()

        async def create() -> None:
            while self.made < size:
                number, self.made = self.made, self.made + 1
                while self.made - len(self.ready) > IN_FLIGHT:
                    await asyncio.sleep(0.01)
                await self._create(f"scale-{number}")

        await asyncio.gather(*(create() for _ in range(CREATORS)))
        await self.until(lambda: len(self.ready) >= size)
        return time.perf_counter() - began

    async def _create(self, name: str) -> None:
        manifest = instance(name)
        manifest["metadata"]["namespace"] = manifest["spec"]["release"]["namespace"] = space_of(name)
        kind = APPLICATION_INSTANCE
        path = f"/apis/{kind.api_version}/namespaces/{space_of(name)}/{kind.plural}"
        await self.api.send("POST", path, manifest, who="bench")

    async def touch(self) -> int:
        """Change one instance; return its new generation."""
        kind = APPLICATION_INSTANCE
        path = f"/apis/{kind.api_version}/namespaces/{space_of(MARKER)}/{kind.plural}/{MARKER}"
        values = {"inline": {"touched": time.time()}}
        before = self.generations[MARKER]
        await self.api.send("PATCH", path, {"spec": {"values": values}}, media=MERGE, who="bench")
        return before + 1

    async def until(self, found: Callable[[], bool]) -> None:
        end = time.perf_counter() + PATIENCE
        while not found():
            assert time.perf_counter() < end, f"{len(self.ready)} of {self.made} are Ready"
            await asyncio.sleep(0.02)


@attrs.frozen
class Watched:
    """A started operator, and the address of its metrics."""

    program: Program
    url: str

    def metrics(self, name: str) -> dict[str, float]:
        """Return the samples of a metric by their labels."""
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
                rows = answer.read().decode().splitlines()
        except OSError:
            return {}
        pattern = re.compile(re.escape(name) + r"(\{(?P<labels>.*)\})? (?P<value>\S+)")
        found = (pattern.fullmatch(row) for row in rows)
        return {match["labels"] or "": float(match["value"]) for match in found if match}

    def reconciles(self) -> float:
        samples = self.metrics("controller_runtime_reconcile_total")
        return sum(value for labels, value in samples.items() if 'controller="applicationinstance"' in labels)

    def idle(self) -> bool:
        depth = self.metrics("workqueue_depth")
        return (
            bool(depth)
            and not sum(depth.values())
            and not sum(self.metrics("workqueue_unfinished_work_seconds").values())
        )

    def requests(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for labels, value in self.metrics("rest_client_requests_total").items():
            method = labels.partition('method="')[2].partition('"')[0]
            found[method] = found.get(method, 0.0) + value
        return found


@contextmanager
def operator(on: Stage, *words: str) -> Iterator[Watched]:
    port = free_port()
    command = [str(BIN / "vworkspace-operator"), "run", "--kubeconfig", str(on.folder / "kubeconfig")]
    command += ["--control-plane-url", on.control_url, "--cluster-id", CLUSTER, "--listen", f"127.0.0.1:{port}"]
    started = program(f"scale-{port}", [*command, "--token-file", str(on.folder / "token"), *words], on)
    try:
        yield Watched(started, f"http://127.0.0.1:{port}")
    finally:
        started.stop()


@attrs.frozen
class Grown:
    """The measurements at one size: megabytes, seconds, and processor time in milliseconds per instance."""

    size: int
    per_second: float
    cost: float
    server_cost: float
    empty: float
    grower: float
    resident: float
    acts: float
    looked: float
    processor: float
    server: float
    gets: float
    writes: int

    @property
    def each(self) -> float:
        """KiB of memory per instance, compared with an operator without instances."""
        return 1024 * (self.resident - self.empty) / self.size


GROWN_ROWS: Final[tuple[Row, ...]] = (
    ("instances per second, while it grew to this size", lambda one: f"{one.per_second:,.0f}"),
    ("operator's processor time for each of these", lambda one: f"{one.cost:,.1f} ms"),
    ("API server's processor time for each of these", lambda one: f"{one.server_cost:,.1f} ms"),
    ("restart: until it acts on a change", lambda one: f"{one.acts:,.1f} s"),
    ("restart: until every instance was looked at", lambda one: f"{one.looked:,.1f} s"),
    ("restart: operator's processor time", lambda one: f"{one.processor:,.1f} s"),
    ("restart: API server's processor time", lambda one: f"{one.server:,.1f} s"),
    ("restart: GET requests, lists and watches among them", lambda one: f"{one.gets:,.0f}"),
    ("restart: writes, the change apart", lambda one: f"{one.writes:,}"),
    ("memory of the operator that saw it grow", lambda one: f"{one.grower:,.0f} MB"),
    ("memory after a restart", lambda one: f"{one.resident:,.0f} MB"),
    ("the same an instance", lambda one: f"{one.each:,.1f} KiB"),
)


async def grown(on: Stage, sizes: Sequence[int], shards: int) -> None:
    async with client(on) as api, asyncio.TaskGroup() as group:
        growth = Growth(api)
        tasks = [group.create_task(growth.follow(APPLICATION_INSTANCE, growth.instance_seen))]
        tasks.append(group.create_task(growth.follow(HELM_RELEASE, growth.release_seen)))
        tasks += [group.create_task(growth.flux()) for _ in range(FLUX_AT_ONCE)]
        with operator(on) as none:
            await growth.until(lambda: none.idle())
            empty = resident_megabytes(none.program.process.pid)
        results = []
        for size in sizes:
            results.append(await _at(on, growth, size, empty))
            print(f"at {size:,}: {attrs.asdict(results[-1])}", flush=True)
        print_table([f"{result.size:,}" for result in results], GROWN_ROWS, results)
        if shards > 1:
            await _sharded(on, growth, shards)
        for task in tasks:
            task.cancel()


async def _at(on: Stage, growth: Growth, size: int, empty: float) -> Grown:
    with operator(on) as grower:
        await growth.until(grower.idle)
        before, started = len(growth.ready), (grower.program.processor_seconds(), on.server_processor_seconds())
        seconds, more = await growth.grow(size), size - before
        await asyncio.sleep(3)  # the last Events
        grower_memory = resident_megabytes(grower.program.process.pid)
        cost, server_cost = grower.program.processor_seconds() - started[0], on.server_processor_seconds() - started[1]
    server, written = on.server_processor_seconds(), on.writes(but=MARKER)
    began = time.perf_counter()
    with operator(on) as again:
        desired = await growth.touch()
        await growth.until(lambda: growth.generations[MARKER] >= desired)
        acts = time.perf_counter() - began
        await growth.until(lambda: again.reconciles() >= size and again.idle())
        looked = time.perf_counter() - began
        processor = again.program.processor_seconds()
        server = on.server_processor_seconds() - server
        await asyncio.sleep(3)
        resident = resident_megabytes(again.program.process.pid)
        gets, writes = again.requests().get("GET", 0), on.writes(but=MARKER) - written
    per = 1000 / more
    return Grown(
        size,
        more / seconds,
        cost * per,
        server_cost * per,
        empty,
        grower_memory,
        resident,
        acts,
        looked,
        processor,
        server,
        gets,
        writes,
    )


async def _sharded(on: Stage, growth: Growth, shards: int) -> None:
    """Measure all shards at once, each with its Lease."""
    began, server = time.perf_counter(), on.server_processor_seconds()
    with ExitStack() as stack:
        each = [
            stack.enter_context(operator(on, "--leader-elect", f"--shard={index}/{shards}")) for index in range(shards)
        ]
        names = list(growth.ready)
        shares = [sum(Shard(index, shards).owns(space_of(name)) for name in names) for index in range(shards)]
        done = [0.0] * shards

        def all_looked() -> bool:
            for index, one in enumerate(each):
                if not done[index] and one.reconciles() >= shares[index] and one.idle():
                    done[index] = time.perf_counter() - began
            return all(done)

        await growth.until(all_looked)
        server = on.server_processor_seconds() - server
        await asyncio.sleep(3)
        print(f"\n{shards} shards of {len(names):,}; the API server used {server:.1f} s")
        columns = [f"{index}/{shards}" for index in range(shards)]
        rows: tuple[Row, ...] = (
            ("instances", lambda at: f"{shares[at]:,}"),
            ("restart: until every one of them was looked at", lambda at: f"{done[at]:,.1f} s"),
            ("restart: processor time", lambda at: f"{each[at].program.processor_seconds():,.1f} s"),
            ("memory", lambda at: f"{resident_megabytes(each[at].program.process.pid):,.0f} MB"),
        )
        print_table(columns, rows, range(shards))


# --- a cluster that is made up ----------------------------------------------------------------------------------------


MADE_ROWS: Final[tuple[Row, ...]] = (
    ("memory", lambda one: f"{one.resident:,.0f} MB"),
    (
        "the same an instance, beside an operator of none",
        lambda one: f"{1024 * (one.resident - one.empty) / one.size:,.2f} KiB",
    ),
    ("peak memory", lambda one: f"{one.peak:,.0f} MB"),
    ("restart: processor time until the caches are whole", lambda one: f"{one.listed:,.1f} s"),
    ("restart: processor time until every instance was looked at", lambda one: f"{one.looked:,.1f} s"),
    ("processor time of a resync, every ten minutes", lambda one: f"{one.resync:,.1f} s"),
    ("processor time an instance of a restart", lambda one: f"{1000 * one.looked / one.size:,.3f} ms"),
    ("longest turn of the event loop, processor time", lambda one: f"{1000 * one.blocked:,.0f} ms"),
    ("requests of a restart", lambda one: f"{one.requests:,}"),
    ("megabytes that the API server sends", lambda one: f"{one.megabytes:,.0f}"),
)


def simulated(sizes: Sequence[int], shards: int) -> None:
    """Measure each size in a process of its own."""

    def one(size: int, shard: Shard) -> Made:
        command = [sys.executable, "-m", "bench.made_up", str(size), str(shard)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = Made(**json.loads(done.stdout.splitlines()[-1]))
        print(f"simulated {size:,}: {attrs.asdict(found)}", flush=True)
        return found

    results = [one(size, WHOLE) for size in sizes]
    columns = [f"{size:,}" for size in sizes]
    if shards > 1:
        results.append(one(sizes[-1], Shard(1, shards)))
        columns.append(f"shard 1/{shards} of {sizes[-1]:,}")
    print_table(columns, MADE_ROWS, results)


# --- printing --------------------------------------------------------------------------------------------------------


def print_table(columns: Sequence[str], rows: Sequence[Row], results: Sequence[Any]) -> None:
    print(f"\n| what | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for what, cell in rows:
        print(f"| {what} | {' | '.join(cell(result) for result in results)} |")


def sizes_of(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=sizes_of, default=[1000, 5000, 20000], help="on an API server; empty: none")
    parser.add_argument("--simulated", type=sizes_of, default=[1000, 5000, 20000, 100000], help="empty: none")
    parser.add_argument("--shards", type=int, default=2, help="at the last size also so many shards; 1: none")
    options = parser.parse_args()
    print(describe(), flush=True)
    if options.simulated:
        simulated(options.simulated, options.shards)
    if options.sizes:
        with stage("--without-flux") as on:
            asyncio.run(grown(on, options.sizes, options.shards))


if __name__ == "__main__":
    main()

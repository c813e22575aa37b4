"""A reconciler in Python, ours and kopf's, in one run: writes, processor time, reactions, a restart.

    python -m bench.reconcilers [--objects 300] [--rounds 2]

Both are processes on the embedded API server over HTTP, one after the other, each on a fresh one. The service that they
reconcile answers at once, so that only the framework takes time. Times are taken at the watch stream of the API server,
writes are counted in its audit log (Events and Leases left out), processor time and memory are read from `/proc`.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from bench.boxes import SPACE, Cluster, cluster, encoded, is_ready, operator, settled
from bench.machine import describe, line
from bench.operators import BIN, ROOT, Program
from bench.reconciled_shops import SHOP

PATH: Final = f"/apis/shops.example.com/v1/namespaces/{SPACE}/shops"
PATIENCE: Final = 600.0
MERGE: Final = "application/merge-patch+json"


@attrs.define
class Observer:
    """The times at which each shop was Ready at which generation, and when it was gone."""

    on: Cluster
    ready: dict[tuple[str, int], float] = attrs.field(factory=dict)
    gone: dict[str, float] = attrs.field(factory=dict)
    news: threading.Condition = attrs.field(factory=threading.Condition)

    def start(self) -> None:
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            for row in self.on.client.stream("/apis/shops.example.com/v1/shops?watch=true&timeoutSeconds=3600"):
                at, event = time.perf_counter(), msgspec.json.decode(row)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self._note(event["type"], event["object"], at)
        except (OSError, ValueError):
            return  # the cluster has been taken down

    def _note(self, kind: str, live: dict[str, Any], at: float) -> None:
        name, generation = live["metadata"]["name"], live["metadata"]["generation"]
        with self.news:
            if kind == "DELETED":
                self.gone[name] = at
            elif is_ready(live) and live["status"].get("observedGeneration") == generation:
                self.ready.setdefault((name, generation), at)
            self.news.notify_all()

    def wait(self, holds: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(holds, PATIENCE), "it never came about"

    def reactions(self, sent: dict[str, float], generation: int) -> list[float]:
        """Return the milliseconds from sending a request to Ready at its generation."""
        self.wait(lambda: all((name, generation) in self.ready for name in sent))
        return [1000 * (self.ready[(name, generation)] - at) for name, at in sent.items()]


@attrs.frozen
class Measured:
    """The measurements of one framework."""

    writes: float
    edit_writes: float
    delete_writes: float
    idle: list[float]
    load: list[float]
    rate: float
    processor: float
    memory: float
    restart_seconds: float
    restart_processor: float
    restart_writes: int


Start = Callable[[Cluster], AbstractContextManager[Program]]


def ours(on: Cluster) -> AbstractContextManager[Program]:
    words = ["controllers", "run", "bench.reconciled_shops:Shops", "--log-level", "info"]
    started: AbstractContextManager[Program] = operator(on, "ours", str(BIN / "vworkspace-operator"), *words)
    return started


def kopfs(on: Cluster) -> AbstractContextManager[Program]:
    words = ["run", "--standalone", "--all-namespaces", "--quiet", str(ROOT / "bench" / "kopf_shops.py")]
    started: AbstractContextManager[Program] = operator(on, "kopf", str(BIN / "kopf"), *words)
    return started


def measure(start: Start, objects: int) -> Measured:
    """Measure one framework: one object at a time, many at once, edits, deletions, and a restart with nothing to do."""
    with served() as on:
        observer, client = Observer(on), on.client
        observer.start()
        with start(on) as program:
            observer.reactions(_create(on, ["first"]), 1)
            before, names = settled(on), [f"idle-{at}" for at in range(20)]
            idle = [reaction for name in names for reaction in observer.reactions(_create(on, [name]), 1)]
            writes = (settled(on) - before) / len(names)
            before = settled(on)
            for name in names:
                observer.reactions(_edit(on, [name]), 2)
            edits = (settled(on) - before) / len(names)
            used, began, many = (
                program.processor_seconds(),
                time.perf_counter(),
                [f"load-{at}" for at in range(objects)],
            )
            load = observer.reactions(_create(on, many), 1)
            rate = objects / (max(observer.ready[(name, 1)] for name in many) - began)
            settled(on)
            processor, memory = (program.processor_seconds() - used) / objects, program.peak_megabytes()
            before = settled(on)
            for name in names:
                client.send("DELETE", f"{PATH}/{name}")
            observer.wait(lambda: set(names) <= observer.gone.keys())
            deletions = (settled(on) - before) / len(names)
        before, began = settled(on), time.perf_counter()
        with start(on) as program:
            observer.reactions(_create(on, ["last"]), 1)
            took = time.perf_counter() - began
            after = settled(on) - before
            return Measured(
                writes,
                edits,
                deletions,
                idle,
                load,
                rate,
                1000 * processor,
                memory,
                took,
                program.processor_seconds(),
                after - round(writes),
            )


@contextmanager
def served() -> Iterator[Cluster]:
    """Run a new API server with the kind."""
    with tempfile.TemporaryDirectory(prefix="vworkspace-bench-crd-") as folder:
        file = Path(folder) / "shops.json"
        file.write_text(json.dumps(SHOP.crd()), encoding="utf-8")
        with cluster(file) as on:
            yield on


def _create(on: Cluster, names: Sequence[str]) -> dict[str, float]:
    sent, client = {}, on.client
    for name in names:
        sent[name] = time.perf_counter()
        client.send("POST", PATH, encoded({**SHOP.kind.manifest(name, SPACE), "spec": {"title": name}}))
    return sent


def _edit(on: Cluster, names: Sequence[str]) -> dict[str, float]:
    sent, client = {}, on.client
    for name in names:
        sent[name] = time.perf_counter()
        client.send("PATCH", f"{PATH}/{name}", encoded({"spec": {"shelves": 5}}), MERGE)
    return sent


def tell(name: str, objects: int, rounds: Sequence[Measured]) -> None:
    def each(of: Callable[[Measured], float]) -> list[float]:
        return [of(one) for one in rounds]

    def quantile(values: Sequence[float], share: float) -> float:
        return sorted(values)[min(len(values) - 1, int(share * len(values)))]

    first = rounds[0]
    told = f"{first.writes:.1f} writes from creation to Ready, {first.edit_writes:.1f} for an edit"
    print(f"{name}: {told}, {first.delete_writes:.1f} for a deletion")
    print(line(f"{name}: creation to Ready, idle, median", each(lambda one: statistics.median(one.idle)), "ms"))
    print(line(f"{name}: {objects} at once, median", each(lambda one: statistics.median(one.load)), "ms"))
    print(line(f"{name}: {objects} at once, 99th percentile", each(lambda one: quantile(one.load, 0.99)), "ms"))
    print(line(f"{name}: {objects} at once", each(lambda one: one.rate), "objects a second"))
    print(line(f"{name}: processor time an object", each(lambda one: one.processor), "ms"))
    print(line(f"{name}: memory at most", each(lambda one: one.memory), "MB"))
    print(line(f"{name}: a restart, to the first new object Ready", each(lambda one: one.restart_seconds), "s"))
    print(line(f"{name}: processor time of it, all objects looked at", each(lambda one: one.restart_processor), "s"))
    print(f"{name}: writes of the restart: {', '.join(str(one.restart_writes) for one in rounds)}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--objects", type=int, default=300)
    arguments.add_argument("--rounds", type=int, default=2)
    given = arguments.parse_args()
    print(describe())
    found: dict[str, list[Measured]] = {"ours": [], "kopf": []}
    for _ in range(given.rounds):
        for name, start in (("ours", ours), ("kopf", kopfs)):
            found[name].append(measure(start, given.objects))
    for name, rounds in found.items():
        tell(name, given.objects, rounds)


if __name__ == "__main__":
    main()

"""This operator and a kopf implementation of the same path, on the same cluster, one after the other.

    python -m bench.side_by_side [--instances 500] [--pace 0] [--settled 5000]

Each starts on a fresh API server with a quick simulated Flux (`bench.stage`), all over HTTP: the embedded one, or with
KUBEBUILDER_ASSETS a kube-apiserver. Everything is measured from outside: the watch streams of the API server for times,
`/proc` for processor time and memory, the audit log for writes. The server, Flux, the operator and the observer share
the machine, so the rates compare the two operators and say little about a cluster of your own.
"""

import argparse
import json
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from bench.machine import describe, line
from bench.operators import CLUSTER, Stage, Start, kopfs, ours, stage, started
from bench.reaching import Access, Client
from bench.stage import SPACES
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_RELEASE
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

PATIENCE = 900.0
TOUCHED = "idle-0"


def space_of(name: str) -> str:
    """Return an instance's namespace: its number spreads instances evenly."""
    return SPACES[int(name.rpartition("-")[2]) % len(SPACES)]


def instance(name: str, version: str) -> bytes:
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
    spec = {
        "appRef": {"catalogId": "nextcloud"},
        "chart": {"sourceType": "oci", "url": "oci://charts.example.com/apps", "name": "nextcloud", "version": version},
        "release": {"name": name, "namespace": space_of(name)},
        "values": {"source": "inline", "inline": {"replicas": 2, "size": "small"}},
    }
    manifest = APPLICATION_INSTANCE.manifest(name, space_of(name))
    return json.dumps({**manifest, "metadata": {**manifest["metadata"], "labels": labels}, "spec": spec}).encode()


# --- seeing ----------------------------------------------------------------------------------------------------------


def is_ready(manifest: Mapping[str, Any]) -> bool:
    """Report whether an object is Ready at its current generation.

    Flux writes the condition first, and observedGeneration last.
    """
    status = manifest.get("status") or {}
    current = status.get("observedGeneration", 0) == manifest["metadata"]["generation"]
    return current and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions") or ()
    )


@attrs.define
class Observer:
    """The time at which each object of a kind was first seen Ready, on this process's monotonic clock.

    `generations` has the time at which a Ready condition of any status was first seen for a generation, as
    `name@generation`.
    """

    access: Access
    kind: Kind
    ready: dict[str, float] = attrs.field(factory=dict)
    generations: dict[str, float] = attrs.field(factory=dict)
    news: threading.Condition = attrs.field(factory=threading.Condition)

    def follow(self) -> None:
        """Start reading the watch in a thread that ends with the process."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Watch from the beginning, repeatedly: a stream that ends, or is silent for long, is opened again."""
        path = f"/apis/{self.kind.api_version}/{self.kind.plural}?watch=true&timeoutSeconds=3600"
        while True:
            try:
                for row in Client(self.access).stream(path):
                    at = time.perf_counter()
                    self._note(msgspec.json.decode(row)["object"], at)
            except ConnectionRefusedError:
                return  # the stage has been taken down
            except OSError:
                pass

    def _note(self, manifest: dict[str, Any], at: float) -> None:
        name = manifest["metadata"]["name"]
        with self.news:
            if is_ready(manifest):
                self.ready.setdefault(name, at)
            for condition in (manifest.get("status") or {}).get("conditions") or ():
                if condition["type"] == "Ready":
                    self.generations.setdefault(f"{name}@{condition.get('observedGeneration', 0)}", at)
            self.news.notify_all()

    def wait(self, names: Sequence[str]) -> None:
        """Wait until each instance was seen Ready."""
        with self.news:
            done = self.news.wait_for(lambda: all(name in self.ready for name in names), PATIENCE)
        missing = [name for name in names if name not in self.ready]
        assert done, f"{len(missing)} of {len(names)} never became Ready, {missing[0]} among them"


# --- measuring -------------------------------------------------------------------------------------------------------


@attrs.define
class Measured:
    """The measurements of one operator."""

    idle: list[float]
    loaded: list[float]
    per_second: float
    processor_per_thousand: float
    peak: float
    restart_seconds: float = 0.0
    restart_writes: int = 0
    settled_peak: float = 0.0


def measure(start: Start, instances: int, settled: int, alone: int, pace: float) -> Measured:
    with stage() as on:
        seen, releases = Observer(on.access, APPLICATION_INSTANCE), Observer(on.access, HELM_RELEASE)
        seen.follow()
        releases.follow()
        client = Client(on.access)
        with started(start, on) as program:
            idle = _one_by_one(client, seen, releases, alone)
            before = program.processor_seconds()
            names = [f"load-{at}" for at in range(instances)]
            rate = _all_at_once(client, seen, names, pace)
            releases.wait(names)
            used = program.processor_seconds() - before
            loaded = _reactions(seen, releases, names)
            found = Measured(idle, loaded, rate, 1000 * used / instances, program.peak_megabytes())
            if settled:
                _all_at_once(client, seen, [f"rest-{at}" for at in range(settled - instances - alone)])
                time.sleep(3)  # the last Events and statuses
        if settled:
            _restart(on, Client(on.access), seen, start, found)
        return found


def _apply(client: Client, name: str, version: str) -> None:
    kind = APPLICATION_INSTANCE
    path = f"/apis/{kind.api_version}/namespaces/{space_of(name)}/{kind.plural}/{name}?fieldManager=odoo&force=true"
    client.send("PATCH", path, instance(name, version), "application/apply-patch+yaml")


def _one_by_one(client: Client, seen: Observer, releases: Observer, count: int) -> list[float]:
    names = [f"idle-{at}" for at in range(count)]
    for name in names:
        _apply(client, name, "1.0.0")
        seen.wait([name])
        releases.wait([name])
    return _reactions(seen, releases, names)[5:]


def _all_at_once(client: Client, seen: Observer, names: Sequence[str], pace: float = 0.0) -> float:
    """Return the instances per second, from the first create to the last Ready, creating at most `pace` per second."""
    began = time.perf_counter()
    for at, name in enumerate(names):
        if pace:
            time.sleep(max(0.0, began + at / pace - time.perf_counter()))
        _apply(client, name, "1.0.0")
    seen.wait(names)
    return len(names) / (max(seen.ready[name] for name in names) - began)


def _reactions(seen: Observer, releases: Observer, names: Sequence[str]) -> list[float]:
    """Return the milliseconds from a HelmRelease seen Ready to its instance seen Ready."""
    return [1000 * (seen.ready[name] - releases.ready[name]) for name in names]


def _restart(on: Stage, client: Client, seen: Observer, start: Start, found: Measured) -> None:
    """Start the operator again, and make a change at once: when it is handled, everything else has been read."""
    before, began = on.writes(but=TOUCHED), time.perf_counter()
    with started(start, on) as program:
        _apply(client, TOUCHED, "1.0.1")
        desired = f"{TOUCHED}@2"
        with seen.news:
            assert seen.news.wait_for(lambda: desired in seen.generations, PATIENCE), "the restart was never over"
        found.restart_seconds = seen.generations[desired] - began
        time.sleep(3)
        found.restart_writes = on.writes(but=TOUCHED) - before
        found.settled_peak = program.peak_megabytes()


def quantile(samples: Sequence[float], share: float) -> float:
    return statistics.quantiles(samples, n=100)[round(share * 100) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--settled", type=int, default=5000)
    parser.add_argument("--alone", type=int, default=30, help="how many are made one after the other, first of all")
    parser.add_argument("--pace", type=float, default=0.0, help="how many a second then; 0: as fast as can be")
    parser.add_argument("--only", choices=["ours", "kopf"])
    options = parser.parse_args()
    print(describe())
    for name, start in (("ours", ours), ("kopf", kopfs)):
        if options.only not in (None, name):
            continue
        found = measure(start, options.instances, options.settled, options.alone, options.pace)
        print(line(f"{name}: instances per second, creation to Ready", [found.per_second], "/s"))
        print(line(f"{name}: processor seconds per 1,000 instances", [found.processor_per_thousand], "s"))
        print(line(f"{name}: peak memory with {options.instances} instances", [found.peak], "MB"))
        print(line(f"{name}: reaction when idle", found.idle, "ms"))
        print(line(f"{name}: reaction under load", found.loaded, "ms"))
        print(line(f"{name}: reaction under load, 99th percentile", [quantile(found.loaded, 0.99)], "ms"))
        if options.settled:
            print(line(f"{name}: restart with {options.settled} settled, to acting", [found.restart_seconds], "s"))
            print(line(f"{name}: writes by that restart", [found.restart_writes], "writes"))
            print(line(f"{name}: peak memory after it", [found.settled_peak], "MB"))


if __name__ == "__main__":
    main()

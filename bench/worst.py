"""The worst objects that an API server takes, through a running operator whose probes are asked all the while (RUN-11).

    python -m bench.worst [--stall 0.25] [--growth 64] [--only TEXT]

Each object of the corpus (`tests/support/worst.py`) is written into a cluster that the operator watches, gated and
labelled as its own, and taken away again; so are the statuses, as Flux would say them. `/healthz` is asked every 100 ms
and must answer within `--stall` seconds, memory may grow by `--growth` MiB for an object. Seconds depend on the
machine, so this is a measurement and no test; that the work has bounds is tested in steps (`test_bounds.py`).
"""

import argparse
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from bench.machine import describe
from bench.operators import BIN, CLUSTER, Program, Stage, program, stage, started
from bench.reaching import Client
from bench.side_by_side import PATIENCE, instance
from bench.stage import SPACES
from tests.support.worst import INSTANCES, OPERATIONS, STATUSES, Grower
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, HELM_RELEASE, OPERATION

SPACE = SPACES[0]
EVERY = 0.1
SETTLES = 0.5
"""Seconds without a busy moment after which the operator is taken to have dealt with an object."""


@attrs.define
class Probe:
    """Asks `/healthz` every 100 ms on a thread of its own, and keeps the longest that it waited."""

    url: str
    longest: float = 0.0
    refused: int = 0
    _over: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        while not self._over.wait(EVERY):
            began = time.perf_counter()
            status = self._ask()
            self.longest = max(self.longest, time.perf_counter() - began)
            self.refused += status != 200

    def _ask(self) -> int:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def stop(self) -> None:
        self._over.set()


@contextmanager
def probing(url: str) -> Iterator[Probe]:
    probe = Probe(url)
    thread = threading.Thread(target=probe.run)
    thread.start()
    try:
        yield probe
    finally:
        probe.stop()
        thread.join()


@attrs.frozen
class Row:
    """What one object did."""

    name: str
    stall: float
    growth: float
    refused: int
    taken: bool


def operator(on: Stage) -> Program:
    words = ["run", "--kubeconfig", str(on.folder / "kubeconfig"), "--control-plane-url", on.control_url]
    words += ["--cluster-id", CLUSTER, "--token-file", str(on.folder / "token"), "--listen", "127.0.0.1:0"]
    return program("ours", [str(BIN / "vworkspace-operator"), *words], on)


def probes_of(on: Stage) -> str:
    """Where the operator says that it serves probes."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        for row in (on.folder / "ours.log").read_text(encoding="utf-8").splitlines():
            if row.startswith("{") and "serving metrics and probes" in row:
                return str(json.loads(row)["url"])
        time.sleep(0.1)
    raise TimeoutError("the operator serves no probes")


def resident(program: Program) -> float:
    rows = Path(f"/proc/{program.process.pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(row for row in rows if row.startswith("VmRSS")).split()[1]) / 1024


def settle(program: Program) -> None:
    """Until the operator has used next to no processor time for a while."""
    limit = time.monotonic() + PATIENCE
    before = program.processor_seconds()
    while time.monotonic() < limit:
        time.sleep(SETTLES)
        if (now := program.processor_seconds()) - before < SETTLES / 5:
            return
        before = now


def path_of(kind: Kind, name: str = "", *, status: bool = False) -> str:
    parts = ["/apis", kind.api_version, "namespaces", SPACE, kind.plural, *([name] if name else [])]
    return "/".join(parts) + ("/status" if status else "")


def written(client: Client, kind: Kind, grower: Grower, number: int) -> Callable[[], None] | None:
    """Create the object; how to take it away again, or None where the API server refuses it."""
    name = f"worst-{number}"
    body: dict[str, Any] = grower.make(grower.full)
    meta = {key: body["metadata"][key] for key in ("labels", "annotations") if key in body["metadata"]}
    labels = {**(meta.get("labels") or {}), "app.vworkspace.io/cluster-id": CLUSTER}
    body = {**body, "metadata": {**meta, "labels": labels, "name": name, "namespace": SPACE}}
    try:
        client.send("POST", f"{path_of(kind)}?fieldValidation=Ignore", json.dumps(body).encode())
    except AssertionError:
        return None
    return lambda: _remove(client, kind, name)


def _remove(client: Client, kind: Kind, name: str) -> None:
    patch = json.dumps({"metadata": {"finalizers": None}}).encode()
    client.send("DELETE", path_of(kind, name))
    try:
        client.send("PATCH", path_of(kind, name), patch, "application/merge-patch+json")
    except AssertionError:
        return  # it has gone by itself


def said(client: Client, grower: Grower, name: str) -> Callable[[], None] | None:
    """Flux says this of a release."""
    body = json.dumps({"status": grower.make(grower.full)}).encode()
    try:
        client.send("PATCH", path_of(HELM_RELEASE, name, status=True), body, "application/merge-patch+json")
    except AssertionError:
        return None
    return lambda: None


def measured(program: Program, probe: Probe, name: str, act: Callable[[], Callable[[], None] | None]) -> Row:
    settle(program)
    probe.longest, probe.refused, before = 0.0, 0, resident(program)
    undo = act()
    settle(program)
    row = Row(name, probe.longest, resident(program) - before, probe.refused, undo is not None)
    if undo is not None:
        undo()
    return row


def measure(only: str) -> list[Row]:
    """Every object of the corpus whose name holds `only`."""
    found: list[Row] = []
    with stage() as on, started(operator, on) as program:
        client, release = Client(on.access), "steady-0"
        with probing(probes_of(on)) as probe:
            body = instance(release, "1.0.0")
            client.send("POST", path_of(APPLICATION_INSTANCE), body)
            objects = [(APPLICATION_INSTANCE, one) for one in INSTANCES] + [(OPERATION, one) for one in OPERATIONS]
            acts = [
                (one.name, partial(written, client, kind, one, number)) for number, (kind, one) in enumerate(objects)
            ]
            acts += [(one.name, partial(said, client, one, release)) for one in STATUSES]
            found += [measured(program, probe, name, act) for name, act in acts if only in name]
        if program.process.poll() is not None:
            raise SystemExit(f"the operator ended with status {program.process.returncode}")
    return found


def report(rows: Sequence[Row], stall: float, growth: float) -> list[str]:
    """Print a line for each, the worst first, and return what is beyond the limits."""
    print(describe())
    for row in sorted(rows, key=lambda row: -row.stall):
        told = "" if row.taken else " (the API server takes it not)"
        print(f"{row.stall * 1000:8.0f} ms {row.growth:8.1f} MiB  {row.name}{told}")
    beyond = [f"{row.name}: /healthz answered after {row.stall:.2f} s" for row in rows if row.stall > stall]
    beyond += [f"{row.name}: memory grew by {row.growth:.0f} MiB" for row in rows if row.growth > growth]
    return beyond + [f"{row.name}: /healthz was not well" for row in rows if row.refused]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stall", type=float, default=0.25, help="seconds that a probe may take")
    parser.add_argument("--growth", type=float, default=64.0, help="MiB that memory may grow by for an object")
    parser.add_argument("--only", default="", help="objects whose name holds this text")
    options = parser.parse_args()
    problems = report(measure(options.only), options.stall, options.growth)
    for problem in problems:
        print(f"not as it should be: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

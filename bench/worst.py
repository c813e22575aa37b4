"""The worst objects that an API server accepts, sent through a running operator, and its probes' answers (RUN-11).

    python -m bench.worst [--stall 0.25] [--growth 64] [--answer 1.0] [--memory 256] [--only TEXT] …

Each object of the corpus (`tests/support/worst.py`) is written into a cluster that the operator watches, gated and
labelled as its own, and removed again; so are the statuses, as Flux and engines would write them. At last a storm of
admission reviews of the worst objects is sent over several connections at once. Every 100 ms there is a request to
`/healthz`, and one to the webhook port, where the event loop itself answers: both must be answered within `--stall`
seconds, and memory may grow by `--growth` MiB per object. Seconds depend on the machine and on its load, so this is a
measurement and no test; that the work is bounded is tested in steps (`test_bounds.py`). The longest turn of the event
loop is measured in processor time, which other load does not stretch (`bench.turns`).

A thousand hostile connections then hold each port at each stage (`bench.hostile`), once from one address and once from
two hundred, together with honest probes and reviews: each of these must be answered within `--answer` seconds. At last
one tenant makes 500 instances with values of half a megabyte each (`bench.large`), and the operator is started again
while they exist: it may never have more than `--memory` MiB resident. `--only hostile` and `--only large` measure these
alone.

With its option for kopf (see `--help`) the same instances and statuses then go through the kopf implementation of the
same path (`kopf_operator.py`) on a cluster of its own. Its event loop answers its liveness probe, so both columns
measure that. It has no Operations, engines and reviews. Its results do not count for the limits.
"""

import argparse
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import attrs

from bench import large
from bench.machine import describe
from bench.operators import BIN, CLUSTER, KOPF_OPERATOR, Program, Stage, program, stage, started
from bench.reaching import Client
from bench.side_by_side import PATIENCE, instance, is_ready
from bench.stage import SPACES
from bench.turns import LongestTurn
from kubelab.downstream.crds import downstream_crds
from kubelab.http.authority import certificates_for
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    HELM_RELEASE,
    NAMESPACE,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT_CLASS,
)
from tests.support.operation_worlds import operation_manifest, template
from tests.support.worst import ENGINES, INSTANCES, OPERATIONS, STATUSES, EngineGrower, Grower
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_core.webhook.admission import GATED_PATH

HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[1]
SPACE = SPACES[0]
RELEASE = "steady-0"
TURN = "turn"
LARGE = "large"
STORM = 8
"""The number of connections at one time."""
JSON, MERGE = "application/json", "application/merge-patch+json"
STARTED = frozenset(
    engine.name for engine in ENGINES if not template(engine.of).needs_approval and engine.of != "restore.snapshot"
)
"""The growers of engines whose Operations start without approval here."""
EVERY = 0.1
SETTLES = 0.5
"""The seconds without a busy moment after which the operator is taken to have handled an object."""


@attrs.define
class Probe:
    """A thread that sends a request every 100 ms, and records the longest wait."""

    url: str
    path: str = "/healthz"
    trust: ssl.SSLContext | None = None
    body: bytes = b""
    """The body to post; a probe without one sends a GET."""
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
        connection = connected(self.url, self.trust)
        try:
            if self.body:
                connection.request("POST", self.path, self.body, {"content-type": JSON})
            else:
                connection.request("GET", self.path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def stop(self) -> None:
        self._over.set()


def connected(url: str, trust: ssl.SSLContext | None) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if trust is None:
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=PATIENCE, context=trust)


@attrs.frozen
class Probes:
    """A probe of `/healthz`, and one of the event loop, on which the webhook port judges an honest review.

    `turn` is the loop's own clock.
    """

    health: Probe
    loop: Probe
    turn: LongestTurn

    def reset(self) -> None:
        self.turn.reset()
        for probe in (self.health, self.loop):
            probe.longest, probe.refused = 0.0, 0


@contextmanager
def probing(health: Probe, loop: Probe, turn: LongestTurn) -> Iterator[Probes]:
    probes = Probes(health, loop, turn)
    threads = [threading.Thread(target=probe.run) for probe in (probes.health, probes.loop)]
    for thread in threads:
        thread.start()
    try:
        yield probes
    finally:
        for probe in (probes.health, probes.loop):
            probe.stop()
        for thread in threads:
            thread.join()


@attrs.frozen
class Row:
    """The measurements of one object. `turn` is processor time, `stall` and `loop` are by the clock."""

    name: str
    stall: float
    loop: float
    turn: float
    growth: float
    refused: int
    taken: bool = True
    is_crowd: bool = False


def operator(on: Stage) -> Program:
    words = ["run", "--kubeconfig", str(on.folder / "kubeconfig"), "--control-plane-url", on.control_url]
    words += ["--cluster-id", CLUSTER, "--token-file", str(on.folder / "token"), "--listen", "127.0.0.1:0"]
    words += ["--webhook-listen", "127.0.0.1:0", "--webhook-certificates", str(on.folder / "tls")]
    return program("ours", timed(on, "vworkspace-operator", *words), on)


def kopf_operator(on: Stage, liveness: str) -> Program:
    words = ["run", "--standalone", "--all-namespaces", f"--liveness={liveness}", str(KOPF_OPERATOR)]
    return program("kopf", timed(on, "kopf", *words), on)


def timed(on: Stage, script: str, *words: str) -> list[str]:
    """Return the command that runs a console script with a clock in its event loop."""
    return [sys.executable, "-m", "bench.turns", str(on.folder / TURN), str(BIN / script), *words]


def served_at(on: Stage, told: str) -> str:
    """Return the URL in the operator's log line with this message."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        for row in (on.folder / "ours.log").read_text(encoding="utf-8").splitlines():
            if row.startswith("{") and told in row:
                return str(json.loads(row)["url"])
        time.sleep(0.1)
    raise TimeoutError(f"the operator's log does not say: {told}")


def resident(program: Program) -> float:
    rows = Path(f"/proc/{program.process.pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(row for row in rows if row.startswith("VmRSS")).split()[1]) / 1024


def settle(program: Program) -> None:
    """Wait until the operator has used almost no processor time for a while."""
    limit = time.monotonic() + PATIENCE
    before = program.processor_seconds()
    while time.monotonic() < limit:
        time.sleep(SETTLES)
        if (now := program.processor_seconds()) - before < SETTLES / 5:
            return
        before = now


def path_of(kind: Kind, name: str = "", *, status: bool = False, space: str | None = SPACE) -> str:
    root = "/apis" if kind.group else "/api"
    parts = [root, kind.api_version, "namespaces", space or SPACE, kind.plural, *([name] if name else [])]
    return "/".join(parts) + ("/status" if status else "")


def written(client: Client, kind: Kind, grower: Grower, number: int) -> Callable[[], None] | None:
    """Create the object; return how to remove it again, or None if the API server refuses it."""
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
        return  # it has been removed already


def said(client: Client, grower: Grower, name: str) -> Callable[[], None] | None:
    """Write this status of a release as Flux."""
    body = json.dumps({"status": grower.make(grower.full)}).encode()
    try:
        client.send("PATCH", path_of(HELM_RELEASE, name, status=True), body, "application/merge-patch+json")
    except AssertionError:
        return None
    return lambda: None


def run_of(client: Client, grower: EngineGrower, number: int) -> ObjectRef:
    """Run an Operation; return the object that its engine works on."""
    prepared(client, grower.of)
    name = f"run-{number}"
    body = operation_manifest(grower.of)
    labels = {**body["metadata"]["labels"], "app.vworkspace.io/cluster-id": CLUSTER}
    body["metadata"] = {"name": name, "namespace": SPACE, "labels": labels}
    body["spec"] = {**body["spec"], "targetRef": {**body["spec"]["targetRef"], "name": RELEASE}}
    client.send("POST", path_of(OPERATION), json.dumps(body).encode())
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        status = json.loads(client.send("GET", path_of(OPERATION, name))).get("status") or {}
        if (made := status.get("engineRef") or {}).get("uid"):
            kind = next(kind for kind in engine_kinds() if kind.kind == made["kind"])
            return ObjectRef(kind, made["namespace"], made["name"])
        time.sleep(0.05)
    raise TimeoutError(f"{name} ({grower.of}) never ran: {status}")


def engine_said(client: Client, grower: EngineGrower, number: int) -> Callable[[], None] | None:
    """Write this status of an engine's object as the engine; Velero has no subresource for that."""
    ref = run_of(client, grower, number)
    part = "" if ref.kind.group == VELERO_BACKUP.group else "/status"
    path = f"{path_of(ref.kind, ref.name, space=ref.namespace)}{part}"
    undo = partial(_remove, client, OPERATION, f"run-{number}")
    try:
        client.send("PATCH", path, json.dumps({"status": grower.make(grower.full)}).encode(), MERGE)
    except AssertionError:
        undo()
        return None
    return undo


def storm(url: str, authority: str) -> Callable[[], None] | None:
    """Run the storm in a process of its own, so that the probes do not wait for its threads."""
    code = "import sys; from bench.worst import storm_of; storm_of(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, url, authority], check=True, cwd=ROOT)
    return lambda: None


def storm_of(url: str, authority: str) -> None:
    """Send reviews of the worst objects over several connections at once: updates with and without a new spec."""
    trust = ssl.create_default_context(cadata=authority)
    objects = [one.make(one.full) for one in INSTANCES]
    bodies = [review(obj, before) for obj in objects for before in (obj, {**obj, "spec": {"suspend": True}})]

    def ask(number: int) -> None:
        for at in range(len(bodies)):
            connection = connected(url, trust)
            with suppress(OSError, http.client.HTTPException):  # reviews beyond the limit are refused
                connection.request("POST", GATED_PATH, bodies[(at + number) % len(bodies)], {"content-type": JSON})
                connection.getresponse().read()
            connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(STORM)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def crowd(url: str, authority: str, stage: str, addresses: int) -> Callable[[], None] | None:
    """Hold a thousand hostile connections for a while, in a process of its own."""
    words = [url, stage, str(CROWD_SECONDS), str(CROWD), str(addresses), *([authority] if authority else [])]
    subprocess.run([sys.executable, "-m", "bench.hostile", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return lambda: None


def review(manifest: Any, before: Any) -> bytes:
    request = {"uid": "u", "operation": "UPDATE", "namespace": SPACE, "name": "n", "object": manifest}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**body, "request": {**request, "oldObject": before}}).encode()


HONEST = review(json.loads(instance(RELEASE, "1.0.0")), None)
CROWD, CROWD_SECONDS = 1_000, 6.0
CROWDS: dict[str, tuple[str, str, int]] = {
    f"hostile: {CROWD:,} at {port}, {stage}, {addresses} address{'es' * (addresses > 1)}": (port, stage, addresses)
    for port, stages in (
        ("probes", ("TCP", "half a head", "half a body", "an unread answer")),
        ("webhooks", ("TCP", "TLS", "half a head", "half a body", "a slow review")),
    )
    for stage in stages
    for addresses in (1, 200)
}


def measured(program: Program, probes: Probes, name: str, act: Callable[[], Callable[[], None] | None]) -> Row:
    settle(program)
    probes.reset()
    before = resident(program)
    undo = act()
    settle(program)
    health, loop, growth = probes.health, probes.loop, resident(program) - before
    refused = health.refused + loop.refused
    row = Row(
        name, health.longest, loop.longest, probes.turn.seconds, growth, refused, undo is not None, name in CROWDS
    )
    if undo is not None:
        undo()
    return row


def engines(client: Client) -> None:
    """Install the engines' CRDs, and the namespace in which Velero works."""
    for definition in downstream_crds():
        client.send(
            "POST",
            f"/apis/{CUSTOM_RESOURCE_DEFINITION.api_version}/customresourcedefinitions",
            json.dumps(definition).encode(),
        )
    velero = {**NAMESPACE.manifest("velero"), "metadata": {"name": "velero"}}
    client.send("POST", "/api/v1/namespaces", json.dumps(velero).encode())
    snapshots = {**VOLUME_SNAPSHOT_CLASS.manifest("csi"), "driver": "csi.example.com", "deletionPolicy": "Retain"}
    limit = time.monotonic() + PATIENCE
    while True:  # a CRD is served a moment after it is created
        try:
            path = f"/apis/{VOLUME_SNAPSHOT_CLASS.api_version}/{VOLUME_SNAPSHOT_CLASS.plural}"
            client.send("POST", path, json.dumps(snapshots).encode())
            return
        except AssertionError:
            assert time.monotonic() < limit, "the definitions of engines are not served"
            time.sleep(0.2)


def target(client: Client) -> None:
    """Create an application, prepared for every engine, and wait until it is Ready."""
    client.send("POST", path_of(APPLICATION_INSTANCE), instance(RELEASE, "1.0.0"))
    limit = time.monotonic() + PATIENCE
    while not is_ready(json.loads(client.send("GET", path_of(APPLICATION_INSTANCE, RELEASE)))):
        assert time.monotonic() < limit, "the target never became Ready"
        time.sleep(0.1)


def prepared(client: Client, of: str) -> None:
    """Mark the target as prepared for the engine of that template."""
    one = template(of)
    mark = {"metadata": {"annotations": {f"ops.vworkspace.io/{one.capability}": one.engine}}}
    client.send("PATCH", path_of(APPLICATION_INSTANCE, RELEASE), json.dumps(mark).encode(), MERGE)


Act: TypeAlias = Callable[[], Callable[[], None] | None]
"""A change of the cluster. It returns how to undo it, or None if the API server refused it."""
Acts: TypeAlias = list[tuple[str, Act]]


def rows(program: Program, probes: Probes, acts: Acts) -> list[Row]:
    found = [measured(program, probes, name, act) for name, act in acts]
    if program.process.poll() is not None:
        raise SystemExit(f"the operator ended with status {program.process.returncode}")
    return found


def statuses(client: Client) -> Acts:
    return [(status.name, partial(said, client, status, RELEASE)) for status in STATUSES]


def measure(only: str) -> list[Row]:
    """Measure every object of the corpus whose name contains `only`."""
    with stage() as on:
        client, made = Client(on.access), certificates_for((HOST,), datetime.now(UTC))
        turn = LongestTurn.new(on.folder / TURN)
        engines(client)
        (on.folder / "tls").mkdir()
        (on.folder / "tls" / "tls.crt").write_bytes(made.certificate)
        (on.folder / "tls" / "tls.key").write_bytes(made.key)
        trust = ssl.create_default_context(cadata=made.authority.decode())
        with (
            started(operator, on) as program,
            probing(
                Probe(metrics := served_at(on, "serving metrics and probes")),
                Probe(webhooks := served_at(on, "webhooks are served"), GATED_PATH, trust, HONEST),
                turn,
            ) as probes,
        ):
            target(client)
            objects = [(APPLICATION_INSTANCE, one) for one in INSTANCES] + [
                (OPERATION, operation) for operation in OPERATIONS
            ]
            acts: Acts = [
                (one.name, partial(written, client, kind, one, number)) for number, (kind, one) in enumerate(objects)
            ]
            acts += statuses(client)
            runs = [engine for engine in ENGINES if engine.name in STARTED and not engine.beside(1, "")]
            acts += [(engine.name, partial(engine_said, client, engine, number)) for number, engine in enumerate(runs)]
            acts.append(("a storm of reviews", partial(storm, webhooks, made.authority.decode())))
            ports = {"probes": (metrics, ""), "webhooks": (webhooks, made.authority.decode())}
            acts += [(name, partial(crowd, *ports[port], at, count)) for name, (port, at, count) in CROWDS.items()]
            return rows(program, probes, [act for act in acts if only in act[0]])


def measure_kopf(only: str) -> list[Row]:
    """Measure what of the corpus concerns a kopf operator: instances, and Flux's statuses of their releases."""
    with stage() as on, socket.socket() as free:
        free.bind((HOST, 0))
        url, client = f"http://{HOST}:{free.getsockname()[1]}", Client(on.access)
        free.close()
        turn = LongestTurn.new(on.folder / TURN)
        with started(partial(kopf_operator, liveness=f"{url}/healthz"), on) as program:
            target(client)
            with probing(Probe(url), Probe(url), turn) as probes:
                acts: Acts = [
                    (one.name, partial(written, client, APPLICATION_INSTANCE, one, number))
                    for number, one in enumerate(INSTANCES)
                ]
                return rows(program, probes, [act for act in acts + statuses(client) if only in act[0]])


def measure_large() -> list[large.Peak]:
    """Measure large instances of one tenant: while they are made, and at the start of an operator that finds them."""
    with stage() as on:
        (on.folder / "tls").mkdir()
        made = certificates_for((HOST,), datetime.now(UTC))
        (on.folder / "tls" / "tls.crt").write_bytes(made.certificate)
        (on.folder / "tls" / "tls.key").write_bytes(made.key)
        LongestTurn.new(on.folder / TURN)
        peaks, to_make = [], large.INSTANCES
        for name in ("made", "found at the start"):
            began = time.monotonic()
            (on.folder / "ours.log").unlink(missing_ok=True)
            with started(operator, on) as program:
                metrics = served_at(on, "serving metrics and probes")
                large.create(Client(on.access), to_make)
                large.until_ready(program, metrics, large.INSTANCES)
                settle(program)
                peaks.append(large.Peak(name, program.peak_megabytes(), time.monotonic() - began))
            to_make = 0
        return peaks


def report_large(peaks: Sequence[large.Peak], memory: float) -> list[str]:
    """Print a line for each, and return what exceeds the limit."""
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}")
    told = [f"large: {large.INSTANCES} instances of {large.BYTES / 1e6:g} MB, {peak.name}" for peak in peaks]
    for name, peak in zip(told, peaks, strict=True):
        print(f"{peak.megabytes:8.1f} MiB at most {peak.seconds:8.0f} s  {name}")
    beyond = [(name, peak.megabytes) for name, peak in zip(told, peaks, strict=True) if peak.megabytes > memory]
    return [f"{name}: {megabytes:.0f} MiB resident" for name, megabytes in beyond]


def report(rows: Sequence[Row], stall: float, growth: float, answer: float) -> list[str]:
    """Print a line for each, the worst first, and return what exceeds the limits."""
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}")
    print(" healthz       review  longest turn      memory")
    for row in sorted(rows, key=lambda row: -max(row.stall, row.loop)):
        told = "" if row.taken else " (the API server takes it not)"
        seconds = f"{row.stall * 1000:5.0f} ms {row.loop * 1000:9.0f} ms {row.turn * 1000:10.0f} ms"
        print(f"{seconds} {row.growth:8.1f} MiB  {row.name}{told}")
    limits = [(row, answer if row.is_crowd else stall) for row in rows]
    beyond = [f"{row.name}: a review was answered after {row.loop:.2f} s" for row, most in limits if row.loop > most]
    beyond += [f"{row.name}: /healthz answered after {row.stall:.2f} s" for row, most in limits if row.stall > most]
    beyond += [f"{row.name}: memory grew by {row.growth:.0f} MiB" for row in rows if row.growth > growth]
    return beyond + [f"{row.name}: {row.refused} probes or reviews were not answered" for row in rows if row.refused]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stall", type=float, default=0.25, help="seconds that a probe may take")
    parser.add_argument("--growth", type=float, default=64.0, help="MiB that memory may grow by for an object")
    parser.add_argument("--answer", type=float, default=1.0, help="seconds that an answer beside a crowd may take")
    parser.add_argument("--memory", type=float, default=256.0, help="MiB that may be resident beside large instances")
    parser.add_argument("--beside-kopf", action="store_true", help="measure a kopf operator too")
    parser.add_argument("--only", default="", help="objects whose name holds this text")
    options = parser.parse_args()
    problems = []
    if options.only != LARGE:
        problems += report(measure(options.only), options.stall, options.growth, options.answer)
    if options.only in LARGE:
        problems += report_large(measure_large(), options.memory)
    if options.beside_kopf:
        print("\nkopf, beside it:")
        report(measure_kopf(options.only), options.stall, options.growth, options.answer)
    for problem in problems:
        print(f"not as it should be: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Boxes: the cost of a decision, a check, a start, many boxes, and a roll-out.

    python -m bench.boxes [--parents 1000] [--boxes 50] [applied rollout …]

The operators run as processes on the embedded API server over HTTP, or with KUBEBUILDER_ASSETS on a kube-apiserver.
Writes are counted in the audit log, processor time and memory read from `/proc`. `bench.neighbours` measures a box next
to operators by other frameworks.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import yaml

from bench.machine import describe, line
from bench.operators import BIN, ROOT, Program, process_named, processor_seconds
from bench.reaching import AGENT, Access, Client
from bench.stage import everything_for
from bench.writes import POLICY
from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import NAMESPACE
from purekube.boxes.decision.decide import composite_of, decide
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.composites.observe import observe_live
from purekube_kit.kube_apiserver import OPERATOR_USER, Assets, RealServer, assets_of, audit_flags, started
from purekube_run.boxes.load import load_box, runnable
from purekube_run.simulation.extensions.box_world import BoxWorld

FILE: Final = ROOT / "bench" / "webapp.yaml"
CRD: Final = ROOT / "examples" / "boxes" / "webapp-crd.yaml"
SPACE: Final = "bench"
WEBAPP: Final = Kind("example.com", "v1", "WebApp", "webapps")
SPEC: Final = {"image": "registry.example/web:1", "replicas": 2, "host": "web.example.com"}
PATIENCE: Final = 600.0
ROOM: Final = ("--service-cluster-ip-range=10.0.0.0/12", "--service-node-port-range=10000-60000")
"""Flags of kube-apiserver with addresses and ports for many Services."""


# --- in this process --------------------------------------------------------------------------------------------------


@contextmanager
def settled_world() -> Iterator[BoxWorld]:
    """Yield a world in memory, on a virtual clock, with a WebApp that has become Ready."""
    (box,) = runnable([load_box(str(FILE))])
    with BoxWorld(box) as world:
        world.create({**box.kind.manifest("web", SPACE), "spec": SPEC}, box.kind)
        world.settle()
        assert "Ready=True" in world.timeline[-1], world.timeline
        yield world


def decisions() -> None:
    """Measure decisions about a settled object in processor time, and print how it became settled."""
    with settled_world() as world:
        _decisions(world)


def _decisions(world: BoxWorld) -> None:
    manifest = world.get(ObjectRef(world.box.kind, SPACE, "web"))
    assert manifest is not None
    parent = composite_of(world.box).read(manifest)
    observed = run_sync(observe_live(world.admin, composite_of(world.box), parent))
    samples = []
    for _ in range(5):
        before = time.process_time()
        for _ in range(400):
            decision = decide(world.box, parent, observed, world.now())
        samples.append(400 / (time.process_time() - before))
    assert not decision.applies
    print(line("settled decisions of a box with 5 resources", samples, "a second", "2,500"))
    statuses = sum("status:" in entry for entry in world.timeline)
    told = f"{world.writes} writes from creation to Ready, {statuses} of them statuses as pods and addresses come"
    print(f"{told}; one after the other, simulated pods a second apart")
    writes, passed = world.writes, world.seconds
    world.run(3600)
    print(f"writes in an hour when settled: {world.writes - writes} ({world.seconds - passed:.0f} s)")


def check(folder: Path) -> None:
    """Measure `box check` of 20 resources with 200 expressions: in this process, and as a command."""
    file = folder / "large.yaml"
    file.write_text(large_box(20), encoding="utf-8")
    (folder / CRD.name).write_bytes(CRD.read_bytes())
    samples = []
    for _ in range(5):
        before = time.process_time()
        loaded_box = load_box(str(file))
        samples.append(time.process_time() - before)
    assert not loaded_box.problems, loaded_box.problems
    print(line(f"check of 20 resources, {loaded_box.examination.expressions} expressions", samples, "s", "0.3 s"))
    samples = [processor_time([str(BIN / "vworkspace-operator"), "box", "check", str(file)]) for _ in range(3)]
    print(line("the same as a command, processor time", samples, "s", "0.8 s"))


def processor_time(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def large_box(count: int) -> str:
    """Return a box with `count` Deployments of ten expressions each."""
    resources = [
        {
            "id": f"web{at}",
            "when": ["${self.spec.replicas > 0 && self.metadata.name != 'none'}"],
            "template": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": f"${{self.metadata.name}}-{at}", "labels": {"image": "${hash(self.spec.image)}"}},
                "spec": {
                    "replicas": f"${{self.spec.replicas + {at}}}",
                    "selector": {"matchLabels": {"app": f"${{self.metadata.name}}-{at}"}},
                    "template": {
                        "metadata": {"labels": {"app": f"${{self.metadata.name + '-{at}'}}"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "web",
                                    "image": "${self.spec.image.lowerAscii()}",
                                    "env": [
                                        {"name": "HOST", "value": "${self.spec.?host.orValue('none')}"},
                                        {"name": "SIZE", "value": "${string(self.spec.replicas * 2)}"},
                                        {"name": "ME", "value": "${self.metadata.?labels.?app.orValue('web')}"},
                                        {"name": "NAMES", "value": "${['a', 'b'].map(n, n + 'x').join(',')}"},
                                    ],
                                }
                            ]
                        },
                    },
                },
            },
        }
        for at in range(count)
    ]
    spec = {"crd": CRD.name, "resources": resources}
    head = {"apiVersion": "box.vworkspace.io/v1alpha1", "kind": "OperatorBox", "metadata": {"name": "large"}}
    return json.dumps({**head, "spec": spec})


# --- a cluster and an operator as processes ---------------------------------------------------------------------------


@attrs.define
class Cluster:
    """A served API server, its process, and its audit log."""

    access: Access
    folder: Path
    server: int
    dry_runs: int = 0
    """The operator's dry runs among the read entries of the log."""
    _paths: list[str] = attrs.field(factory=list)
    _read: int = 0

    @property
    def client(self) -> Client:
        return Client(self.access)

    def writes(self) -> int:
        """Return the number of the operator's writes so far, without Events, Leases, access reviews and dry runs."""
        return len(self.written())

    def written(self) -> Sequence[str]:
        """Return the paths of these writes."""
        with (self.folder / "audit").open("rb") as log:
            log.seek(self._read)
            rows, ends, _ = log.read().rpartition(b"\n")
        self._read += len(rows) + len(ends)
        for row in filter(_is_operators, map(msgspec.json.decode, rows.splitlines())):
            path = str(row.get("requestURI") or row["path"])
            if row.get("dry_run") or "dryRun" in path:
                self.dry_runs += 1
            else:
                self._paths.append(path)
        return self._paths

    def server_processor_seconds(self) -> float:
        """Return the processor time of the API server, without its etcd."""
        return processor_seconds(self.server)


def _is_operators(row: dict[str, Any]) -> bool:
    """Report whether an audit log's entry is a write of the operator.

    It may be from either server's log; kube-apiserver's has writes only.
    """
    if "auditID" in row:
        path, is_its = row["requestURI"], row["user"]["username"] == OPERATOR_USER
    else:
        path, is_its = row["path"], row["method"] != "GET" and not row["agent"].startswith(AGENT)
    return is_its and not any(part in path for part in ("/events", "/leases", "/selfsubjectaccessreviews"))


@contextmanager
def cluster(*crds: Path) -> Iterator[Cluster]:
    """Run the embedded API server, or a kube-apiserver if there is one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vworkspace-bench-")))
        assets = assets_of(os.environ)
        if isinstance(assets, Assets):
            server = stack.enter_context(started(assets, *audit_flags(folder / "audit", POLICY), *ROOM))
            found = _on_real(server, folder, crds)
        else:
            found = stack.enter_context(_embedded(folder, crds))
        found.client.send("POST", "/api/v1/namespaces", encoded(NAMESPACE.manifest(SPACE)))
        yield found


def _on_real(server: RealServer, folder: Path, crds: Sequence[Path]) -> Cluster:
    """Return the cluster with its CRDs, and with every right for the operator, as roles are not measured."""
    access = Access(server.url, server.token, server.operator_token, server.authority.decode())
    (folder / "kc").write_text(json.dumps(access.kubeconfig(access.operator)), encoding="utf-8")
    found = Cluster(access, folder, process_named("kube-apiserver"))
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    found.client.send("POST", roles, encoded(everything_for(OPERATOR_USER)))
    definitions = [yaml.safe_load(crd.read_text(encoding="utf-8")) for crd in crds]
    for crd in definitions:
        found.client.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", encoded(crd))
    for crd in definitions:
        _until_served(found.client, crd["spec"])
    return found


def _until_served(client: Client, spec: dict[str, Any]) -> None:
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    until = time.perf_counter() + PATIENCE
    while True:
        try:
            client.send("GET", path)
        except AssertionError:
            assert time.perf_counter() < until, path
            time.sleep(0.1)
        else:
            return


@contextmanager
def _embedded(folder: Path, crds: Sequence[Path]) -> Iterator[Cluster]:
    """Run the embedded API server."""
    words = ["cluster", "--bare", "--kubeconfig-out", str(folder / "kc"), "--audit-log", str(folder / "audit")]
    words += [word for crd in crds for word in ("--crds", str(crd))]
    command = [str(BIN / "vworkspace-operator"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Cluster(Access(process.stdout.readline().split()[1]), folder, process.pid)
        finally:
            process.kill()


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


@contextmanager
def operator(on: Cluster, name: str, *words: str, **variables: str) -> Iterator[Program]:
    log = (on.folder / f"{name}.log").open("ab")
    environment = {**os.environ, "KUBECONFIG": str(on.folder / "kc"), **variables}
    program = Program(name, subprocess.Popen(words, stdout=log, stderr=log, env=environment, cwd=ROOT))
    try:
        yield program
    finally:
        program.stop()


def ours(on: Cluster, *files: Path) -> Any:
    listed = [str(file) for file in files or (FILE,)]
    return operator(on, "box", str(BIN / "vworkspace-operator"), "box", "run", *listed, "--log-level", "info")


def is_ready(live: dict[str, Any]) -> bool:
    conditions = (live.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def webapp(name: str) -> bytes:
    return encoded({**WEBAPP.manifest(name, SPACE), "spec": SPEC})


def settled(on: Cluster) -> int:
    """Return the number of writes so far, once there have been none for a second."""
    last, since = on.writes(), time.perf_counter()
    while time.perf_counter() - since < 1.0:
        time.sleep(0.1)
        if (now := on.writes()) != last:
            last, since = now, time.perf_counter()
    return last


# --- many -------------------------------------------------------------------------------------------------------------


def plain_box(name: str, resources: int, crd: str) -> str:
    """Return a box of ConfigMaps, which are ready at once."""
    listed = [
        {
            "id": f"part{at}",
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"${{self.metadata.name}}-{at}"},
                "data": {"image": "${self.spec.image}"},
            },
        }
        for at in range(resources)
    ]
    head = {"apiVersion": "box.vworkspace.io/v1alpha1", "kind": "OperatorBox", "metadata": {"name": name}}
    return json.dumps({**head, "spec": {"crd": crd, "resources": listed}})


def reconciled(url: str) -> float:
    """Return the number of passes so far, from the metrics."""
    try:
        rows = Client(url).send("GET", "/metrics").decode().splitlines()
    except OSError:
        return 0
    return sum(float(row.rpartition(" ")[2]) for row in rows if row.startswith("controller_runtime_reconcile_total{"))


def restart(parents: int, folder: Path) -> None:
    """Measure a start with nothing to do, of parents with five children each, until all have been reconciled."""
    file = folder / "plain.yaml"
    file.write_text(plain_box("plain", 5, CRD.name), encoding="utf-8")
    (folder / CRD.name).write_bytes(CRD.read_bytes())
    listen = "127.0.0.1:18181"
    with cluster(CRD) as on:
        command = [str(BIN / "vworkspace-operator"), "box", "run", str(file), "--listen", listen]
        with operator(on, "first", *command) as program:
            path, client = f"/apis/example.com/v1/namespaces/{SPACE}/webapps", on.client
            for at in range(parents):
                client.send("POST", path, webapp(f"web-{at}"))
            until = time.perf_counter() + PATIENCE
            while on.writes() < 7 * parents:  # finalizer, five children, status
                assert time.perf_counter() < until
                time.sleep(1)
            writes = settled(on)
            used = program.processor_seconds()
        print(f"{parents} parents with 5 children: {writes / parents:.1f} writes, {1000 * used / parents:.1f} ms each")
        began = time.perf_counter()
        with operator(on, "again", *command) as program:
            while reconciled(f"http://{listen}") < parents:
                assert time.perf_counter() - began < PATIENCE
                time.sleep(0.1)
            took, used, memory = time.perf_counter() - began, program.processor_seconds(), program.peak_megabytes()
            after = settled(on) - writes
        print(f"a restart with them: {took:.1f} s, {used:.1f} s of processor time, {memory:.0f} MB, {after} writes")
        print("  aims: 8 s, 150 MB, 0 writes")


def many_boxes(count: int, folder: Path) -> None:
    """Measure the start of one process with many boxes of ten resources each, until the last one is ready."""
    text, files, crds = CRD.read_text(encoding="utf-8"), [], []
    for at in range(count):
        crd, file = folder / f"web{at}-crd.yaml", folder / f"web{at}.yaml"
        crd.write_text(text.replace("webapp", f"web{at}app").replace("WebApp", f"Web{at}App"), encoding="utf-8")
        file.write_text(plain_box(f"web{at}", 10, crd.name), encoding="utf-8")
        files.append(file)
        crds.append(crd)
    with cluster(*crds) as on:
        began = time.perf_counter()
        with ours(on, *files) as program:
            log = on.folder / "box.log"
            while log.read_text(encoding="utf-8").count("caches of the box are settled") < count:
                assert time.perf_counter() - began < PATIENCE
                time.sleep(0.05)
            took, used = time.perf_counter() - began, processor_seconds(program.process.pid)
            print(f"{count} boxes of 10 resources start in {took:.1f} s, {used:.1f} s of processor time, ", end="")
            print(f"{program.peak_megabytes():.0f} MB; aim: 5 s")


# --- applied ----------------------------------------------------------------------------------------------------------


@attrs.define
class Applied:
    """Boxes that are applied to a cluster, and the process that runs them. A box makes one ConfigMap an object."""

    on: Cluster
    program: Program

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator["Applied"]:
        crd = folder / "operatorbox-crd.yaml"
        crd.write_text(json.dumps(applied_box_definition()), encoding="utf-8")
        command = [str(BIN / "vworkspace-operator"), "box", "run", "--applied", "--namespace", SPACE]
        with cluster(crd) as on, operator(on, "applied", *command) as program:
            yield cls(on, program)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.on.client.send(method, path, None if body is None else encoded(body), kind)
        return msgspec.json.decode(answer)

    def add(self, name: str) -> None:
        definition = yaml.safe_load(CRD.read_text(encoding="utf-8").replace("webapp", f"{name}app"))
        definition["spec"]["names"] |= {
            "kind": f"{name}App".capitalize(),
            "listKind": f"{name}App".capitalize() + "List",
        }
        box = json.loads(plain_box(name, 1, ""))
        box["spec"] |= {"crd": {"spec": definition["spec"]}, "rollout": {"maxUnavailable": "100%"}}
        self.send("POST", BOXES, box)

    def add_objects(self, name: str, count: int) -> None:
        kind = Kind("example.com", "v1", f"{name}App".capitalize(), f"{name}apps")
        for at in range(count):
            manifest = {**kind.manifest(f"{name}-{at}", SPACE), "spec": SPEC}
            self.send("POST", f"/apis/example.com/v1/namespaces/{SPACE}/{kind.plural}", manifest)

    def change(self, name: str) -> None:
        box = self.send("GET", f"{BOXES}/{name}")
        box["spec"]["resources"][0]["template"]["data"]["more"] = "x"
        self.send("PATCH", f"{BOXES}/{name}", {"spec": {"resources": box["spec"]["resources"]}})

    def wait(self, count: int, objects: int) -> None:
        """Wait until so many boxes are rolled out at their present generation, each to this many objects.

        A slow machine may take as long as it needs; what comes to a standstill may not.
        """
        since, ready, done = time.perf_counter(), 0, 0
        while done < count:
            assert self.program.process.poll() is None, "the operator has ended"
            time.sleep(0.2)
            boxes = self.send("GET", BOXES)["items"]
            done = sum(_is_rolled_out(box, objects) for box in boxes)
            former, ready = ready, done + sum((box.get("status") or {}).get("ready", 0) for box in boxes)
            since = time.perf_counter() if ready > former else since
            told = f"{done} of {count} boxes are rolled out, and nothing moves: {_reasons(boxes)}"
            assert time.perf_counter() - since < PATIENCE, told


BOXES: Final = "/apis/box.vworkspace.io/v1alpha1/operatorboxes"


def _reasons(boxes: Sequence[dict[str, Any]]) -> str:
    """Return how many boxes have each reason of their conditions."""
    conditions = (each for box in boxes for each in (box.get("status") or {}).get("conditions") or ())
    reasons = Counter(f"{each['type']}={each['status']}/{each['reason']}" for each in conditions)
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "no status"


def _is_rolled_out(box: dict[str, Any], objects: int) -> bool:
    status, generation = box.get("status") or {}, box["metadata"]["generation"]
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    told = conditions.get("RolledOut", {})
    is_current = told.get("observedGeneration") == generation and status.get("ready") == objects
    return bool(is_current and told["status"] == "True")


def applied(count: int, parents: int, folder: Path) -> None:
    """Measure many applied boxes with many objects in one process, and one more box."""
    with Applied.running(folder) as boxes:
        names = [f"web{at}" for at in range(count)]
        for name in names:
            boxes.add(name)
        boxes.wait(count, 0)
        used, began = boxes.program.processor_seconds(), time.perf_counter()
        print(f"{count} applied boxes: {1000 * used / count:.0f} ms of processor time each, with the start")
        for name in names:
            boxes.add_objects(name, parents)
        boxes.wait(count, parents)
        took, total = time.perf_counter() - began, boxes.program.processor_seconds() - used
        memory = boxes.program.peak_megabytes()
        print(f"{parents} objects each: Ready after {took:.0f} s, {total:.0f} s of processor time; ", end="")
        print(f"{memory:.0f} MB; aim: 400 MB")
        _changed(boxes, names[0], parents)
        settled(boxes.on)
        used = boxes.program.processor_seconds()
        boxes.add("further")
        while not _is_rolled_out(boxes.send("GET", f"{BOXES}/further"), 0):
            time.sleep(0.05)
        print(f"one more box: {boxes.program.processor_seconds() - used:.2f} s of processor time; aim: 1 s")


def _changed(boxes: Applied, name: str, parents: int) -> None:
    """Change a box, and print which objects were written, and how long its roll-out took."""
    settled(boxes.on)
    before, used, began = boxes.on.writes(), boxes.program.processor_seconds(), time.perf_counter()
    boxes.change(name)
    while not _is_rolled_out(boxes.send("GET", f"{BOXES}/{name}"), parents):
        time.sleep(0.1)
    took, total = time.perf_counter() - began, boxes.program.processor_seconds() - used
    settled(boxes.on)
    paths = boxes.on.written()[before:]
    strange = [path for path in paths if f"/{name}" not in path and not path.endswith("/controllerrevisions")]
    children = sum("/configmaps/" in path for path in paths)
    print(f"a changed box: {took:.1f} s, {total:.1f} s of processor time; {len(paths)} writes, ", end="")
    print(f"{children} of them of the {parents} children; {len(strange)} of other boxes or their objects")


def rollout(parents: int, folder: Path) -> None:
    """Measure the roll-out of a changed box over many objects."""
    with Applied.running(folder) as boxes:
        boxes.add("web")
        boxes.wait(1, 0)
        boxes.add_objects("web", parents)
        boxes.wait(1, parents)
        _changed(boxes, "web", parents)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--parents", type=int, default=1000)
    arguments.add_argument("only", nargs="*", help="decisions, check, restart, boxes, applied, rollout; all by default")
    arguments.add_argument("--boxes", type=int, default=50)
    given = arguments.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory(prefix="vworkspace-bench-") as name:
        folder = Path(name)
        measurements: dict[str, Callable[[], None]] = {
            "decisions": decisions,
            "check": partial(check, folder),
            "restart": partial(restart, given.parents, folder),
            "boxes": partial(many_boxes, given.boxes, folder),
            "applied": partial(applied, given.boxes, given.parents // 10, folder),
            "rollout": partial(rollout, given.parents, folder),
        }
        for only in given.only or measurements:
            measurements[only]()
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The same WebApp by a box, kro, kopf and controller-runtime, one after the other on one API server.

    python -m bench.neighbours [--parents 100 1000] [--rounds 2] [--operators box applied kro kro-16 kopf …]

The order rotates in each round. The kube-apiserver, kro and the program with controller-runtime are those of
`tools.cluster`, which builds them if the cache lacks them. Without kro and controller-runtime among the operators the
server is the embedded one, or with KUBEBUILDER_ASSETS a kube-apiserver. Each operator makes five objects for a parent,
in three phases. The measurement plays the controllers of Deployments, load balancers and ingresses, and answers at
once. The changed definition sets a field of each Deployment: in the applied object, or in the program, which is started
with it. Writes are counted in the audit log, without Events, Leases, access reviews and dry runs; processor time and
memory are read from `/proc`.
"""

import argparse
import importlib.metadata
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import yaml

from bench.boxes import BOXES, CRD, FILE, SPACE, SPEC, WEBAPP, Cluster, cluster, encoded, operator
from bench.machine import describe
from bench.operators import BIN, ROOT, Program
from bench.player import LIMIT, MERGE, PATIENCE, Player, path_of, wait
from bench.reaching import Client
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT, INGRESS, SERVICE, SERVICE_ACCOUNT
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from tools.cluster.build import build, module_folder
from tools.cluster.components import COMPONENTS
from tools.cluster.up import pins_of

BUILT: Final = ("kro", "controller-runtime")
"""The components of `tools.cluster` that are measured."""
QUIET: Final = 6.0
"""The seconds without work after which an operator is done; kro looks again after three."""
IDLE: Final = 5
"""The number of parents that are created one after the other."""


# --- the operators ----------------------------------------------------------------------------------------------------


@attrs.frozen
class Definition:
    """A definition that is applied to the cluster: its file, its path, and the condition of one that is in force."""

    file: Path
    path: str
    condition: str
    further: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of `spec` that the file has otherwise."""

    def apply(self, client: Client, *, changed: bool = False) -> None:
        body = {**_definition(self.file, changed=changed)}
        body["spec"] = {**body["spec"], **self.further}
        client.send(
            "PATCH", f"{self.path}?fieldManager=bench&force=true", encoded(body), "application/apply-patch+yaml"
        )

    def until_in_force(self, client: Client) -> None:
        until = time.perf_counter() + PATIENCE
        while not self._is_in_force(msgspec.json.decode(client.send("GET", self.path))):
            assert time.perf_counter() < until, f"{self.path} never came into force"
            time.sleep(0.1)

    def _is_in_force(self, live: dict[str, Any]) -> bool:
        generation, conditions = live["metadata"]["generation"], (live.get("status") or {}).get("conditions") or ()
        told = {each["type"]: each for each in conditions}.get(self.condition, {})
        return (told.get("status"), told.get("observedGeneration")) == ("True", generation)


def _definition(file: Path, *, changed: bool) -> dict[str, Any]:
    """Return the definition in a file; both kinds of definitions list their resources alike."""
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    web = next(each for each in found["spec"]["resources"] if each["id"] == "web")
    web["template"]["spec"] |= {"revisionHistoryLimit": LIMIT} if changed else {}
    return found


@attrs.frozen
class Neighbour:
    """An operator of WebApps. Without a definition in the cluster its program has it, and is started with a change."""

    name: str
    words: Callable[[Cluster, bool], Sequence[str]]
    kind: Kind = WEBAPP
    definition: Definition | None = None

    def running(self, on: Cluster, *, changed: bool = False) -> AbstractContextManager[Program]:
        variables = {"REVISION_HISTORY_LIMIT": str(LIMIT)} if changed else {}
        return operator(on, self.name, *self.words(on, changed), **variables)


def _box(on: Cluster, changed: bool) -> Sequence[str]:
    body = _definition(FILE, changed=changed)
    body["spec"]["crd"] = str(CRD)
    (on.folder / FILE.name).write_text(json.dumps(body), encoding="utf-8")
    return str(BIN / "vworkspace-operator"), "box", "run", str(on.folder / FILE.name)


def _applied(on: Cluster, changed: bool) -> Sequence[str]:
    return str(BIN / "vworkspace-operator"), "box", "run", "--applied", "--namespace", SPACE


def _kro(*words: str) -> Callable[[Cluster, bool], Sequence[str]]:
    flags = ("--health-probe-bind-address=0", "--metrics-bind-address=0", *words)
    return lambda on, changed: (_program("kro"), f"--kubeconfig={on.folder / 'kc'}", *flags)


def _program(name: str) -> str:
    return str(Path(os.environ["KUBEBUILDER_ASSETS"], name))


KRO: Final = Kind("kro.run", "v1alpha1", "WebApp", "webapps")
OBJECT: Final = Definition(
    FILE,
    f"{BOXES}/webapp",
    "RolledOut",
    {"crd": {"name": WEBAPP.crd_name}, "rollout": {"maxUnavailable": "100%"}},
)
GRAPH: Final = Definition(
    FILE.with_name("webapp-rgd.yaml"), "/apis/kro.run/v1alpha1/resourcegraphdefinitions/webapp", "Ready"
)
FAST: Final = ("--dynamic-controller-concurrent-reconciles=16", "--client-qps=1000", "--client-burst=2000")
KOPF: Final = (str(BIN / "kopf"), "run", "--standalone", "--all-namespaces", str(ROOT / "bench" / "kopf_webapp.py"))
NEIGHBOURS: Final = {
    each.name: each
    for each in (
        Neighbour("box", _box),
        Neighbour("applied", _applied, definition=OBJECT),
        Neighbour("kro", _kro(), KRO, GRAPH),
        Neighbour("kro-16", _kro(*FAST), KRO, GRAPH),
        Neighbour("kopf", lambda on, changed: KOPF),
        Neighbour("controller-runtime", lambda on, changed: (_program("controller-runtime"), "webapp")),
    )
}


# --- measuring --------------------------------------------------------------------------------------------------------


@attrs.frozen
class Meter:
    """The use of an operator and of the API server since its construction; `used` is what the program had used then."""

    on: Cluster
    program: Program
    used: float = 0.0
    began: float = attrs.field(factory=time.perf_counter)
    written: int = attrs.field(default=attrs.Factory(lambda self: self.on.writes(), takes_self=True))
    served: float = attrs.field(default=attrs.Factory(lambda self: self.on.server_processor_seconds(), takes_self=True))

    @property
    def paths(self) -> Sequence[str]:
        return self.on.written()[self.written :]

    def cost(self, parents: int) -> dict[str, float]:
        return {
            "writes a parent": len(self.paths) / parents,
            "operator's CPU a parent, ms": 1000 * (self.program.processor_seconds() - self.used) / parents,
            "API server's CPU a parent, ms": 1000 * (self.on.server_processor_seconds() - self.served) / parents,
        }

    def quiet(self) -> float:
        """Wait until the operator is done; return the seconds from `began` to its last write or work."""
        last, since = self._work(), time.perf_counter()
        while time.perf_counter() - since < QUIET:
            time.sleep(0.2)
            now = self._work()
            if now[0] > last[0] or now[1] - last[1] > 0.05:
                since = time.perf_counter()
            last = now
        return since - self.began

    def _work(self) -> tuple[int, float]:
        return self.on.writes(), self.program.processor_seconds()


def measure(on: Cluster, player: Player, which: Neighbour, parents: int, prefix: str) -> dict[str, float]:
    """Measure one operator, and remove all its objects."""
    idle, names = ([f"{prefix}-{part}{at}" for at in range(count)] for part, count in (("i", IDLE), ("n", parents)))
    found, definition = {"load average before": os.getloadavg()[0]}, which.definition
    try:
        with which.running(on) as program:
            if definition is not None:
                definition.apply(on.client)
                definition.until_in_force(on.client)
            _create(on.client, player, which.kind, idle)
            Meter(on, program).quiet()
            found |= _created(Meter(on, program, program.processor_seconds()), player, which.kind, names)
        with which.running(on) as program:
            found |= _restarted(Meter(on, program))
            if definition is not None:
                meter = Meter(on, program, program.processor_seconds())
                definition.apply(on.client, changed=True)
                found |= _changed(meter, player, [*idle, *names])
        if definition is None:
            with which.running(on, changed=True) as program:
                found |= _changed(Meter(on, program), player, [*idle, *names])
        return {**found, "idle: child's report to the next child, ms": statistics.median(player.reactions(idle))}
    finally:
        clear(on.client, which.kind)


def _create(client: Client, player: Player, kind: Kind, names: Sequence[str]) -> None:
    """Create parents, each when the one before is Ready."""
    for name in names:
        client.send("POST", path_of(kind), encoded({**kind.manifest(name, SPACE), "spec": SPEC}))
        wait(player.ready, [name])


def _created(meter: Meter, player: Player, kind: Kind, names: Sequence[str]) -> dict[str, float]:
    """Measure the creation of many parents at once."""
    client = meter.on.client
    for name in names:
        client.send("POST", path_of(kind), encoded({**kind.manifest(name, SPACE), "spec": SPEC}))
    took = wait(player.ready, names) - meter.began
    meter.quiet()
    cost = {f"created: {what}": value for what, value in meter.cost(len(names)).items()}
    return {"created: all Ready, s": took, **cost, "created: peak memory, MB": meter.program.peak_megabytes()}


def _restarted(meter: Meter) -> dict[str, float]:
    """Measure a start with nothing to do."""
    took, used = meter.quiet(), meter.program.processor_seconds()
    return {"restart: quiet after, s": took, "restart: writes": len(meter.paths), "restart: operator's CPU, s": used}


def _changed(meter: Meter, player: Player, names: Sequence[str]) -> dict[str, float]:
    """Measure how a changed definition reaches every Deployment."""
    dry, took = meter.on.dry_runs, wait(player.changed, names) - meter.began
    meter.quiet()
    children = sum("/deployments/" in path for path in meter.paths)
    return {
        "changed: all children have it, s": took,
        "changed: writes a changed child": children / len(names),
        **{f"changed: {what}": value for what, value in meter.cost(len(names)).items()},
        "changed: dry runs a parent": (meter.on.dry_runs - dry) / len(names),
    }


def clear(client: Client, parents: Kind) -> None:
    """Delete the parents, without their finalizers as the operator is gone, and their children."""
    for parent in msgspec.json.decode(client.send("GET", path_of(parents)))["items"]:
        if parent["metadata"].get("finalizers"):
            path = path_of(parents, parent["metadata"]["name"])
            client.send("PATCH", path, encoded({"metadata": {"finalizers": None}}), MERGE)
    for kind in (parents, DEPLOYMENT, SERVICE, INGRESS, CONFIG_MAP, SERVICE_ACCOUNT):
        client.send("DELETE", path_of(kind))


# --- the table --------------------------------------------------------------------------------------------------------


Results = dict[str, list[dict[str, float]]]
"""The measurements by the name of the operator, a row of each round."""


def table(found: Results) -> Iterator[str]:
    """Yield a table in Markdown: medians, ranges if there are several rounds, and how many times that of the first."""
    names = list(found)
    yield f"| what | {' | '.join(names)} |"
    yield f"|---{'|---' * len(names)}|"
    for what in found[names[0]][0]:
        samples = [[row[what] for row in found[name]] for name in names]
        base = statistics.median(samples[0])
        cells = [
            _cell(each) + (_times(each, base) if at and "load" not in what else "") for at, each in enumerate(samples)
        ]
        yield f"| {what} | {' | '.join(cells)} |"


def _cell(samples: Sequence[float]) -> str:
    low, high = _number(min(samples)), _number(max(samples))
    return _number(statistics.median(samples)) + (f" ({low} to {high})" if low != high else "")


def _times(samples: Sequence[float], base: float) -> str:
    return f"; {_number(statistics.median(samples) / base)}x" if base else ""


def _number(value: float) -> str:
    if value >= 100 or abs(value - round(value)) < 0.01:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 10 else f"{value:.2g}"


@contextmanager
def served(names: Sequence[str]) -> Iterator[tuple[Cluster, Player, str]]:
    """Run the API server with all definitions; yield it with the player of the controllers, and the versions."""
    with tempfile.TemporaryDirectory(prefix="vworkspace-bench-") as folder:
        boxes = Path(folder, "operatorbox-crd.yaml")
        boxes.write_text(json.dumps(applied_box_definition()), encoding="utf-8")
        crds, versions = [CRD, boxes], {"kopf": importlib.metadata.version("kopf")}
        if any(name not in ("box", "applied", "kopf") for name in names):
            pins = pins_of(BUILT)
            os.environ["KUBEBUILDER_ASSETS"] = str(build(pins.values(), print))
            versions |= {name: pins[name].version for name in ("kubernetes", *BUILT)}
            for pin, module, pattern in COMPONENTS["kro"].crds:
                crds += sorted(module_folder(pins[pin], module).glob(pattern))
        with cluster(*crds) as on:
            player = Player(on)
            player.start(*{NEIGHBOURS[name].kind for name in names})
            yield on, player, ", ".join(f"{name} {version}" for name, version in versions.items())


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--parents", type=int, nargs="+", default=[100])
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--operators", nargs="+", choices=NEIGHBOURS, default=list(NEIGHBOURS))
    given = arguments.parse_args()
    with served(given.operators) as (on, player, versions):
        for parents in given.parents:
            found: Results = {name: [] for name in given.operators}
            for turn in range(given.rounds):
                at = turn % len(given.operators)
                for name in (*given.operators[at:], *given.operators[:at]):
                    prefix = f"{name}-{parents}-{turn}"
                    found[name].append(measure(on, player, NEIGHBOURS[name], parents, prefix))
                    print(f"{prefix}: {json.dumps(found[name][-1])}", flush=True)
            print(f"\n{parents:,} parents, {given.rounds} rounds, {datetime.now(UTC):%Y-%m-%d}, {describe()}", end="; ")
            print(f"{versions}\n")
            print("\n".join(table(found)), flush=True)


if __name__ == "__main__":
    main()

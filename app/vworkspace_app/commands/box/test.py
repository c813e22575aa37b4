"""The command `box test`, which runs a box's scenarios and tests its laws on random objects of its kind (SEE-3).

A box is an operator that a YAML file declares. A law is a property that every controller must have, such as writing
nothing in the steady state.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import attrs

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.secret_material import safe
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.composites.observe import observe_live
from purekube_run.boxes.load import further_crds, load_box, runnable
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump
from purekube_run.simulation.extensions.box_laws import BrokenBoxLaw, Rested, try_example
from purekube_run.simulation.extensions.box_world import BoxWorld
from purekube_run.simulation.extensions.scenario import Outcome, run_scenario
from purekube_run.simulation.extensions.scenario_file import read_scenarios
from purekube_run.simulation.extensions.trial import FAULTS
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Crds
from vworkspace_core.overview.object_graph import ObjectGraph, graph_of_parent
from vworkspace_core.overview.trace import MOST_MOMENTS, Moment, Trace, written

_LAST: Final = 40
"""The number of lines that are shown of a timeline, from its end."""


@attrs.frozen
class BoxTestRequest:
    """The arguments of `box test`.

    If `seed` is None, a random seed is used and printed. `examples` is the number of random objects to test. `only` is
    the number of a single one to test instead, or None.
    """

    file: str
    tests: Sequence[str] = ()
    crds: Sequence[Path] = ()
    examples: int = 50
    seed: int | None = None
    only: int | None = None
    trace: Path | None = None


def try_box(request: BoxTestRequest) -> tuple[str, bool]:
    """Run the scenarios of a box, and test the laws (required properties) on random objects of its kind.

    Return the report, and True if every scenario passed and no law was broken. Raises CommandError for malformed files.
    """
    crds = list(further_crds(request.crds))
    (box,) = runnable([load_box(request.file, crds)])
    definitions = [crd.manifest for crd in crds if crd.manifest["metadata"]["name"] != box.kind.crd_name]
    lines, held = [], True
    recorder = Recorder()
    note = recorder.note if request.trace is not None else _note_nothing
    outcomes = [run_scenario(box, definitions, scenario, note) for scenario in read_scenarios(_files(request))]
    for outcome in outcomes:
        lines += _result_lines(outcome)
        held = held and not outcome.problem
    if request.trace is not None:
        lines.append(_record(request.trace, f"{box.kind.kind} of the box {box.name}", tuple(recorder.moments)))
    if request.examples or request.only is not None:
        seed = secrets.randbelow(10**6) if request.seed is None else request.seed
        told, law_held = _laws(box, definitions, request, seed)
        lines += told
        held = held and law_held
    return "".join(f"{line}\n" for line in lines), held


def _note_nothing(*moment: object) -> None:
    """Do nothing. This is the argument `on_moment` of `run_scenario` if no trace is written."""


def _record(path: Path, title: str, moments: tuple[Moment, ...]) -> str:
    """Write the trace file, and return a line of text that says how to open it. Raises CommandError."""
    if not moments:
        raise CommandError(f"--trace {path}: there is no scenario to write down", status=USAGE)
    try:
        path.write_bytes(b"".join(written(Trace(title, moments))))
    except OSError as error:
        raise CommandError(f"--trace {path}: cannot be written: {error.strerror}") from error
    return f"trace     {len(moments)} moments; look at them with: vworkspace-operator trace {path} --open"


def _files(request: BoxTestRequest) -> Sequence[str]:
    """Return the named test files.

    Without any, return `NAME-test.yaml` next to the box file `NAME.yaml`, if it exists.
    """
    if request.tests:
        return request.tests
    path = Path(request.file)
    beside = path.with_name(f"{path.stem}-test{path.suffix}")
    return [str(beside)] if beside.exists() else []


def _result_lines(outcome: Outcome) -> list[str]:
    verdict = "FAILED" if outcome.problem else "ok"
    head = f"scenario  {outcome.scenario.name}  {verdict}  {_span(outcome.seconds)} virtual, {outcome.writes} writes"
    if not outcome.problem:
        return [head]
    return [head, f"  {outcome.problem}", *(f"  {line}" for line in outcome.timeline[-_LAST:])]


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)} m {rest:g} s" if minutes else f"{rest:g} s"


def _laws(box: Box, definitions: Sequence[Manifest], request: BoxTestRequest, seed: int) -> tuple[list[str], bool]:
    numbers = range(request.examples) if request.only is None else (request.only,)
    rested: list[Rested] = []
    for number in numbers:
        tried = try_example(box, definitions, number, seed)
        if isinstance(tried, BrokenBoxLaw):
            return _broken(tried, request.file, seed), False
        rested.append(tried)
    what = f"{len(numbers)} examples of {box.kind.kind}, {len(FAULTS)} faults"
    lines = [f"laws      {what}  ok  seed {seed}"]
    if not any(each.ready for each in rested):
        lines.append(f"  warning: no example became Ready, so little was tried: {rested[-1].told}")
    return lines, True


def _broken(broken: BrokenBoxLaw, file: str, seed: int) -> list[str]:
    again = f"vworkspace-operator box test {file} --seed {seed} --example {broken.number}"
    return [
        f"laws      BROKEN: {broken.law}: {broken.told}",
        f"  again: {again}",
        *(f"  {line}" for line in dump([broken.example], Format.YAML).splitlines()),
        *(f"  {line}" for line in broken.timeline[-_LAST:]),
    ]


def play_box(
    file: Annotated[str, Parameter(name="FILE", help="The file of a box.")],
    tests: Annotated[
        list[str] | None,
        Parameter(name="TESTS", help="Files with scenarios; without any, FILE's neighbour with -test in its name."),
    ] = None,
    /,
    *,
    crds: Crds = None,
    examples: Annotated[int, Parameter(help="How many objects are drawn for the laws; 0 for none.")] = 50,
    seed: Annotated[int | None, Parameter(help="The seed of the draw; without it a new one is printed.")] = None,
    example: Annotated[int | None, Parameter(help="Only the example of this number.")] = None,
    trace: Annotated[
        Path | None,
        Parameter(help="Write what happened in the scenarios to this file, for `vworkspace-operator trace`."),
    ] = None,
) -> int:
    """Play a box's scenarios, and try laws on objects drawn from its CRD, without a cluster and without waiting.

    Workloads are simulated, and time is virtual. A scenario is data: the given objects, then steps (until, expect,
    gone, change, create, delete, fault, restart, after). A write with `refused` must be refused. A law is a property
    that every controller must have. The laws are tried without and with faults. An object comes to rest, and then
    nothing is written. Its conditions do not flap, and they name what it waits for. Faults leave no trace. A deleted
    object is removed with all its children. Exit status 1 says that an expectation or a law does not hold. Examples:

        vworkspace-operator box test webapp.yaml
        vworkspace-operator box test webapp.yaml more-tests.yaml --examples 200 --seed 7
        vworkspace-operator box test webapp.yaml --trace run.trace && vworkspace-operator trace run.trace --open
    """
    if examples < 0:
        raise CommandError(f"--examples {examples}: a number of objects, or 0 for none", status=USAGE)
    text, held = try_box(BoxTestRequest(file, tests or (), crds or (), examples, seed, example, trace))
    print(text, end="")
    return int(not held)


@attrs.define
class Recorder:
    """A recorder of the states of the simulated cluster while scenarios (tests of a box) run, for the file of
    `--trace`.

    Its method `note` is passed to `run_scenario` as the argument `on_moment`.
    """

    moments: list[Moment] = attrs.field(factory=list)
    _world: BoxWorld | None = None
    _lines: int = 0

    def note(self, world: BoxWorld, name: str, subject: ObjectRef, messages: tuple[str, ...]) -> None:
        """Record the present state of the simulated cluster around the object `subject`: the object and its children.

        `name` is the name of the scenario, a test of the box. `messages` are recorded with it, and so is what the box's
        controller has done since the last record. Nothing is recorded after `MOST_MOMENTS` records.
        """
        if world is not self._world:
            self._world, self._lines = world, 0
        if len(self.moments) >= MOST_MOMENTS:
            return
        lines = [line.partition(" s  ")[2] for line in world.timeline[self._lines :]]
        self._lines = len(world.timeline)
        wait = world.waits(subject)
        facts = {
            "virtual time": _span(world.seconds),
            "writes": str(world.writes),
            "looks again": "when woken" if wait is None else _span(wait),
        }
        text = tuple(safe(line) for line in (*lines, *messages))
        self.moments.append(Moment(world.now(), safe(f"{name}: {subject}"), _picture(world, subject), text, facts))


def _picture(world: BoxWorld, subject: ObjectRef) -> ObjectGraph:
    manifest = world.get(subject)
    if manifest is None:
        return ObjectGraph((), ())
    composite = composite_of(world.box)
    observed = run_sync(observe_live(world.admin, composite, composite.read(manifest)))
    return graph_of_parent(composite, manifest, observed, world.now())
